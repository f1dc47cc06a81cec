"""The new offsets of `consumer-groups --reset-offsets`: parsing of options, computation and formatting, without I/O."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from ottla.cli.framework.json_file import MAX_INT, MAX_LONG
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

Offsets = dict[TopicPartition, int]
Plan = dict[str, Offsets]
"""The new offsets by group and partition."""

_DATETIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]{1,3})"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]{1,19})D)?"
    r"(T(?:([-+]?[0-9]{1,19})H)?(?:([-+]?[0-9]{1,19})M)?(?:([-+]?)([0-9]{1,19})(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_QUOTED_FROM: Final = 25
"""Length in characters from which Kafka's tool quotes a text in CSV."""
_WIDTH: Final = 15


def scope(texts: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """Split the values of `--topic` into partitions (such as `visits:0,3`) and whole topics, without duplicates. Raises
    ConfigurationError for invalid partitions.
    """
    partitions: list[TopicPartition] = []
    topics: list[str] = []
    for text in texts:
        if ":" in text:
            partitions += _partitions(text)
        else:
            topics.append(text)
    return list(dict.fromkeys(partitions)), list(dict.fromkeys(topics))


def _partitions(text: str) -> list[TopicPartition]:
    topic, _, rest = text.partition(":")
    if not topic or not rest or ":" in rest:
        raise ConfigurationError(f"Invalid topic arg '{text}', expected topic name and partitions")
    return [TopicPartition(topic, _number(one, MAX_INT, f"--topic {text}")) for one in rest.rstrip(",").split(",")]


def _number(text: str, most: int, context: str) -> int:
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > most:
        raise ConfigurationError(f"{context}: {text!r} is not allowed: expected a whole number")
    return int(text)


def time_of(text: str) -> int:
    """Return the time `YYYY-MM-DDTHH:mm:SS.sss` in milliseconds since 1970. It is in UTC unless a time zone such as
    `+02:00` follows. Raises ConfigurationError for another form or an impossible time.
    """
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--to-datetime: {text!r} is not allowed: expected YYYY-MM-DDTHH:mm:SS.sss[Z]")
    *parts, ms, sign, hours, minutes = match.groups()
    try:
        utc_offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
        year, month, day, hour, minute, second = map(int, parts)
        at = datetime(year, month, day, hour, minute, second, tzinfo=timezone(utc_offset))
    except ValueError as error:
        raise ConfigurationError(f"--to-datetime: {text!r} is not allowed: {error}") from None
    return (at - _EPOCH) // timedelta(milliseconds=1) + int(ms)  # .5 means 5 ms, as in Java


def duration_ms(text: str) -> int:
    """Return the duration `PnDTnHnMnS` in milliseconds. The whole and each part may have a sign, as in
    java.time.Duration. Raises ConfigurationError for another form.
    """
    match = _DURATION.fullmatch(text)
    parts = match.groups() if match else ()
    if not parts or parts[2] in ("T", "t") or (parts[1] is None and parts[2] is None):
        raise ConfigurationError(f"--by-duration: {text!r} is not allowed: expected PnDTnHnMnS, such as P7D or PT1H30M")
    sign, days, _, hours, minutes, seconds_sign, seconds, fraction = parts
    ms = int(seconds or 0) * 1000 + int(((fraction or "") + "000")[:3])
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000
    return (whole + (-ms if seconds_sign == "-" else ms)) * (-1 if sign == "-" else 1)


def read_plan(file: str, text: str, groups: Sequence[str]) -> Plan:
    """Parse a CSV file of new offsets. Lines are `group,topic,partition,offset`. For a single group, they are
    `topic,partition,offset` if the first line has three fields.

    Raises ConfigurationError for an invalid line. `file` is the name of the file, for error messages.
    """
    plan: Plan = {}
    reader = csv.reader(text.splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise ConfigurationError(f"{file}: line {reader.line_num}: {error}") from None
    alone = len(groups) == 1 and bool(rows) and len(rows[0][1]) == 3
    for number, row in rows:
        group, *fields = [groups[0], *row] if alone else row
        if len(fields) != 3:
            form = "topic,partition,offset" if alone else "group,topic,partition,offset"
            raise ConfigurationError(f"{file}: line {number}: expected {form}")
        topic, partition, offset = fields
        context = f"{file}: line {number}"
        tp = TopicPartition(topic, _number(partition.strip(), MAX_INT, context))
        plan.setdefault(group, {})[tp] = _number(offset.strip(), MAX_LONG, context)
    return plan


def shifted(partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int], by: int) -> Offsets:
    """Return the committed offsets increased by `by`. Raises ConfigurationError for a partition without a committed
    offset.
    """
    new: Offsets = {}
    for tp in partitions:
        if tp not in committed:
            raise ConfigurationError(
                f"Cannot shift offset for partition {tp} since there is no current committed offset"
            )
        new[tp] = committed[tp] + by
    return new


def clamped(
    offsets: Mapping[TopicPartition, int], first: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> tuple[Offsets, list[str]]:
    """Limit offsets to the range from `first` to `end`, both included, of their partitions. Return them, and a warning
    for each that was out of range.
    """
    new: Offsets = {}
    warnings = []
    for tp, offset in offsets.items():
        new[tp] = min(max(offset, first[tp]), end[tp])
        if new[tp] != offset:
            kind = "higher than latest" if offset > end[tp] else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {kind} offset for topic partition {tp}. Value will be set to {new[tp]}."
            )
    return new, warnings


def table(plan: Plan) -> str:
    """Return the new offsets as a table, like that of Kafka's tool; an empty text for an empty plan."""
    rows = [(group, tp.topic, tp.partition, offset) for group, tp, offset in _sorted(plan)]
    groups = max([_WIDTH, *map(len, plan)])
    topics = max([_WIDTH, *(len(row[1]) for row in rows)])
    header = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plan else []
    lines = [f"\n{g:<{groups}} {t:<{topics}} {p:<10} {o}" for g, t, p, o in [*header, *rows]]
    return "".join(lines)


def exported(plan: Plan, *, alone: bool) -> str:
    """Return the new offsets as CSV for `--from-file`. With `alone`, for a plan of a single group, the lines do not
    contain the group.
    """
    rows = [(*(() if alone else (_quoted(g),)), _quoted(tp.topic), tp.partition, o) for g, tp, o in _sorted(plan)]
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def _quoted(text: str) -> str:
    if len(text) >= _QUOTED_FROM or not text or min(text) < "-":
        doubled = text.replace('"', '""')
        return f'"{doubled}"'
    return text


def as_rows(plan: Plan) -> list[dict[str, object]]:
    """Return the new offsets in the form that `--json` prints."""
    return [{"group": group, **tp._asdict(), "new_offset": offset} for group, tp, offset in _sorted(plan)]


def _sorted(plan: Plan) -> list[tuple[str, TopicPartition, int]]:
    return [(group, tp, plan[group][tp]) for group in plan for tp in sorted(plan[group])]
