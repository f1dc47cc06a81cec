"""The same streaming query with format("ottla") and format("kafka"), down to the offsets of its micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from tests.spark.connector.jobs import Jobs
from tests.spark.connector.table import STREAMS, Stream, chosen, noted, often

from ottla import KafkaProducer, NewTopic, TopicPartition
from ottla.client.admin.admin import KafkaAdminClient


class Changing:
    """A topic that gets more."""

    def __init__(self, address: str) -> None:
        self.name = f"s{uuid4().hex[:8]}"
        self.address = address
        self.partitions = 2
        self.sent = 0
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic(self.name, self.partitions, 1)])
        self.records(20)

    def records(self, count: int = 10) -> None:
        with KafkaProducer(bootstrap_servers=self.address, linger_ms=5) as producer:
            for n in range(self.sent, self.sent + count):
                for partition in range(2):
                    value = b"%d-%d" % (partition, n)
                    producer.send(self.name, value, partition=partition, timestamp_ms=1000 * n)
        self.sent += count

    def partition(self) -> None:
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.create_partitions({self.name: self.partitions + 1})
        with KafkaProducer(bootstrap_servers=self.address) as producer:
            producer.send(self.name, b"new", partition=self.partitions, timestamp_ms=5).get(30)
        self.partitions += 1

    def topic(self) -> None:
        with KafkaProducer(bootstrap_servers=self.address) as producer:
            producer.send(f"{self.name}.more", b"new", timestamp_ms=5).get(30)

    def deleted(self) -> None:
        """The first 25 records of each partition go, and 5 of them were not read."""
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.delete_records({TopicPartition(self.name, p): self.sent - 5 for p in range(2)})

    def recreated(self) -> None:
        """Another topic of this name, with fewer records."""
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.delete_topics([self.name])
            admin.create_topics([NewTopic(self.name, self.partitions, 1)])
        self.sent = 0
        self.records(5)


def named(options: Mapping[str, str], topic: str) -> dict[str, str]:
    return {name: text.format(topic) for name, text in options.items()}


@noted("streaming source", "every option")
@pytest.mark.parametrize("row", chosen(STREAMS), ids=lambda row: row.name)
def test_both_connectors_make_the_same_micro_batches(row: Stream, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = Changing(ours.servers)
    options = named(row.options, topic.name)
    more_first = row.fixed_first
    for rows, change in zip(row.rows, (*row.changes, None), strict=True):
        expected = theirs.stream(options, tmp_path / "theirs")
        actual = ours.stream(options, tmp_path / "ours")
        if more_first:
            del actual.offsets[0]
            more_first = False
        assert sum(map(len, expected.batches)) == rows
        assert actual == expected
        if change is not None:
            getattr(topic, change)()


@noted("streaming source", "lost records are reported")
@pytest.mark.parametrize(("change", "left"), often(("deleted", 10), ("recreated", 0)))
def test_both_connectors_report_lost_records(change: str, left: int, ours: Jobs, theirs: Jobs, tmp_path: Path) -> None:
    topic = Changing(ours.servers)
    options = {"subscribe": topic.name, "startingOffsets": "earliest"}
    for jobs in (ours, theirs):
        jobs.stream(options, tmp_path / jobs.format)
    topic.records()
    getattr(topic, change)()
    with pytest.raises(Exception, match=rf"{topic.name}-[01].*set failOnDataLoss to false"):
        ours.stream(options, tmp_path / "ottla")
    with pytest.raises(Exception, match="failOnDataLoss"):
        theirs.stream(options, tmp_path / "kafka")
    options["failOnDataLoss"] = "false"
    actual, expected = (jobs.stream(options, tmp_path / jobs.format) for jobs in (ours, theirs))
    assert actual == expected
    assert sum(map(len, actual.batches)) == left
    topic.records(3)
    actual, expected = (jobs.stream(options, tmp_path / jobs.format) for jobs in (ours, theirs))
    assert actual == expected
    assert sum(map(len, actual.batches)) == 6
