"""The flight pipeline with generated events, in micro-batches of any size, without a broker."""

import datetime as dt
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.effort import repeats

pytest.importorskip("pyspark")
pytest.importorskip("sqlalchemy")

import pyarrow as pa

from ottla_pipelines.catalog import DELAYS, FLIGHT_VALUES, FLIGHTS, JOINED_FLIGHTS, WEATHER, WEATHER_VALUES
from ottla_pipelines.ingest.events import Event, Numbered, event, number
from ottla_pipelines.refine.batches import Batches
from ottla_pipelines.refine.flights import FlightRefiner
from ottla_pipelines.refine.store import Results, Store
from ottla_pipelines.serve.account import read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = dt.datetime(2013, 3, 10, 5, tzinfo=dt.UTC)
SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("value", pa.binary())])
AIRLINES = [{"carrier": "UA", "name": "United"}]
PLANES = [{"tailnum": "N1", "year": "1999", "manufacturer": "BOEING", "model": "737"}]


def hour(n: int) -> str:
    return f"{START + dt.timedelta(hours=n):%Y-%m-%dT%H:%M:%SZ}"


def weather(airport: str, n: int, **values: float) -> Event:
    calm = {**dict.fromkeys(WEATHER_VALUES), "precip": 0.0, "visib": 10.0, "temp": 50.0, **values}
    return event(WEATHER, airport, {"row": n, "origin": airport, "time_hour": hour(n), **calm}, None)


def closing(airport: str) -> Event:
    return event(WEATHER, airport, {"row": None, "origin": airport, "closing": True}, None)


def flight(
    row: int, airport: str, n: int, delay: int | None = 0, tailnum: str | None = "N1", minute: int = 30
) -> Event:
    fields: dict[str, Any] = {
        **dict.fromkeys(FLIGHT_VALUES, 1),
        "dep_delay": delay,
        "row": row,
        "carrier": "UA",
        "tailnum": tailnum,
        "origin": airport,
        "dest": "IAH",
        "minute": minute,
        "time_hour": hour(n),
    }
    return event(FLIGHTS, tailnum, fields, None)


class Pipeline:
    """Store, checkpoint and offsets of one run; `restart` discards the state in memory."""

    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self.spark = spark
        self.directory = directory
        self.store = Store.open(f"sqlite:///{directory / 'x.db'}")
        self.store.create()
        (directory / "metadata").write_text('{"id": "query"}')
        self.offsets: dict[tuple[str, int], int] = {}
        self.next_batch = 0
        self.restart()

    def restart(self) -> None:
        refiner = FlightRefiner(self.spark, self.store, AIRLINES, PLANES)
        self.batches = Batches(refiner, self.store, self.directory, self.directory)

    def frame(self, events: list[Numbered]) -> Any:
        rows = []
        for e in events:
            offset = self.offsets.get((e.topic, e.partition), 0)
            self.offsets[e.topic, e.partition] = offset + 1
            rows.append({"topic": e.topic, "partition": e.partition, "offset": offset, "value": e.value})
        return self.spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA))

    def run(self, *events: Numbered) -> None:
        self.batches(self.frame(list(events)), self.next_batch)
        self.next_batch += 1

    def rows(self) -> list[dict[str, Any]]:
        actual: list[dict[str, Any]] = read_rows(
            self.directory, JOINED_FLIGHTS.name, self.store.batch_ids()
        ).to_pylist()
        return actual

    def classes(self) -> dict[int, str]:
        return {row["row"]: row["weather"] for row in self.rows()}


