"""Helpers for a pipeline's definitions: the address of the brokers, and the options for reading and writing a topic.

A definition file is plain Python that Spark executes to collect the definitions. The address is taken from an
environment variable, which `ottla pipeline run --bootstrap-server` sets, so that a project runs on a local broker and
on a cluster without changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.options.sink_options import CREATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BOOTSTRAP_SERVERS = "OTTLA_BOOTSTRAP_SERVERS"
"""The environment variable with the addresses of the brokers."""
DEFAULT_SERVERS = "127.0.0.1:9092"
DATABASE = "OTTLA_PIPELINE_DATABASE"
"""The environment variable with the URL of the database of `format("ottla.sql")`."""
MAX_OFFSETS = "OTTLA_PIPELINE_MAX_OFFSETS"
"""The environment variable with the maximum number of offsets in a micro-batch. If it is not set, a run by
default reads everything in one micro-batch.
"""


def bootstrap_servers() -> str:
    """Return the addresses of the brokers, `host:port,…`."""
    return os.environ.get(BOOTSTRAP_SERVERS) or DEFAULT_SERVERS


def database_url() -> str:
    """Return the URL of the database for results. The default is a SQLite file in the current directory, which is the
    project while Spark executes the definitions.
    """
    return os.environ.get(DATABASE) or f"sqlite:///{Path.cwd() / 'results.db'}"


def read_topic(*topics: str, **options: Any) -> DataFrame:
    """Return a streaming DataFrame of the topics, by default from their beginning and with headers. `options` are
    options of `format("ottla")`, which take precedence over the defaults.
    """
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    defaults: dict[str, Any] = {
        "kafka.bootstrap.servers": bootstrap_servers(),
        "subscribe": ",".join(topics),
        "startingOffsets": "earliest",
        "includeHeaders": "true",
    }
    if os.environ.get(MAX_OFFSETS):
        defaults["maxOffsetsPerTrigger"] = os.environ[MAX_OFFSETS]
    return spark.readStream.format("ottla").options(**{**defaults, **options}).load()


def writing(topic: str, *, table: str | None = None, schema: str = "json", **options: str) -> dict[str, str]:
    """Return the options of a sink that writes to a topic: `create_sink(name, "ottla", writing("topic"))`.

    `table`: the format of the topic's table (iceberg, delta or parquet), if the sink creates the topic; `schema`: the
    table's columns, as in `ottla.table.schema`. A topic that exists keeps its configs.
    """
    creation = {} if table is None else {"ottla.table.format": table, "ottla.table.schema": schema}
    return {
        "kafka.bootstrap.servers": bootstrap_servers(),
        "topic": topic,
        **{f"{CREATION}{name}": value for name, value in creation.items()},
        **options,
    }
