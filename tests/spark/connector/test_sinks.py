"""The same write with format("ottla") and format("kafka"), read back by a consumer."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.spark.connector.jobs import QUERY_SECONDS, Jobs
from tests.spark.connector.sink_table import REFUSED, WRITES, Refused, Write
from tests.spark.connector.table import chosen, noted, often
from tests.whole_topic import whole_topic

from ottla import ConsumerRecord, NewTopic
from ottla.client.admin.admin import KafkaAdminClient
from ottla.spark.options.sink_options import SINK_OPTIONS

PARTITIONS = 3
ONLY_OURS = {"transactionalIdPrefix", "topic.creation.default.*", "sinkId", "batchId"}


@pytest.fixture
def topics(ours: Jobs) -> dict[str, str]:
    """A topic for each format."""
    made = {name: f"w{uuid4().hex[:8]}" for name in ("ottla", "kafka")}
    with KafkaAdminClient(bootstrap_servers=ours.servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in made.values()])
    return made


def written(jobs: Jobs, topic: str) -> list[Any]:
    rows = whole_topic(jobs.servers, topic, PARTITIONS, isolation_level="read_committed")
    return sorted((place(r), r.key or b"", r.value or b"", r.key, r.value, tuple(r.headers)) for r in rows)


def place(record: ConsumerRecord) -> int:
    """The partition, which is any where there is no key."""
    return -1 if record.key is None else record.partition


def write(jobs: Jobs, topic: str, row: Write | Refused) -> None:
    frame = jobs.spark.sql(row.sql.replace("{}", topic)).repartition(1)
    jobs.write(frame, {name: text.replace("{}", topic) for name, text in row.options.items()})


@noted("batch sink", "keys, values, topics, partitions, headers")
@pytest.mark.parametrize("row", chosen(WRITES), ids=lambda row: row.name)
def test_both_connectors_write_the_same(row: Write, ours: Jobs, theirs: Jobs, topics: dict[str, str]) -> None:
    for jobs in (ours, theirs):
        write(jobs, topics[jobs.format], row)
    assert written(ours, topics["ottla"]) == written(theirs, topics["kafka"])


@pytest.mark.parametrize("row", chosen(REFUSED), ids=lambda row: row.name)
def test_both_connectors_refuse_to_write(row: Refused, ours: Jobs, theirs: Jobs, topics: dict[str, str]) -> None:
    with pytest.raises(Exception, match="Error: ") as ended:  # Spark's own wrapping.
        write(ours, topics["ottla"], row)
    words = [word.replace("{}", topics["ottla"]) for word in row.words]
    assert [word for word in words if word not in str(ended.value)] == [], str(ended.value)
    with pytest.raises(Exception, match="."):
        write(theirs, topics["kafka"], row)


@noted("streaming sink", "append, complete")
@pytest.mark.parametrize("mode", often("complete", "append"))
def test_both_connectors_write_streams(
    mode: str, ours: Jobs, theirs: Jobs, topics: dict[str, str], tmp_path: Path
) -> None:
    """The mode update is refused to Python sinks by Spark itself."""
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


def test_every_option_of_the_sink_has_a_row() -> None:
    used = {name for row in (*WRITES, *REFUSED) for name in row.options}
    assert {row.name for row in SINK_OPTIONS} - ONLY_OURS <= used
