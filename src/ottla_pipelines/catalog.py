"""Every topic, SQL table and Parquet dataset of the pipelines, in one place.

All SQL tables have the prefix `ottla_`, because each run drops and recreates them in a database that may hold other
tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Date, DateTime, Float, Integer, MetaData, String, Table, Text

TABLES = MetaData()
"""The SQL tables."""


class Topic(NamedTuple):
    """A topic of the pipelines, and the reason for its number of partitions."""

    name: str
    partitions: int
    doc: str


FLIGHTS = Topic("flights", 4, "Departures; key: tail number, null where there is none.")
WEATHER = Topic("weather", 3, "Hourly observations; key: airport, so that one airport's hours keep their order.")
EVENTS = Topic("events", 4, "Lines of a file; key: the field that is counted by.")
VISITS = Topic(
    "visits", 4, "Lines of a web server's log; key: the visitor's address, so that his visits keep their order."
)

TOPICS = (FLIGHTS, WEATHER, EVENTS, VISITS)

TOPIC_CONFIG = {"retention.ms": "-1"}
"""Configs of all topics: events have timestamps of years ago, and the default retention would delete them at once."""


class Dataset(NamedTuple):
    """A directory of Parquet files, one subdirectory per micro-batch."""

    name: str
    columns: str
    """The columns in Spark's DDL."""
    doc: str


WEATHER_VALUES = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
"""The measurements of an observation: °F, °F, %, degrees, mph, mph, inches, millibar, miles."""

FLIGHT_VALUES = (
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
)
"""The whole numbers of a flight; times of day as HHMM, delays and air time in minutes, distance in miles."""

JOINED_FLIGHTS = Dataset(
    "joined_flights",
    "row int, day date, scheduled timestamp, time_hour timestamp, origin string, dest string, carrier string, "
    "airline string, tailnum string, manufacturer string, model string, plane_year int, "
    + ", ".join(f"{name} int" for name in FLIGHT_VALUES)
    + ", "
    + ", ".join(f"{name} double" for name in WEATHER_VALUES)
    + ", weather string",
    "Each flight with its airline, its plane and the weather of its hour at its airport.",
)
EVENT_ROWS = Dataset("event_rows", "row int, time timestamp, group string, event string", "Each line of the input.")

DATASETS = (JOINED_FLIGHTS, EVENT_ROWS)


def batch_directory(dataset: Path, batch_id: int) -> Path:
    """Return the directory of a micro-batch's rows in a dataset; Spark and pyarrow read `batch=` as a column."""
    return dataset / f"batch={batch_id:06d}"


BATCHES = Table(
    "ottla_batches",
    TABLES,
    Column("batch_id", BigInteger, primary_key=True, autoincrement=False),
    Column("query_id", String(64), nullable=False),
    Column("records_in", BigInteger, nullable=False),
    Column("rows_out", BigInteger, nullable=False),
    Column("committed_at", DateTime(timezone=True), nullable=False),
    comment="Micro-batches whose results are in the other tables: written in the same transaction as they.",
)
PROGRESS = Table(
    "ottla_progress",
    TABLES,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    comment="Up to where each topic partition has been read, and how many records that were.",
)
OBSERVATIONS = Table(
    "ottla_weather",
    TABLES,
    Column("origin", String(8), primary_key=True),
    Column("time_hour", DateTime(timezone=False), primary_key=True),
    *(Column(name, Float(53)) for name in WEATHER_VALUES),
    comment="The weather seen so far (UTC): what flights are joined with.",
)
FRONTIERS = Table(
    "ottla_frontiers",
    TABLES,
    Column("origin", String(8), primary_key=True),
    Column("time_hour", DateTime(timezone=False), nullable=False),
    comment="The last hour seen of each airport; every earlier one is decided, since a key's records keep their order.",
)
PENDING = Table(
    "ottla_pending",
    TABLES,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text, nullable=False),
    comment="Flights that wait for the weather of their hour.",
)
DELAYS = Table(
    "ottla_delays",
    TABLES,
    Column("day", Date, primary_key=True),
    Column("airport", String(8), primary_key=True),
    Column("carrier", String(8), primary_key=True),
    Column("weather", String(32), primary_key=True),
    Column("flights", BigInteger, nullable=False),
    Column("cancelled", BigInteger, nullable=False),
    Column("delayed", BigInteger, nullable=False),
    Column("delay_sum", BigInteger, nullable=False),
    Column("delay_max", BigInteger),
    Column("arrived", BigInteger, nullable=False),
    Column("arrival_delay_sum", BigInteger, nullable=False),
    comment="Delay statistics in windows of one local day; delays in minutes, delayed means 15 or more.",
)
COUNTS = Table(
    "ottla_counts",
    TABLES,
    Column("window_start", String(32), primary_key=True),
    Column("event_group", String(200), primary_key=True),
    Column("events", BigInteger, nullable=False),
    comment="Events of --input by window of event time and by group.",
)

WEATHER_CLASSES = (
    ("snow", "precipitation at 34 °F or below"),
    ("rain", "precipitation above 34 °F, or at an unknown temperature"),
    ("fog", "no precipitation, visibility under 2 miles"),
    ("wind", "otherwise, wind of 20 mph or more"),
    ("fair", "any other observation"),
    ("unknown", "no observation for the hour"),
)
"""The weather classes and their meanings; the first one that fits applies."""
