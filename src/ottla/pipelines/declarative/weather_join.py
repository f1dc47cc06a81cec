"""Flights joined with the weather of their hour and airport, exactly, as state of `transformWithState`.

The rule is that of `refine.flights`: weather is keyed by airport, so one airport's hours arrive in order, and once a
later hour of an airport has been seen (its *frontier*), every earlier one is decided. There, state lies in a database
and rows go through `foreachBatch`, which declarative pipelines do not have; here the state is Spark's: per airport the
observations, the frontier and the flights that wait. A closing event moves the frontier to the end of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

END_OF_TIME_S: Final = 253_402_300_800
"""Where the frontier of a closed airport is: the year 10000."""

HOUR: Final = StructType().add("hour_s", LongType())
VALUE: Final = StructType().add("value", StringType())
WAITING: Final = StructType().add("hour_s", LongType()).add("value", StringType())
DECIDED: Final = StructType().add("flight", StringType()).add("observation", StringType())
"""What comes out: a flight and the observation of its hour as the JSON that they came as, or null."""


class Flight(NamedTuple):
    """A flight that is to be joined."""

    hour_s: int
    value: str


class WeatherJoin(StatefulProcessor):
    """Joins the flights of an airport."""

    def init(self, handle: Any) -> None:
        """Spark calls this once per task."""
        self._observations = handle.getMapState("observations", HOUR, VALUE)
        self._frontier = handle.getValueState("frontier", HOUR)
        self._waiting = handle.getListState("waiting", WAITING)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803 - Spark's
        """An airport's events of one micro-batch: first all weather, since the shuffle has mixed it with flights."""
        flights = [Flight(*found) for found in self._waiting.get()] if self._waiting.exists() else []
        frontier = before = self._frontier.get()[0] if self._frontier.exists() else -1
        new: dict[int, str] = {}
        for row in rows:
            if row["closing"]:
                frontier = END_OF_TIME_S
            elif row["is_weather"]:
                new[row["hour_s"]] = row["value"]
                frontier = max(frontier, row["hour_s"])
            else:
                flights.append(Flight(row["hour_s"], row["value"]))
        for hour_s, value in new.items():
            self._observations.updateValue((hour_s,), (value,))
        if frontier != before:
            self._frontier.update((frontier,))
        yield from self._decide(flights, frontier, new)

    def _decide(self, flights: Sequence[Flight], frontier: int, known: dict[int, str]) -> Iterator[Row]:
        waiting: list[tuple[Any, ...]] = []
        looked_up: dict[int, str | None] = dict(known)
        for flight in flights:
            if flight.hour_s not in looked_up:
                found = self._observations.getValue((flight.hour_s,))
                looked_up[flight.hour_s] = None if found is None else found[0]
            observation = looked_up[flight.hour_s]
            if observation is None and flight.hour_s >= frontier:
                waiting.append(flight)
            else:
                yield Row(flight=flight.value, observation=observation)
        if waiting:
            self._waiting.put(waiting)
        elif self._waiting.exists():
            self._waiting.clear()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """No timer is set: what decides is the order of the weather."""
        yield from ()

    def close(self) -> None:
        """Nothing is held outside the state."""


def join_weather(events: DataFrame, weather_topic: str) -> DataFrame:
    """Decided flights, with the columns of DECIDED, of events (columns topic, text, origin, time_hour, closing).

    In a pipeline call this outside the decorated function, on rows that come from topics.
    """
    known = events.select(
        "origin",
        (F.col("topic") == weather_topic).alias("is_weather"),
        F.coalesce("closing", F.lit(False)).alias("closing"),
        F.unix_seconds("time_hour").alias("hour_s"),
        F.col("text").alias("value"),
    )
    return known.groupBy("origin").transformWithState(WeatherJoin(), DECIDED, "Append", "None")
