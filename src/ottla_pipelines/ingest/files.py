"""Reading of files as events: JSON lines, CSV, or a web server's access log (common or combined format).

Each line (in CSV, each row after the header) becomes one event with its row number, its time, and the group in which it
is counted. A line that cannot be parsed becomes an event in the group `(unreadable)`, so that no line is dropped.
"""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ottla.errors import ConfigurationError
from ottla_pipelines.catalog import EVENTS
from ottla_pipelines.ingest.events import Event, event

UNREADABLE = "(unreadable)"
NO_GROUP = "(all)"
_SAMPLE_ROWS = 1000
_MOST_GROUPS = 50
_GROUP_LENGTH = 200

_TIME_NAMES = ("time", "timestamp", "@timestamp", "ts", "time_hour", "datetime", "date", "event_time", "created_at")
_ACCESS_LINE = re.compile(
    r'(?P<host>\S+) \S+ (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
)


class Row(NamedTuple):
    """A line, or a row of CSV: its number from 1, its text (CSV as JSON), and its fields, None if unreadable."""

    number: int
    text: str
    fields: dict[str, Any] | None


def rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file in order. The format is detected from the first line and the file name. Raises
    ConfigurationError if it is unknown.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        first = file.readline()
        file.seek(0)
        if not first:
            return
        yield from _reader(path, first)(file)


def _reader(path: Path, first: str) -> Callable[[Any], Iterator[Row]]:
    if first.lstrip().startswith("{"):
        return _json_rows
    if _ACCESS_LINE.match(first):
        return _access_rows
    if path.suffix.lower() in (".csv", ".tsv") or "," in first:
        return _csv_rows
    raise ConfigurationError(f"--input {path}: not JSON lines, CSV or an access log: {first[:60]!r}")


def _json_rows(file: Any) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        text = line.rstrip("\r\n")
        try:
            fields = json.loads(text)
        except ValueError:
            fields = None
        yield Row(number, text, fields if isinstance(fields, dict) else None)


def _access_rows(file: Any) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        text = line.rstrip("\r\n")
        match = _ACCESS_LINE.match(text)
        yield Row(number, text, match.groupdict() if match else None)


def _csv_rows(file: Any) -> Iterator[Row]:
    delimiter = "\t" if file.name.lower().endswith(".tsv") else ","
    reader = csv.reader(file, delimiter=delimiter)
    header = next(reader)
    for number, values in enumerate(reader, start=1):
        fields = dict(zip(header, values, strict=True)) if len(values) == len(header) else None
        yield Row(number, json.dumps(fields if fields is not None else values, ensure_ascii=False), fields)


class Layout(NamedTuple):
    """The names of the fields with a row's time and with its group; None if there is no such field."""

    time: str | None
    group: str | None


def layout(path: Path, by: str | None) -> Layout:
    """Return the fields, detected from the first 1000 rows. `by` is the name of the group's field; by default it is
    `status`, or the first field with few distinct values.

    Raises ConfigurationError if no field is named `by`, or if the format of the file is unknown.
    """
    sample = [row.fields for row in itertools.islice(rows(path), _SAMPLE_ROWS) if row.fields]
    names = list(dict.fromkeys(name for fields in sample for name in fields))
    if by is not None and by not in names:
        raise ConfigurationError(f"--by {by}: {path} has no such field; it has {', '.join(names)}")
    time = next((n for time_name in _TIME_NAMES for n in names if n.lower() == time_name), None)
    if by is None and "status" in names:
        by = "status"
    return Layout(time, by or next((n for n in names if n != time and _has_few_values(sample, n)), None))


def _has_few_values(sample: list[dict[str, Any]], name: str) -> bool:
    values = {str(fields.get(name)) for fields in sample}
    return 2 <= len(values) <= _MOST_GROUPS and len(values) * 2 <= len(sample)


def events(path: Path, by: str | None = None) -> Iterator[Event]:
    """Yield the rows of a file as events. `by` is the name of the group's field, or None to detect it."""
    columns = layout(path, by)
    for row in rows(path):
        time, group = time_of(row, columns), group_of(row, columns)
        stamp = None if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"row": row.number, "time": stamp, "group": group, "event": row.text}
        yield event(EVENTS, group, fields, None if time is None else int(time.timestamp() * 1000))


def group_of(row: Row, columns: Layout) -> str:
    """Return the group in which a row is counted."""
    if row.fields is None:
        return UNREADABLE
    return NO_GROUP if columns.group is None else str(row.fields.get(columns.group))[:_GROUP_LENGTH]


def time_of(row: Row, columns: Layout) -> dt.datetime | None:
    """Return the time of a row in UTC, without fractions of a second, or None if there is none or it cannot be
    parsed.
    """
    value = row.fields.get(columns.time) if row.fields and columns.time else None
    if value in (None, ""):
        return None
    try:
        time = _parse_time(value)
    except (ValueError, OverflowError, OSError):
        return None
    return time.replace(microsecond=0)


def _parse_time(value: Any) -> dt.datetime:
    text = str(value)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        number = float(text)
        # The number is seconds, milliseconds or microseconds since 1970.
        while number > 1e11:
            number /= 1000
        return dt.datetime.fromtimestamp(number, dt.UTC)
    if re.match(r"\d{1,2}/\w{3}/\d{4}:", text):
        return dt.datetime.strptime(text, "%d/%b/%Y:%H:%M:%S %z").astimezone(dt.UTC)
    time = dt.datetime.fromisoformat(text)
    return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