@pytest.fixture
def pipeline(spark: "SparkSession", tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(spark, tmp_path)
    yield made
    made.store.close()


def test_flight_is_joined_with_airline_plane_and_weather_of_its_hour(pipeline: Pipeline) -> None:
    events = [weather("EWR", 0, wind_speed=25.0), weather("JFK", 0), flight(1, "EWR", 0, delay=20), closing("EWR")]
    pipeline.run(*number(iter(events)))
    (row,) = pipeline.rows()
    assert (row["airline"], row["model"], row["plane_year"]) == ("United", "737", 1999)
    assert (row["weather"], row["wind_speed"], row["dep_delay"]) == ("wind", 25.0, 20)
    assert row["scheduled"] == START + dt.timedelta(minutes=30)


def test_day_is_local_across_a_clock_change(pipeline: Pipeline) -> None:
    # On 10 March 2013 New York went from UTC-5 to UTC-4: 04:30Z on the 10th and on the 11th are 23:30 and 00:30.
    pipeline.run(*number(iter([flight(1, "EWR", -1), flight(2, "EWR", 23), closing("EWR")])))
    assert [row["day"] for row in pipeline.rows()] == [dt.date(2013, 3, 9), dt.date(2013, 3, 11)]


def test_flight_is_pending_until_its_hour_is_decided(pipeline: Pipeline) -> None:
    first, observed, later = number(iter([flight(1, "EWR", 3), weather("EWR", 2), weather("EWR", 3, precip=1.0)]))
    pipeline.run(first)
    assert pipeline.rows() == []
    pipeline.run(observed)
    assert pipeline.rows() == []
    pipeline.restart()
    pipeline.run(later)
    assert pipeline.classes() == {1: "rain"}
    assert pipeline.store.state().pending == []


def test_hour_without_weather_is_decided_by_a_later_hour_of_the_airport(pipeline: Pipeline) -> None:
    events = [flight(1, "EWR", 3), flight(2, "JFK", 3), weather("JFK", 9), weather("EWR", 2), weather("EWR", 4)]
    waiting, other, *observed = number(iter(events))
    pipeline.run(waiting, other, observed[0], observed[1])
    assert pipeline.classes() == {2: "unknown"}
    pipeline.run(observed[2])
    assert pipeline.classes() == {1: "unknown", 2: "unknown"}


def test_closing_event_decides_pending_flights(pipeline: Pipeline) -> None:
    pipeline.run(*number(iter([weather("EWR", 1), flight(1, "EWR", 1), flight(2, "EWR", 8, tailnum=None)])))
    assert pipeline.classes() == {1: "fair"}
    pipeline.run(*number(iter([closing("EWR")])))
    assert pipeline.classes() == {1: "fair", 2: "unknown"}


def test_statistics_count_departed_and_cancelled_flights(pipeline: Pipeline) -> None:
    flights = [flight(1, "EWR", 0, delay=15), flight(2, "EWR", 0, delay=None), flight(3, "EWR", 0, delay=-4)]
    pipeline.run(*number(iter([weather("EWR", 0), *flights])))
    (row,) = pipeline.store.rows(DELAYS)
    assert (row["flights"], row["cancelled"], row["delayed"]) == (3, 1, 1)
    assert (row["delay_sum"], row["delay_max"]) == (11, 15)


@pytest.mark.parametrize("seed", range(repeats(1, 5)))
def test_results_do_not_depend_on_micro_batch_boundaries_or_kills(
    pipeline: Pipeline, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    events = list(number(generated_events(chance)))
    queues: dict[tuple[str, int], list[Numbered]] = {}
    for e in events:
        queues.setdefault((e.topic, e.partition), []).append(e)
    while any(queues.values()):
        # Partitions are read independently: one may be far ahead of the others.
        batch = [q.pop(0) for q in queues.values() for _ in range(min(len(q), chance.randrange(12)))]
        if batch:
            run_with_kills(pipeline, batch, chance)
    flights = [json.loads(e.value) for e in events if e.topic == FLIGHTS.name]
    observed = {(w["origin"], w["time_hour"]) for e in events if "temp" in (w := json.loads(e.value))}
    expected = {f["row"]: "fair" if (f["origin"], f["time_hour"]) in observed else "unknown" for f in flights}
    assert [row["row"] for row in pipeline.rows()] == sorted(expected)
    assert pipeline.classes() == expected
    assert sum(row["flights"] for row in pipeline.store.rows(DELAYS)) == len(expected)
    assert sum(read.records for read in pipeline.store.progress().values()) == len(events)


def generated_events(chance: random.Random) -> Iterator[Event]:
    row = 0
    for n in range(12):
        for airport in ("EWR", "JFK"):
            if chance.random() < 0.7:
                yield weather(airport, n)
        for _ in range(chance.randrange(4)):
            row += 1
            yield flight(row, chance.choice(["EWR", "JFK"]), n, tailnum=chance.choice(["N1", "N2", "N3", None]))
    yield closing("EWR")
    yield closing("JFK")


class KilledError(Exception):
    """Simulates a kill -9 at the worst moment."""


def run_with_kills(pipeline: Pipeline, batch: list[Numbered], chance: random.Random) -> None:
    frame, batch_id = pipeline.frame(batch), pipeline.next_batch
    moment = chance.choice(["none", "before commit", "after commit"])
    if moment != "none":
        commit = pipeline.store.commit

        def killed(batch_id: int, query_id: str, results: Results) -> bool:
            if moment == "after commit":
                commit(batch_id, query_id, results)
            raise KilledError

        pipeline.store.commit = killed  # type: ignore[method-assign]
        with pytest.raises(KilledError):
            pipeline.batches(frame, batch_id)
        pipeline.store.commit = commit  # type: ignore[method-assign]
        pipeline.restart()
    # Spark runs the micro-batch again: the same id over the same offsets.
    pipeline.batches(frame, batch_id)
    pipeline.next_batch += 1
