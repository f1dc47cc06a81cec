"""A minimal pipeline that copies a topic to a table."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame

from ottla_pipelines.declarative.topics import read_topic


@dp.table(comment="The records of the topic `events`.")
def events() -> DataFrame:
    return read_topic("events").selectExpr(
        "partition", "offset", "timestamp", "cast(key as string) as key", "cast(value as string) as value"
    )
