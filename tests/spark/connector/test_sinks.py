"""The same write with format("ottla") and format("kafka"), read back by a consumer."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.spark.connector.jobs import QUERY_SECONDS, Jobs
from tests.spark.connector.sink_table import INVALID_WRITES, WRITES, InvalidWrite, Write
from tests.spark.connector.table import compatibility, first_or_all, selected
from tests.whole_topic import whole_topic

from ottla import ConsumerRecord, NewTopic
from ottla.client.admin.admin import KafkaAdminClient
from ottla.spark.options.sink_options import SINK_OPTIONS

PARTITIONS = 3
OTTLA_ONLY = {"transactionalIdPrefix", "topic.creation.default.*", "sinkId", "batchId"}


@pytest.fixture
def topics(ours: Jobs) -> dict[str, str]:
    """Create a topic for each format."""
    made = {name: f"w{uuid4().hex[:8]}" for name in ("ottla", "kafka")}
    with KafkaAdminClient(bootstrap_servers=ours.servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in made.values()])
    return made


def written(jobs: Jobs, topic: str) -> list[Any]:
    rows = whole_topic(jobs.servers, topic, PARTITIONS, isolation_level="read_committed")
    return sorted((place(r), r.key or b"", r.value or b"", r.key, r.value, tuple(r.headers)) for r in rows)


def place(record: ConsumerRecord) -> int:
    """Return the partition, or -1 for a record without a key, whose partition is arbitrary."""
    return -1 if record.key is None else record.partition


def write(jobs: Jobs, topic: str, row: Write | InvalidWrite) -> None:
    frame = jobs.spark.sql(row.sql.replace("{}", topic)).repartition(1)
    jobs.write(frame, {name: text.replace("{}", topic) for name, text in row.options.items()})


@compatibility("batch sink", "keys, values, topics, partitions, headers")
@pytest.mark.parametrize("row", selected(WRITES), ids=lambda row: row.name)
def test_connectors_write_equal_records(row: Write, ours: Jobs, theirs: Jobs, topics: dict[str, str]) -> None:
    for jobs in (ours, theirs):
        write(jobs, topics[jobs.format], row)
    assert written(ours, topics["ottla"]) == written(theirs, topics["kafka"])


@pytest.mark.parametrize("row", selected(INVALID_WRITES), ids=lambda row: row.name)
def test_connectors_reject_invalid_writes(row: InvalidWrite, ours: Jobs, theirs: Jobs, topics: dict[str, str]) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark's own wrapping.
        write(ours, topics["ottla"], row)
    words = [word.replace("{}", topics["ottla"]) for word in row.words]
    assert [word for word in words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        write(theirs, topics["kafka"], row)


@compatibility("streaming sink", "append, complete")
@pytest.mark.parametrize("mode", first_or_all("complete", "append"))
def test_connectors_write_equal_streams(
    mode: str, ours: Jobs, theirs: Jobs, topics: dict[str, str], tmp_path: Path
) -> None:
    """Spark itself rejects the mode update for Python sinks."""
    for jobs in (ours, theirs):
        rows = jobs.stream_of({"subscribe": "cut", "startingOffsets": '{"cut": {"0": 5, "1": 0}}'})
        if mode != "append":
            rows = rows.selectExpr("cast(partition as string) key").groupBy("key").count()
            rows = rows.selectExpr("key", "cast(count as string) value")
        query = jobs.write_stream(rows, {"topic": topics[jobs.format]}, tmp_path / jobs.format, mode)
        assert query.awaitTermination(QUERY_SECONDS)
    actual = written(ours, topics["ottla"])
    assert actual == written(theirs, topics["kafka"])
    assert len(actual) == (35 if mode == "append" else 2)


def test_every_sink_option_has_a_row() -> None:
    used = {name for row in (*WRITES, *INVALID_WRITES) for name in row.options}
    assert {row.name for row in SINK_OPTIONS} - OTTLA_ONLY <= used
