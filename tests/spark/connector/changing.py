"""A topic that changes between two micro-batches."""

from __future__ import annotations

from uuid import uuid4

from ottla import KafkaProducer, NewTopic, TopicPartition
from ottla.client.admin.admin import KafkaAdminClient


class ChangingTopic:
    """A topic that gets records and partitions, loses records, or is created again."""

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
        """Delete all but the last five records of each partition, some of them unread."""
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.delete_records({TopicPartition(self.name, p): self.sent - 5 for p in range(2)})

    def recreated(self) -> None:
        """Delete the topic, and create another one of this name with fewer records."""
        with KafkaAdminClient(bootstrap_servers=self.address) as admin:
            admin.delete_topics([self.name])
            admin.create_topics([NewTopic(self.name, self.partitions, 1)])
        self.sent = 0
        self.records(5)
