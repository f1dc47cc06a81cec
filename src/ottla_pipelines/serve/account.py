"""The account: a comparison of the pipeline's results with results computed from the CSV files in plain Python.

It shares no code with `ingest` and `refine` except the reading of the data files, so that errors there are detected.
The join, the weather classes and the statistics are implemented a second time, with the local date in the CSV instead
of a time zone.
"""

from __future__ import annotations

import csv
import datetime as dt
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ottla_pipelines.catalog import FLIGHT_VALUES, JOINED_FLIGHTS, WEATHER_VALUES, batch_directory
from ottla_pipelines.ingest.nycflights import read_lines, table

_MOST_DIFFERENCES = 20
_KINDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((*FLIGHT_VALUES, "year", "month", "day", "hour", "minute"), int),
    **dict.fromkeys(WEATHER_VALUES, float),
}

DelayKey = tuple[dt.date, str, str, str]
"""Day, airport, carrier and weather."""


class Delays(NamedTuple):
    """A row of statistics of delays. Delays are in minutes; `delay_max` is None if no flight departed."""

    flights: int = 0
    cancelled: int = 0
    delayed: int = 0
    delay_sum: int = 0
    delay_max: int | None = None
    arrived: int = 0
    arrival_delay_sum: int = 0


@dataclass
class Account:
    """The result of comparing the input of a run with its results."""

    noun: str
    rows_in: int
    rows_out: int
    lost: int
    duplicated: int
    unknown: int
    """The number of row numbers in the results that are not in the input."""
    statistics: int
    """The number of rows of statistics that were compared."""
    fields: int
    """The number of single values that were compared."""
    differences: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        """Whether all rows and values are equal."""
        return not (self.lost or self.duplicated or self.unknown or self.differences) and self.rows_in == self.rows_out

    @property
    def statistics_line(self) -> str:
        """A sentence with the result of comparing values."""
        if self.differences:
            return f"{len(self.differences)} differences in the values, such as: {self.differences[0]}"
        return f"equal statistics: {self.statistics:,} rows of them, {self.fields:,} values compared with the input"

    @property
    def line(self) -> str:
        """A line such as `336,776 of 336,776 flights, 0 lost, 0 duplicated`."""
        arrived = self.rows_in - self.lost
        return f"{arrived:,} of {self.rows_in:,} {self.noun}, {self.lost:,} lost, {self.duplicated:,} duplicated"


def expected_flights(limit: int | None = None) -> dict[str, list[Any]]:
    """Return the expected rows as columns, in the order of the CSV file. `limit` is the number of flights; None for
    all.
    """
    weather = {(w["origin"], w["time_hour"]): w for w in _typed("weather.csv")}
    airlines = {a["carrier"]: a["name"] for a in table("airlines.csv")}
    planes = {p["tailnum"]: p for p in table("planes.csv")}
    rows = _first_rows(limit)
    columns: dict[str, list[Any]] = {c.strip().split(" ")[0]: [] for c in JOINED_FLIGHTS.columns.split(",")}
    append = [(name, column.append) for name, column in columns.items()]
    for row, flight in enumerate(_typed("flights.csv.zip"), start=1):
        if rows is not None and row not in rows:
            continue
        expected = _expected(row, flight, weather.get((flight["origin"], flight["time_hour"])), airlines, planes)
        for name, add in append:
            add(expected[name])
    return columns


def _first_rows(limit: int | None) -> set[int] | None:
    if limit is None:
        return None
    times = ((f["time_hour"], f["minute"], row) for row, f in enumerate(_typed("flights.csv.zip"), start=1))
    return {row for _, _, row in sorted(times)[:limit]}


def _typed(file: str) -> Iterator[dict[str, Any]]:
    reader = csv.reader(read_lines(file))
    header = next(reader)
    kinds: list[Callable[[str], Any]] = [_KINDS.get(name, str) for name in header]
    for values in reader:
        cells = zip(header, kinds, values, strict=True)
        yield {name: None if text == "NA" else kind(text) for name, kind, text in cells}


def _expected(
    row: int,
    flight: Mapping[str, Any],
    weather: Mapping[str, Any] | None,
    airlines: Mapping[str | None, str | None],
    planes: Mapping[str | None, Mapping[str, str | None]],
) -> dict[str, Any]:
    hour = _hour(flight["time_hour"])
    plane = planes.get(flight["tailnum"], {})
    year = plane.get("year")
    return {
        **flight,
        **{name: weather[name] if weather else None for name in WEATHER_VALUES},
        "row": row,
        "day": dt.date(flight["year"], flight["month"], flight["day"]),
        "scheduled": hour + dt.timedelta(minutes=flight["minute"]),
        "time_hour": hour,
        "airline": airlines.get(flight["carrier"]),
        "manufacturer": plane.get("manufacturer"),
        "model": plane.get("model"),
        "plane_year": int(year) if year else None,
        "weather": weather_class(weather),
    }


