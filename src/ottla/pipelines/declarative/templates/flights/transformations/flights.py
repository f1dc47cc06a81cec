"""A year of flights: departures and weather from topics, joined exactly, to statistics of delays.

topics flights, weather ─┬─► joined (table, transformWithState) ─► joined_flights ─┬─► delays
                         │                                                         ├─► topic joined-flights
                         │                                                         └─► SQL table joined_flights
                         ├─► topic dead-letters
                         └─► quality
airlines, planes (files) ───► joined_flights
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipelines.catalog import FLIGHTS, WEATHER
from ottla.pipelines.declarative import flights as rules
from ottla.pipelines.declarative.topics import database_url, read_topic, writing
from ottla.pipelines.declarative.weather_join import join_weather
from ottla.pipelines.expectations import Expectations, expect
from ottla.pipelines.refine.flights import delay_statistics

spark = SparkSession.active()

CHECKS = Expectations(
    expect("is an event", "origin is not null", "dead_letter"),
    expect("has a time", "time_hour is not null or closing", "dead_letter"),
    expect("has a tail number", "topic <> 'flights' or tailnum is not null", "warn"),
)


def rows() -> DataFrame:
    """Every record of both topics."""
    return rules.events(read_topic(FLIGHTS.name, WEATHER.name))


dp.create_sink("dead_letters", "ottla", writing("dead-letters"))


@dp.append_flow(target="dead_letters", name="bad_events")
def bad_events() -> DataFrame:
    return CHECKS.dead_letters(rows())


@dp.table(comment="What was expected of the events, per task.")
def tally() -> DataFrame:
    return CHECKS.tally(rows())


@dp.materialized_view(comment="What was expected of the events, and how often it was not so.")
def quality() -> DataFrame:
    sums = F.sum("seen").alias("seen"), F.sum("unmet").alias("unmet")
    return spark.read.table("tally").groupBy("name", "action").agg(*sums)


# Outside of the function: Spark looks at the columns at once.
JOINED = join_weather(CHECKS.good(rows()), WEATHER.name)


@dp.table(comment="Each flight with the weather of its hour at its airport, as they came.")
def joined() -> DataFrame:
    return JOINED


@dp.materialized_view(comment="Carriers and their names.")
def airlines() -> DataFrame:
    return rules.airlines(spark)


@dp.materialized_view(comment="Planes by tail number.")
def planes() -> DataFrame:
    return rules.planes(spark)


@dp.table(comment="Each flight with its airline, its plane and the weather of its hour at its airport.")
def joined_flights() -> DataFrame:
    return rules.described(spark.readStream.table("joined"), spark.read.table("airlines"), spark.read.table("planes"))


@dp.materialized_view(comment="Delays per day, airport, carrier and weather.")
def delays() -> DataFrame:
    return delay_statistics(spark.read.table("joined_flights"))


dp.create_sink("joined_topic", "ottla", writing("joined-flights"))


@dp.append_flow(target="joined_topic", name="joined_as_json")
def joined_as_json() -> DataFrame:
    return spark.readStream.table("joined_flights").selectExpr("tailnum as key", "to_json(struct(*)) as value")


dp.create_sink("joined_rows", "ottla.sql", {"url": database_url(), "dbtable": "joined_flights"})


@dp.append_flow(target="joined_rows", name="joined_as_rows")
def joined_as_rows() -> DataFrame:
    return spark.readStream.table("joined_flights")
