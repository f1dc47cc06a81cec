from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.pipelines.declarative.weather_join import WeatherJoin


class State:
    """ValueState, ListState and MapState in memory, as far as the join uses them."""

    def __init__(self) -> None:
        self.value: Any = None
        self.map: dict[Any, Any] = {}

    def exists(self) -> bool:
        return self.value is not None

    def get(self) -> Any:
        return self.value

    def update(self, new: Any) -> None:
        self.value = new

    put = update

    def clear(self) -> None:
        self.value = None

    def getValue(self, key: Any) -> Any:  # noqa: N802 - Spark's name
        return self.map.get(key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802 - Spark's name
        self.map[key] = value


class Airport:
    def __init__(self) -> None:
        self.states = {name: State() for name in ("observations", "frontier", "waiting")}
        self.join = WeatherJoin()
        self.join.init(
            SimpleNamespace(
                getMapState=lambda name, *_: self.states[name],
                getValueState=lambda name, *_: self.states[name],
                getListState=lambda name, *_: self.states[name],
            )
        )

    def takes(self, *rows: dict[str, Any]) -> list[tuple[str, str | None]]:
        return [(r["flight"], r["observation"]) for r in self.join.handleInputRows(("JFK",), iter(rows), None)]


def flight(hour: int) -> dict[str, Any]:
    return {"closing": False, "is_weather": False, "hour_s": hour, "value": f"flight {hour}"}


def weather(hour: int) -> dict[str, Any]:
    return {"closing": False, "is_weather": True, "hour_s": hour, "value": f"weather {hour}"}


CLOSING = {"closing": True, "is_weather": True, "hour_s": None, "value": "{}"}


def test_a_flight_waits_for_the_weather_of_its_hour() -> None:
    airport = Airport()
    assert airport.takes(flight(5)) == []
    assert airport.takes(weather(4)) == []
    assert airport.takes(weather(5)) == [("flight 5", "weather 5")]
    assert not airport.states["waiting"].exists()


def test_an_hour_that_was_passed_without_weather_has_none() -> None:
    airport = Airport()
    assert airport.takes(flight(5), weather(4)) == []
    assert airport.takes(weather(6)) == [("flight 5", None)]


def test_weather_counts_although_the_shuffle_brings_it_last() -> None:
    assert Airport().takes(flight(5), weather(6), flight(6), weather(5)) == [
        ("flight 5", "weather 5"),
        ("flight 6", "weather 6"),
    ]


def test_weather_of_earlier_micro_batches_is_found() -> None:
    airport = Airport()
    airport.takes(weather(5), weather(6))
    assert airport.takes(flight(5), flight(6), flight(7)) == [("flight 5", "weather 5"), ("flight 6", "weather 6")]


def test_the_closing_event_decides_whatever_waits() -> None:
    airport = Airport()
    airport.takes(flight(7), weather(6))
    assert airport.takes(CLOSING) == [("flight 7", None)]
    assert airport.takes(flight(8)) == [("flight 8", None)]
