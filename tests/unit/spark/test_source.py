"""Schemas and options that the data sources reject before reading or writing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("sqlalchemy")

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from ottla.errors import ConfigurationError
from ottla.spark.data_source import OttlaDataSource
from ottla.spark.options.sink_options import sink_options
from ottla.spark.sink.sql_sink import SqlSource
from ottla.spark.sink.writer import StreamWriter

READING = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}
WRITING = {"kafka.bootstrap.servers": "h:1", "topic": "a"}
ROWS = StructType([StructField("page", StringType()), StructField("value", BinaryType())])


def test_user_schema_with_other_columns_is_rejected_with_the_remedy() -> None:
    source = OttlaDataSource(READING)
    for create_reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match=r"the columns are key binary.*parse the column value"):
            create_reader(StructType([StructField("value", LongType())]))


@pytest.mark.parametrize(
    ("invalid_options", "message"),
    [
        ({"subscribePattern": ".*"}, "subscribe and subscribePattern exclude each other"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"startingOffsets": "last"}, "startingOffsets: 'last' is not allowed"),
        ({"includeHeaders": "maybe"}, "includeHeaders"),
    ],
)
def test_unsupported_options_are_reported_before_the_read(invalid_options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        OttlaDataSource({**READING, **invalid_options}).schema()


@pytest.mark.parametrize("options", [{"startingOffsets": "latest"}, {"endingOffsets": "latest"}])
def test_schema_ignores_options_of_only_batches_or_streams(options: dict[str, str]) -> None:
    assert OttlaDataSource({**READING, **options}).schema() == OttlaDataSource(READING).schema()


def test_user_schema_with_fewer_columns_limits_the_columns() -> None:
    expected = StructType([StructField("offset", LongType()), StructField("key", BinaryType())])
    reader: Any = OttlaDataSource(READING).reader(expected)
    assert reader.columns == ("offset", "key")
    assert OttlaDataSource({**READING, "includeHeaders": "true"}).streamReader(expected).columns == ("offset", "key")


def test_topic_accepts_output_mode_complete_and_rejects_overwrite() -> None:
    source = OttlaDataSource(WRITING)
    assert isinstance(source.streamWriter(ROWS, overwrite=True), StreamWriter)
    with pytest.raises(ConfigurationError, match="a topic only grows"):
        source.writer(ROWS, overwrite=True)


def test_table_requires_key_columns_for_output_mode_complete(tmp_path: Path) -> None:
    table = {"url": f"sqlite:///{tmp_path / 'x.db'}", "dbtable": "counts"}
    with pytest.raises(ConfigurationError, match="keyColumns"):
        SqlSource(table).streamWriter(ROWS, overwrite=True)
    assert isinstance(SqlSource({**table, "keyColumns": "page"}).streamWriter(ROWS, overwrite=True), StreamWriter)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("acks", "1", "all"),
        ("acks", "0", "all"),
        ("retries", "0", "more than 0"),
        ("max.in.flight.requests.per.connection", "6", "at most 5"),
    ],
)
def test_sink_option_that_contradicts_transactions_is_rejected(option: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        sink_options({**WRITING, f"Kafka.{option}": value})
    assert raised.value.message == (
        f"kafka.{option} ({value!r}) is not supported: leave it out or set it to {allowed};"
        " the sink writes in transactions"
    )
    sink_options({**WRITING, "kafka.acks": "all", "kafka.retries": "3"})


def test_enable_idempotence_may_be_true_but_not_false() -> None:
    assert "enable.idempotence" not in sink_options({**WRITING, "kafka.enable.idempotence": " True "}).kafka
    with pytest.raises(ConfigurationError, match=r"kafka.enable.idempotence \('false'\)"):
        sink_options({**WRITING, "kafka.enable.idempotence": "false"})


def test_topic_option_is_trimmed() -> None:
    assert sink_options({**WRITING, "topic": " a "}).topic == "a"
