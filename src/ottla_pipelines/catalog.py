"""The definitions of the topics, SQL tables and Parquet datasets of the demo, and of the topic of page visits.

All SQL tables have the prefix `ottla_`, because each new run drops and creates them in a database that may contain
other tables.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sqlalchemy import BigInteger, Column, Date, DateTime, Float, Integer, MetaData, String, Table, Text

TABLES = MetaData()
"""The metadata of SQLAlchemy with the demo's SQL tables."""


class Topic(NamedTuple):
    """A topic, its number of partitions, and a description of its records."""

    name: str
    partitions: int
    doc: str


FLIGHTS = Topic("flights", 4, "Flights; key: tail number, null if it is unknown.")
WEATHER = Topic(
    "weather", 3, "Hourly observations; key: airport, so that the observations of an airport stay in order."
)
EVENTS = Topic("events", 4, "Lines of a file; key: the group in which a line is counted.")
VISITS = Topic(
    "visits",
    4,
    "Lines of a web server's log; key: the visitor's address, so that the visits of one visitor stay in order.",
)

TOPICS = (FLIGHTS, WEATHER, EVENTS, VISITS)

TOPIC_CONFIG = {"retention.ms": "-1"}
"""Configs of the demo's topics. The flights have timestamps of years ago, so that the default retention would delete
them.
"""


class Dataset(NamedTuple):
    """A directory of Parquet files, one subdirectory per micro-batch."""

    name: str
    columns: str
    """The columns as a DDL string of Spark."""
    doc: str

    @property
    def topic(self) -> str:
        """The name of the topic that the rows are also written to with `--table-format`."""
        return self.name.replace("_", "-")


WEATHER_VALUES = ("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib")
"""The names of an observation's measurements. Units: °F, °F, %, degrees, mph, mph, inches, millibar, miles."""

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
"""The names of a flight's integer fields. Times of day are HHMM (1730 is 17:30); delays and air time are in minutes,
distance in miles.
"""

JOINED_FLIGHTS = Dataset(
    "joined_flights",
    "row int, day date, scheduled timestamp, time_hour timestamp, origin string, dest string, carrier string, "
    "airline string, tailnum string, manufacturer string, model string, plane_year int, "
    + ", ".join(f"{name} int" for name in FLIGHT_VALUES)
    + ", "
    + ", ".join(f"{name} double" for name in WEATHER_VALUES)
    + ", weather string",
    "Each flight with its airline, its plane, and the weather at its airport in the hour of departure.",
)
EVENT_ROWS = Dataset("event_rows", "row int, time timestamp, group string, event string", "Each line of the input.")

DATASETS = (JOINED_FLIGHTS, EVENT_ROWS)


def batch_directory(dataset: Path, batch_id: int) -> Path:
    """Return the directory of a micro-batch's rows in a dataset. Spark and pyarrow read its name (`batch=000012`) as a
    column.
    """
    return dataset / f"batch={batch_id:06d}"


BATCHES = Table(
    "ottla_batches",
    TABLES,
    Column("batch_id", BigInteger, primary_key=True, autoincrement=False),
    Column("query_id", String(64), nullable=False),
    Column("records_in", BigInteger, nullable=False),
    Column("rows_out", BigInteger, nullable=False),
    Column("committed_at", DateTime(timezone=True), nullable=False),
    comment="The committed micro-batches. A row is written in the same transaction as the results of its micro-batch.",
)
PROGRESS = Table(
    "ottla_progress",
    TABLES,
    Column("topic", String(249), primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    comment="The next offset to read of each topic partition, and the number of records read.",
)
OBSERVATIONS = Table(
    "ottla_weather",
    TABLES,
    Column("origin", String(8), primary_key=True),
    Column("time_hour", DateTime(timezone=False), primary_key=True),
    *(Column(name, Float(53)) for name in WEATHER_VALUES),
    comment="The weather observations read so far, by airport and hour (UTC).",
)
FRONTIERS = Table(
    "ottla_frontiers",
    TABLES,
    Column("origin", String(8), primary_key=True),
    Column("time_hour", DateTime(timezone=False), nullable=False),
    comment="By airport, the hour of the last observation, or the end of time. No earlier observation can follow.",
)
PENDING = Table(
    "ottla_pending",
    TABLES,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Text, nullable=False),
    comment="Flights whose weather may still arrive.",
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
    comment="Delay statistics by local day. Delays are in minutes; a flight is delayed from 15 minutes.",
)
COUNTS = Table(
    "ottla_counts",
    TABLES,
    Column("window_start", String(32), primary_key=True),
    Column("event_group", String(200), primary_key=True),
    Column("events", BigInteger, nullable=False),
    comment="The number of events of --input, by hour of event time and by group.",
)

WEATHER_CLASSES = (
    ("snow", "precipitation at 34 °F or below"),
    ("rain", "precipitation above 34 °F, or at an unknown temperature"),
    ("fog", "no precipitation, visibility under 2 miles"),
    ("wind", "otherwise, wind of 20 mph or more"),
    ("fair", "any other observation"),
    ("unknown", "no observation for the hour"),
)
"""The weather classes and their meanings. The first class that applies is used."""
