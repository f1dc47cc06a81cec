"""What the sources refuse before anything is read or written."""

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


def test_a_schema_of_ones_own_is_refused_with_the_remedy() -> None:
    source = OttlaDataSource(READING)
    for make in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match=r"the columns are key binary.*parse the column value"):
            make(StructType([StructField("value", LongType())]))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"subscribePattern": ".*"}, "subscribe and subscribePattern exclude each other"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"startingOffsets": "last"}, "startingOffsets: 'last' is not allowed"),
        ({"includeHeaders": "maybe"}, "includeHeaders"),
    ],
)
def test_unsupported_options_are_reported_before_the_read(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        OttlaDataSource({**READING, **wrong}).schema()


@pytest.mark.parametrize("options", [{"startingOffsets": "latest"}, {"endingOffsets": "latest"}])
def test_what_only_a_batch_or_only_a_stream_takes_is_left_to_them(options: dict[str, str]) -> None:
    assert OttlaDataSource({**READING, **options}).schema() == OttlaDataSource(READING).schema()


def test_a_schema_may_name_fewer_columns_which_are_then_all_that_is_made() -> None:
    expected = StructType([StructField("offset", LongType()), StructField("key", BinaryType())])
    reader: Any = OttlaDataSource(READING).reader(expected)
    assert reader.columns == ("offset", "key")
    assert OttlaDataSource({**READING, "includeHeaders": "true"}).streamReader(expected).columns == ("offset", "key")


def test_complete_is_written_to_topics_but_overwriting_is_not() -> None:
    source = OttlaDataSource(WRITING)
    assert isinstance(source.streamWriter(ROWS, overwrite=True), StreamWriter)
    with pytest.raises(ConfigurationError, match="a topic only grows"):
        source.writer(ROWS, overwrite=True)


def test_complete_is_written_to_tables_that_have_keys(tmp_path: Path) -> None:
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
def test_sink_option_that_transactions_cannot_work_with_is_named(option: str, value: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        sink_options({**WRITING, f"Kafka.{option}": value})
    assert raised.value.message == (
        f"kafka.{option} ({value!r}) is not supported: leave it out or set it to {allowed};"
        " the sink writes in transactions"
    )
    sink_options({**WRITING, "kafka.acks": "all", "kafka.retries": "3"})


def test_idempotence_may_be_asked_for_and_not_be_refused() -> None:
    assert "enable.idempotence" not in sink_options({**WRITING, "kafka.enable.idempotence": " True "}).kafka
    with pytest.raises(ConfigurationError, match=r"kafka.enable.idempotence \('false'\)"):
        sink_options({**WRITING, "kafka.enable.idempotence": "false"})


def test_a_topic_is_trimmed() -> None:
    assert sink_options({**WRITING, "topic": " a "}).topic == "a"
