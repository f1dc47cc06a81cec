"""`format("ottla")` as Spark sees it: a name, a schema, and a reader for batches and one for streams.

Spark pickles this object and sends it to other Python processes, so it holds the options as they came and nothing else;
the readers check them.
"""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ottla.errors import ConfigurationError
from ottla.spark.arrow import HEADERS_SCHEMA, SPARK_SCHEMA
from ottla.spark.options import read_options
from ottla.spark.reader import BatchReader
from ottla.spark.stream import StreamReader


class OttlaSource(DataSource):
    """Topics as rows: key, value, topic, partition, offset, timestamp, timestampType, and headers if asked for."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.given = dict(options)

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`. Not "kafka": Spark resolves that name before it asks Python."""
        return "ottla"

    def schema(self) -> str:
        """The schema of Spark's Kafka connector."""
        headers = {k.lower(): v for k, v in self.given.items()}.get("includeheaders", "false").strip().lower()
        if headers not in ("true", "false"):
            raise ConfigurationError(f"includeHeaders: {headers!r} is not allowed: true or false is wanted")
        return SPARK_SCHEMA + (HEADERS_SCHEMA if headers == "true" else "")

    def reader(self, schema: StructType) -> BatchReader:
        """For `spark.read`."""
        return BatchReader(read_options(self.given, streaming=False))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - the name is Spark's
        """For `spark.readStream`."""
        return StreamReader(read_options(self.given, streaming=True))
