"""Flights joined with the weather of their hour and airport, and the statistics of delays by weather.

A join of two streams must know when the other side is complete. Spark uses a watermark, which is an estimate of the
maximum delay, and drops later records. Here the order of records in a partition gives an exact answer. Weather has the
airport as key, so that the observations of an airport arrive in order of time. When an observation of a later hour has
arrived (the *frontier* of the airport), the weather of every earlier hour is final: it has arrived, or it does not
exist. Other flights wait for their weather. Frontiers, weather and waiting flights are committed with the results
(`store`), so that a restart continues from them.

At the end of a replay, a closing event for each airport moves its frontier to the end of time.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ottla_pipelines.catalog import DELAYS, FLIGHT_VALUES, FLIGHTS, JOINED_FLIGHTS, WEATHER, WEATHER_VALUES
from ottla_pipelines.refine.batches import Refined
from ottla_pipelines.refine.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

END_OF_TIME = dt.datetime(9999, 1, 1)
NEW_YORK = "America/New_York"
DELAYED_MINUTES = 15

_FLIGHT_SCHEMA = (
    "seq bigint, row int, time_hour timestamp, minute int, origin string, dest string, carrier string, tailnum string, "
    + ", ".join(f"{name} int" for name in FLIGHT_VALUES)
)
_WEATHER_SCHEMA = pa.schema(
    [("w_origin", pa.string()), ("w_hour", pa.timestamp("us", tz="UTC"))]
    + [(name, pa.float64()) for name in WEATHER_VALUES]
)

_COLUMNS = [column.strip().split(" ")[0] for column in JOINED_FLIGHTS.columns.split(",")]

Texts = Iterable[Mapping[str, str | None]]
Observations = dict[tuple[str, dt.datetime], Mapping[str, Any]]


class FlightRefiner:
    """The pipeline of flights. Its state is in memory; the committed state is read from the database once, at the
    start.
    """

    dataset = JOINED_FLIGHTS.name

    def __init__(self, spark: SparkSession, store: Store, airlines: Texts, planes: Texts) -> None:
        state = store.state()
        self._spark = spark
        self._observations: Observations = {(o["origin"], o["time_hour"]): o for o in state.observations}
        self._frontiers = dict(state.frontiers)
        self._pending: list[str] = list(state.pending)
        self._airlines, self._planes = airlines_frame(spark, airlines), planes_frame(spark, planes)

    def refine(self, events: DataFrame) -> Refined:
        """Return the joined flights, the statistics, and the new state, which replaces the old one after the commit."""
        new = [json.loads(row["value"]) for row in events.filter(F.col("topic") == WEATHER.name).collect()]
        observations, frontiers = self._observations | observed(new), moved_frontiers(self._frontiers, new)
        flights = parse_flights(self._with_pending(events.filter(F.col("topic") == FLIGHTS.name).select("value")))
        joined = join_weather(flights, self._weather_frame(observations), self._frontier_frame(frontiers))
        described = self._described(joined).persist(StorageLevel.MEMORY_AND_DISK)
        rows = described.filter("decided").select(*_COLUMNS)
        statistics = [row.asDict() for row in delay_statistics(rows).collect()]
        undecided = described.filter(~F.col("decided")).select("seq", "value")
        waiting = sorted((row.asDict() for row in undecided.collect()), key=lambda row: row["seq"])

        def after() -> None:
            self._observations, self._frontiers = observations, frontiers
            self._pending = [row["value"] for row in waiting]

        return Refined(
            rows,
            {DELAYS.name: statistics},
            observations=list(observed(new).values()),
            frontiers=[{"origin": origin, "time_hour": hour} for origin, hour in frontiers.items()],
            pending=waiting,
            after=after,
            cached=(described,),
        )

    def _with_pending(self, values: DataFrame) -> DataFrame:
        if not self._pending:
            return values
        return values.unionByName(self._spark.createDataFrame(pa.table({"value": self._pending})))

    def _weather_frame(self, observations: Observations) -> DataFrame:
        rows = observations.values()
        columns: list[Any] = [[o["origin"] for o in rows], [o["time_hour"].replace(tzinfo=dt.UTC) for o in rows]]
        columns += [[o[name] for o in rows] for name in WEATHER_VALUES]
        arrays = [pa.array(values, f.type) for values, f in zip(columns, _WEATHER_SCHEMA, strict=True)]
        return self._spark.createDataFrame(pa.Table.from_arrays(arrays, schema=_WEATHER_SCHEMA))

    def _frontier_frame(self, frontiers: Mapping[str, dt.datetime]) -> DataFrame:
        hours = pa.array([h.replace(tzinfo=dt.UTC) for h in frontiers.values()], pa.timestamp("us", tz="UTC"))
        return self._spark.createDataFrame(
            pa.table({"f_origin": pa.array(list(frontiers), pa.string()), "frontier": hours})
        )

    def _described(self, joined: DataFrame) -> DataFrame:
        described = joined.join(F.broadcast(self._airlines), "carrier", "left")
        described = described.join(F.broadcast(self._planes), "tailnum", "left")
        # The JSON text is only needed for flights that wait.
        value = F.when(~F.col("decided"), F.col("value")).alias("value")
        return described.withColumn("weather", weather_class()).select("seq", "decided", value, *_COLUMNS)


def observed(events: Iterable[Mapping[str, Any]]) -> Observations:
    """Return the observations by airport and hour (UTC, as a datetime without time zone, as SQL stores it)."""
    observations: Observations = {}
    for e in events:
        if not e.get("closing"):
            hour = dt.datetime.fromisoformat(e["time_hour"]).replace(tzinfo=None)
            values = {name: None if e[name] is None else float(e[name]) for name in WEATHER_VALUES}
            observations[e["origin"], hour] = {"origin": e["origin"], "time_hour": hour, **values}
    return observations


def moved_frontiers(
    frontiers: Mapping[str, dt.datetime], events: Iterable[Mapping[str, Any]]
) -> dict[str, dt.datetime]:
    """Return the frontier of each airport: the hour of its last observation, or the end of time after its closing
    event.
    """
    moved = dict(frontiers)
    for e in events:
        closing = e.get("closing")
        hour = END_OF_TIME if closing else dt.datetime.fromisoformat(e["time_hour"]).replace(tzinfo=None)
        moved[e["origin"]] = max(hour, moved.get(e["origin"], hour))
    return moved


def parse_flights(values: DataFrame) -> DataFrame:
    """Return flights with columns for fields of their JSON, for the scheduled departure (UTC) and for its local day."""
    parsed, scheduled, day = flight_columns(values)
    return parsed.withColumn("scheduled", scheduled).withColumn("day", day)


def flight_columns(values: DataFrame, *other_columns: str) -> tuple[DataFrame, Column, Column]:
    """Parse the JSON of flights. Return the DataFrame, and the columns for the scheduled departure (UTC) and its local
    day.

    The DataFrame also has `other_columns` of `values`.
    """
    flight = F.from_json("value", _FLIGHT_SCHEMA).alias("flight")
    parsed = values.select("value", flight, *other_columns).select("value", "flight.*", *other_columns)
    day = F.window(F.from_utc_timestamp("scheduled", NEW_YORK), "1 day").getField("start").cast("date")
    return parsed, F.expr("time_hour + make_interval(0, 0, 0, 0, 0, minute)"), day


def join_weather(flights: DataFrame, weather: DataFrame, frontiers: DataFrame) -> DataFrame:
    """Return each flight with its weather (nulls if there is none) and the column `decided`: whether the weather is
    final.
    """
    same_hour = (F.col("origin") == F.col("w_origin")) & (F.col("time_hour") == F.col("w_hour"))
    joined = flights.join(F.broadcast(weather), same_hour, "left")
    joined = joined.join(F.broadcast(frontiers), F.col("origin") == F.col("f_origin"), "left")
    decided = F.col("w_origin").isNotNull() | F.coalesce(F.col("time_hour") < F.col("frontier"), F.lit(False))
    return joined.withColumn("decided", decided)


def weather_class() -> Column:
    """Return a column with the weather class (catalog.WEATHER_CLASSES). A condition with a missing measurement is
    false.
    """
    wet = F.col("precip") > 0
    return (
        F.when(F.col("w_origin").isNull(), "unknown")
        .when(wet & (F.col("temp") <= 34), "snow")
        .when(wet, "rain")
        .when(F.col("visib") < 2, "fog")
        .when(F.col("wind_speed") >= 20, "wind")
        .otherwise("fair")
    )


def delay_statistics(rows: DataFrame) -> DataFrame:
    """Return the statistics of delays by day, airport, carrier and weather. All values are integers that can be added
    up over micro-batches, except the maximum.
    """

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    delay = F.col("dep_delay")
    grouped = rows.groupBy("day", F.col("origin").alias("airport"), "carrier", "weather")
    return grouped.agg(
        F.count("*").alias("flights"),
        count(delay.isNull()).alias("cancelled"),
        count(delay >= DELAYED_MINUTES).alias("delayed"),
        F.coalesce(F.sum(delay), F.lit(0)).alias("delay_sum"),
        F.max(delay).alias("delay_max"),
        count(F.col("arr_delay").isNotNull()).alias("arrived"),
        F.coalesce(F.sum("arr_delay"), F.lit(0)).alias("arrival_delay_sum"),
    )


def airlines_frame(spark: SparkSession, airlines: Texts) -> DataFrame:
    """Return a DataFrame of airlines with the columns carrier and airline."""
    rows = [{"carrier": a["carrier"], "airline": a["name"]} for a in airlines]
    return spark.createDataFrame(pa.Table.from_pylist(rows))


def planes_frame(spark: SparkSession, planes: Texts) -> DataFrame:
    """Return a DataFrame of planes with the columns tailnum, manufacturer, model and plane_year."""
    listed = list(planes)
    columns = {name: pa.array([p[name] for p in listed], pa.string()) for name in ("tailnum", "manufacturer", "model")}
    years = pa.array([int(p["year"]) if p["year"] else None for p in listed], pa.int32())
    return spark.createDataFrame(pa.table({**columns, "plane_year": years}))