@functools.cache
def _hour(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def weather_class(weather: Mapping[str, Any] | None) -> str:
    """Return the weather class of an observation (catalog.WEATHER_CLASSES). None stands for a missing observation."""
    if weather is None:
        return "unknown"
    if weather["precip"] is not None and weather["precip"] > 0:
        return "snow" if weather["temp"] is not None and weather["temp"] <= 34 else "rain"
    if weather["visib"] is not None and weather["visib"] < 2:
        return "fog"
    return "wind" if weather["wind_speed"] is not None and weather["wind_speed"] >= 20 else "fair"


def expected_delays(flights: Mapping[str, Sequence[Any]]) -> dict[DelayKey, Delays]:
    """Return the expected statistics of delays."""
    delays: dict[DelayKey, Delays] = {}
    names = ("day", "origin", "carrier", "weather", "dep_delay", "arr_delay")
    for *key, late, arrival in zip(*(flights[name] for name in names), strict=True):
        old = delays.get((key[0], key[1], key[2], key[3]), Delays())
        delays[key[0], key[1], key[2], key[3]] = Delays(
            old.flights + 1,
            old.cancelled + (late is None),
            old.delayed + (late is not None and late >= 15),
            old.delay_sum + (late or 0),
            old.delay_max if late is None else max(late, late if old.delay_max is None else old.delay_max),
            old.arrived + (arrival is not None),
            old.arrival_delay_sum + (arrival or 0),
        )
    return delays


def read_rows(datasets: Path, dataset: str, batch_ids: Sequence[int]) -> pa.Table:
    """Return the rows of the micro-batches with these ids, sorted by row number."""
    files = [f for b in batch_ids for f in sorted(batch_directory(datasets / dataset, b).glob("*.parquet"))]
    tables = [pq.ParquetFile(file).read() for file in files]
    whole = pa.concat_tables(tables) if tables else pa.table({"row": pa.array([], pa.int32())})
    return whole.sort_by("row")


def flight_account(
    expected: Mapping[str, Sequence[Any]], rows: pa.Table, statistics: Sequence[Mapping[str, Any]]
) -> Account:
    """Return the account of joined rows and statistics, compared with the expected ones."""
    account = row_account("flights", expected, rows)
    expected_statistics = expected_delays(expected)
    actual_statistics = {
        (s["day"], s["airport"], s["carrier"], s["weather"]): Delays(*(s[name] for name in Delays._fields))
        for s in statistics
    }
    compare_statistics(account, expected_statistics, actual_statistics, len(Delays._fields))
    return account


def row_account(noun: str, expected: Mapping[str, Sequence[Any]], rows: pa.Table) -> Account:
    """Return the account of rows: the numbers of rows in, out, lost, duplicated and not in the input, by row number. If
    these are exact, all values are compared.
    """
    seen = Counter(rows.column("row").to_pylist())
    expected_rows = set(expected["row"])
    account = Account(
        noun=noun,
        rows_in=len(expected_rows),
        rows_out=rows.num_rows,
        lost=len(expected_rows - seen.keys()),
        duplicated=sum(n - 1 for n in seen.values()),
        unknown=len(seen.keys() - expected_rows),
        statistics=0,
        fields=0,
    )
    if account.is_exact:
        # Without rows there is no file with the columns' names.
        for name, values in expected.items() if expected_rows else ():
            _compare_column(account, name, list(values), rows.column(name).to_pylist())
    else:
        account.differences.append("rows are missing or too many, so their values were not compared")
    return account


def _compare_column(account: Account, name: str, expected: list[Any], actual: list[Any]) -> None:
    account.fields += len(expected)
    if expected == actual:
        return
    for row, (a, b) in enumerate(zip(expected, actual, strict=True), start=1):
        if a != b and len(account.differences) < _MOST_DIFFERENCES:
            account.differences.append(f"{name} of compared row {row}: {a!r} in the input, {b!r} in the result")


def compare_statistics(account: Account, expected: Mapping[Any, Any], actual: Mapping[Any, Any], fields: int) -> None:
    """Compare two tables of statistics, and add the result to the account. `fields`: the number of values per row."""
    account.statistics = len(expected)
    account.fields += len(expected) * fields
    for key in expected.keys() | actual.keys():
        if expected.get(key) != actual.get(key) and len(account.differences) < _MOST_DIFFERENCES:
            account.differences.append(f"{key}: {expected.get(key)} from the input, {actual.get(key)} in the database")
