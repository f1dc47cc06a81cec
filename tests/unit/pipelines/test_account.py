"""Comparison of the demo's results with its input: lost, duplicated and different rows."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("sqlalchemy")

import pyarrow as pa
import pyarrow.parquet as pq

from ottla_pipelines.catalog import WEATHER_CLASSES
from ottla_pipelines.serve.account import (
    Account,
    Delays,
    expected_delays,
    flight_account,
    read_rows,
    row_account,
    weather_class,
)

DAY = dt.date(2013, 1, 1)
FLIGHTS: dict[str, list[Any]] = {
    "row": [1, 2, 3],
    "day": [DAY] * 3,
    "origin": ["EWR"] * 3,
    "carrier": ["UA"] * 3,
    "weather": ["fair"] * 3,
    "dep_delay": [20, None, -5],
    "arr_delay": [10, None, None],
}
STATISTICS = {
    "day": DAY,
    "airport": "EWR",
    "carrier": "UA",
    "weather": "fair",
    "flights": 3,
    "cancelled": 1,
    "delayed": 1,
    "delay_sum": 15,
    "delay_max": 20,
    "arrived": 1,
    "arrival_delay_sum": 10,
}


def table(**changes: list[Any]) -> pa.Table:
    return pa.table({**FLIGHTS, **changes})


def test_complete_result_is_exact() -> None:
    account = flight_account(FLIGHTS, table(), [STATISTICS])
    assert account.is_exact
    assert account.line == "3 of 3 flights, 0 lost, 0 duplicated"
    assert account.statistics_line == "equal statistics: 1 rows of them, 28 values compared with the input"


def test_empty_result_of_empty_input_is_exact(tmp_path: Path) -> None:
    no_flights: dict[str, list[Any]] = {name: [] for name in FLIGHTS}
    account = flight_account(no_flights, read_rows(tmp_path, "d", []), [])
    assert account.is_exact
    assert account.line == "0 of 0 flights, 0 lost, 0 duplicated"


def test_lost_row_is_counted() -> None:
    account = flight_account(FLIGHTS, table().slice(1), [STATISTICS])
    assert account.line == "2 of 3 flights, 1 lost, 0 duplicated"
    assert not account.is_exact


def test_duplicated_row_is_counted() -> None:
    account = flight_account(FLIGHTS, pa.concat_tables([table(), table().slice(0, 1)]), [STATISTICS])
    assert account.line == "3 of 3 flights, 0 lost, 1 duplicated"
    assert not account.is_exact


def test_unknown_row_is_counted() -> None:
    account = row_account("flights", FLIGHTS, table(row=[1, 2, 9]))
    assert (account.lost, account.unknown) == (1, 1)
    assert not account.is_exact


def test_different_value_is_reported() -> None:
    account = flight_account(FLIGHTS, table(dep_delay=[20, 0, -5]), [STATISTICS])
    assert account.differences == ["dep_delay of compared row 2: None in the input, 0 in the result"]
    assert not account.is_exact


@pytest.mark.parametrize(
    "statistics", [[], [{**STATISTICS, "delay_max": 21}], [STATISTICS, {**STATISTICS, "carrier": "x"}]]
)
def test_wrong_missing_and_additional_statistics_are_reported(statistics: list[dict[str, Any]]) -> None:
    account = flight_account(FLIGHTS, table(), statistics)
    assert len(account.differences) == 1
    assert not account.is_exact


def test_statistics_of_cancelled_flights_have_no_maximum_delay() -> None:
    cancelled_flight = {name: values[1:2] for name, values in FLIGHTS.items()}
    assert expected_delays(cancelled_flight) == {(DAY, "EWR", "UA", "fair"): Delays(1, 1, 0, 0, None, 0, 0)}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "fair"),
        ({"wind_speed": 20.0}, "wind"),
        ({"visib": 1.5, "wind_speed": 30.0}, "fog"),
        ({"precip": 0.01, "visib": 1.0}, "rain"),
        ({"precip": 0.01, "temp": 34.0}, "snow"),
        ({"precip": 0.01, "temp": None}, "rain"),
        ({"wind_speed": None}, "fair"),
    ],
)
def test_weather_class_is_derived_from_the_observation(changes: dict[str, Any], name: str) -> None:
    assert weather_class({"precip": 0.0, "temp": 50.0, "visib": 10.0, "wind_speed": 5.0, **changes}) == name
    assert name in dict(WEATHER_CLASSES)


def test_rows_are_read_only_from_committed_micro_batches(tmp_path: Path) -> None:
    for batch_id in range(3):
        directory = tmp_path / "d" / f"batch={batch_id:06d}"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"row": [10 - batch_id]}), directory / "part-0.parquet")
    assert read_rows(tmp_path, "d", [0, 2]).column("row").to_pylist() == [8, 10]
    assert read_rows(tmp_path, "d", []).num_rows == 0


def test_number_of_reported_differences_is_bounded() -> None:
    actual = row_account(
        "events", {"row": list(range(100)), "x": [1] * 100}, pa.table({"row": range(100), "x": [2] * 100})
    )
    assert 0 < len(actual.differences) <= 20
    assert isinstance(actual, Account)
