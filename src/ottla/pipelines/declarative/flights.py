"""The flights as a declarative pipeline: events to columns, and what a joined flight consists of.

The rules are those of `refine.flights`; only where state lies is different.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ottla.pipelines.catalog import JOINED_FLIGHTS, WEATHER_VALUES
from ottla.pipelines.ingest.nycflights import data_file
from ottla.pipelines.refine.flights import flight_columns, weather_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HEAD = "origin string, time_hour timestamp, closing boolean, tailnum string"
_AIRLINE = "carrier string, airline string"
_PLANE = (
    "tailnum string, plane_year int, type string, manufacturer string, model string, engines int, seats int, "
    "speed int, engine string"
)
_OBSERVATION = ", ".join(f"{name} double" for name in WEATHER_VALUES)
_COLUMNS = [column.strip().split(" ")[0] for column in JOINED_FLIGHTS.columns.split(",")]


def events(rows: DataFrame) -> DataFrame:
    """Rows of both topics with `value` as it came, `text`, and what expectations and the join look at."""
    text = F.col("value").cast("string")
    head = F.from_json("text", _HEAD)
    names = [column.split(" ")[0] for column in _HEAD.split(", ")]
    found = rows.withColumn("text", F.when(F.is_valid_utf8(text), text)).withColumn("head", head)
    return found.withColumns({name: F.col("head")[name] for name in names}).drop("head")


def airlines(spark: SparkSession) -> DataFrame:
    """carrier, airline."""
    return _read(spark, "airlines.csv", _AIRLINE)


def planes(spark: SparkSession) -> DataFrame:
    """tailnum, manufacturer, model, plane_year."""
    return _read(spark, "planes.csv", _PLANE).select("tailnum", "manufacturer", "model", "plane_year")


def _read(spark: SparkSession, file: str, schema: str) -> DataFrame:
    reader = spark.read.schema(schema).option("header", "true").option("nullValue", "NA")
    # The columns have our names; Spark would compare them with the header's.
    return reader.option("enforceSchema", "true").csv(data_file(file).as_uri())


def described(joined: DataFrame, airlines: DataFrame, planes: DataFrame) -> DataFrame:
    """The columns of the catalog's JOINED_FLIGHTS, of decided flights (columns flight, observation).

    Only with `select`: `withColumn` over a pipeline's table is bound to that table once it exists, and Spark then no
    longer sees that this flow has to wait for it.
    """
    flights = joined.select(F.col("flight").alias("value"), "observation")
    parsed, scheduled, day = flight_columns(flights, "observation")
    seen = F.from_json("observation", _OBSERVATION)
    observed = F.when(F.col("observation").isNotNull(), F.col("origin")).alias("w_origin")
    wide = parsed.select("*", scheduled.alias("scheduled"), observed, *(seen[n].alias(n) for n in WEATHER_VALUES))
    wide = wide.select("*", day.alias("day"), weather_class().alias("weather"))
    wide = wide.join(F.broadcast(airlines), "carrier", "left").join(F.broadcast(planes), "tailnum", "left")
    return wide.select(*_COLUMNS)
