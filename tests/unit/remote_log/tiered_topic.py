"""A tiered topic of an embedded broker, and its objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from ottla import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from ottla.broker.embedded import Broker
from ottla.model import TopicPartition
from ottla.remote_log.remote_storage import ObjectStorage
from ottla.replication.partition import Partition

SECONDS = 30.0
SEGMENT_RECORDS = 7
"""The number of records of `produce` in a segment."""


def configs(url: str | None = None) -> dict[str, Any]:
    """Return the configs of a broker with a separate remote storage and frequent tasks."""
    return {
        "remote.log.storage.system.enable": "true",
        "rsm.config.url": url or f"memory://{uuid4()}",
        "remote.log.manager.task.interval.ms": 20,
        "remote.log.manager.task.retry.backoff.ms": 20,
        "remote.log.manager.task.retry.backoff.max.ms": 40,
        "remote.log.metadata.topic.num.partitions": 2,
        "log.retention.check.interval.ms": 20,
    }


def wait_until(condition: Callable[[], object]) -> None:
    """Return when a condition holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.005)


class TieredTopic:
    """Partition 0 of a tiered topic."""

    def __init__(self, broker: Broker, name: str = "t", replicas: int = 1, **topic_configs: str) -> None:
        self.broker = broker
        self.tp = TopicPartition(name, 0)
        self.admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        settings: Mapping[str, str] = {
            "remote.storage.enable": "true",
            "segment.bytes": "2000",
            "retention.ms": "-1",  # the timestamps are old
            "local.retention.bytes": "1",
            **{key.replace("_", "."): value for key, value in topic_configs.items()},
        }
        if name not in self.admin.list_topics():
            self.admin.create_topics([NewTopic(name, 1, replicas, topic_configs=dict(settings))])

    def partition(self, broker_id: int = 0) -> Partition:
        partition = self.broker.nodes[broker_id].context.partitions.get(self.tp)
        assert partition is not None
        return partition

    def produce(self, count: int, first: int = 0) -> None:
        """Write records of 200 bytes, each a batch, with their number as value and timestamp."""
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers, linger_ms=0, batch_size=1) as producer:
            futures = [
                producer.send(self.tp.topic, b"%06d" % i + b"x" * 194, timestamp_ms=1_000 + i)
                for i in range(first, first + count)
            ]
            for future in futures:
                future.get(SECONDS)

    def read(self, until: int, first: int = 0, **options: Any) -> list[int]:
        """Return the numbers of the records from offset `first` to before `until`."""
        return self.read_within(until, SECONDS, first, **options)

    def read_within(self, until: int, seconds: float, first: int = 0, **options: Any) -> list[int]:
        """Return what `read` returns, or fail after some time."""
        numbers: list[int] = []
        with KafkaConsumer(bootstrap_servers=self.broker.bootstrap_servers, group_id=None, **options) as consumer:
            consumer.assign([self.tp])
            consumer.seek(self.tp, first)
            deadline = time.monotonic() + seconds
            while consumer.position(self.tp) < until:
                assert time.monotonic() < deadline, f"only {numbers} were read"
                for record in consumer.poll(200).get(self.tp, []):
                    assert record.value is not None
                    numbers.append(int(record.value[:6]))
        return numbers

    def wait_local_start(self, offset: int, broker_id: int = 0) -> None:
        """Wait until the records before `offset` are only in remote storage."""
        wait_until(lambda: self.partition(broker_id).log.local_log_start_offset >= offset)

    def objects(self) -> list[str]:
        """Return the names of the objects of the store, without the folder of the topic."""
        storage = self.broker.nodes[min(self.broker.nodes)]._tiered_storage
        assert storage is not None
        assert isinstance(storage.storage, ObjectStorage)
        return [name.rpartition("/")[2] for name in storage.storage.list()]

    def copied_bases(self) -> list[int]:
        """Return the base offsets of the segments in the store."""
        return sorted({int(name[:20]) for name in self.objects() if name.endswith(".log")})
