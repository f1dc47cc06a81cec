"""Page visits: a web server's log from a topic to sessions, pages, referrers and visitors.

topic visits ─┬─► visits (table) ─┬─► top_pages, referrers, visitors_per_minute
              │                   └─► topic parsed-visits, with an Iceberg table
              ├─► sessions (table, transformWithState) ─┬─► topic sessions, with an Iceberg table
              │                                         └─► SQL table sessions
              ├─► topic dead-letters
              └─► tally (table) ───► quality (expectations, and the number of rows that do not meet them)
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla_pipelines.declarative.access_log import parsed
from ottla_pipelines.declarative.sessions import sessions_of
from ottla_pipelines.declarative.topics import database_url, read_topic, writing
from ottla_pipelines.expectations import Expectations, expect

spark = SparkSession.active()

CHECKS = Expectations(
    expect("is a line of the log", "is_visit", "dead_letter"),
    expect("has a time", "time is not null", "dead_letter"),
    expect("comes from somewhere", "referrer is not null", "warn"),
)


def rows() -> DataFrame:
    """Return all records of the topic, with columns for the fields of the lines that can be parsed."""
    return parsed(read_topic("visits"))


# --- visits, and lines that are not visits


@dp.table(comment="The lines that are valid visits, with their partition and offset.")
def visits() -> DataFrame:
    return CHECKS.good(rows()).select(
        "partition", "offset", "visitor", "time", "method", "page", "status", "bytes", "referrer", "agent", "is_bot"
    )


dp.create_sink("dead_letters", "ottla", writing("dead-letters"))


@dp.append_flow(target="dead_letters", name="bad_lines")
def bad_lines() -> DataFrame:
    return CHECKS.dead_letters(rows())


@dp.table(comment="The number of lines checked by each expectation, and how many did not meet it, by task.")
def tally() -> DataFrame:
    return CHECKS.tally(rows())


@dp.materialized_view(comment="The number of lines checked by each expectation, and how many did not meet it.")
def quality() -> DataFrame:
    sums = F.sum("seen").alias("seen"), F.sum("unmet").alias("unmet")
    return spark.read.table("tally").groupBy("name", "action").agg(*sums)


# --- sessions

# Not in the function, because Spark resolves the columns immediately.
SESSIONS = sessions_of(CHECKS.good(rows()).filter("not is_bot"))


@dp.table(comment="The sessions that have ended: visits of one visitor without a gap of half an hour.")
def sessions() -> DataFrame:
    return SESSIONS


# --- materialized views. Every run recomputes them, so that late visits are counted in the right hour.


@dp.materialized_view(comment="The ten most visited pages of each hour, without bots.")
def top_pages() -> DataFrame:
    by_hour = spark.read.table("visits").filter("not is_bot").groupBy(F.window("time", "1 hour"), "page").count()
    rank = "row_number() over (partition by window order by count desc, page) as rank"
    return by_hour.selectExpr("window.start as hour", "page", "count as visits", rank).filter("rank <= 10")


@dp.materialized_view(comment="The number of visits by referrer, without bots.")
def referrers() -> DataFrame:
    return spark.read.table("visits").filter("not is_bot and referrer is not null").groupBy("referrer").count()


@dp.materialized_view(comment="The number of distinct visitors and of visits by minute, without bots.")
def visitors_per_minute() -> DataFrame:
    per_minute = spark.read.table("visits").filter("not is_bot").groupBy(F.date_trunc("minute", "time").alias("minute"))
    return per_minute.agg(F.count_distinct("visitor").alias("visitors"), F.count("*").alias("visits"))


# --- sinks. `ottla tables` writes the topics to Iceberg tables with these columns.

VISIT_COLUMNS = (
    "json:partition int, offset bigint, visitor string, time timestamp, method string, page string, status int,"
    " bytes bigint, referrer string, agent string, is_bot boolean"
)
SESSION_COLUMNS = (
    "json:visitor string, started timestamp, ended timestamp, visits int, entry_page string, exit_page string,"
    " referrer string"
)

dp.create_sink("parsed_visits", "ottla", writing("parsed-visits", table="iceberg", schema=VISIT_COLUMNS))


@dp.append_flow(target="parsed_visits", name="visits_as_json")
def visits_as_json() -> DataFrame:
    return spark.readStream.table("visits").selectExpr("visitor as key", "to_json(struct(*)) as value")


dp.create_sink("session_topic", "ottla", writing("sessions", table="iceberg", schema=SESSION_COLUMNS))


@dp.append_flow(target="session_topic", name="sessions_as_json")
def sessions_as_json() -> DataFrame:
    return spark.readStream.table("sessions").selectExpr("visitor as key", "to_json(struct(*)) as value")


dp.create_sink("session_rows", "ottla.sql", {"url": database_url(), "dbtable": "sessions"})


@dp.append_flow(target="session_rows", name="sessions_as_rows")
def sessions_as_rows() -> DataFrame:
    return spark.readStream.table("sessions")
