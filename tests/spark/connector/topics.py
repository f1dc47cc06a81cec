"""The topics that both connectors read. The options in the tables depend on their names and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ottla import KafkaProducer, NewTopic, TopicPartition
from ottla.broker.embedded import Broker
from ottla.client.admin.admin import KafkaAdminClient
from ottla.legacy import KeyedMessage, Producer, ProducerConfig

TOPICS = {
    "plain": (3, {}),  # 50, 30 and 10 records, a second apart
    "other.topic": (1, {}),  # 5 records
    "empty": (2, {}),
    "packed": (1, {}),  # 10 records of each compression
    "format0": (1, {"message.format.version": "0.9.0"}),
    "format1": (1, {"message.format.version": "0.10.0"}),
    "stamped1": (1, {"message.format.version": "0.10.0", "message.timestamp.type": "LogAppendTime"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "transactions": (1, {}),  # committed, aborted, committed, open
    "kept": (2, {}),  # 30 records each, for checkpoints of older code
    "cut": (2, {}),  # 20 records each, the first 5 of partition 0 deleted
}
SIZES = (50, 30, 10)
HEADERS: Sequence[list[tuple[str, bytes | None]] | None] = (
    None,
    [],
    [("h", b"\x00\xff")],
    [("h", b"1"), ("h", None), ("ü", b"")],
)
KEYS = (None, b"", b"key", b"\xff\xfe")


@contextmanager
def filled(broker: Broker) -> Iterator[None]:
    """Create all topics with their records; one transaction stays open until the end of the block."""
    address = broker.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(name, n, 1, topic_configs=configs) for name, (n, configs) in TOPICS.items()])
        _send_plain(address)
        _send_old(address)
        with _transactions(address):
            admin.delete_records({TopicPartition("cut", 0): 5})
            yield


def _send_plain(address: str) -> None:
    with KafkaProducer(bootstrap_servers=address, linger_ms=5) as producer:
        for partition, size in enumerate(SIZES):
            for n in range(size):
                value = None if n % 7 == 3 else b"%d-%d" % (partition, n)
                headers, key = HEADERS[n % len(HEADERS)], KEYS[n % 3]
                producer.send("plain", value, key, partition=partition, headers=headers, timestamp_ms=1000 * n)
        for n in range(5):
            producer.send("other.topic", b"%d" % n, timestamp_ms=20_000)
            producer.send("stamped", b"%d" % n, timestamp_ms=5)
        for n in range(30):
            for partition in range(2):
                producer.send("kept", b"%d-%d" % (partition, n), partition=partition)
        for n in range(20):
            for partition in range(2):
                producer.send("cut", b"%d" % n, partition=partition, timestamp_ms=1000 * n)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with KafkaProducer(bootstrap_servers=address, linger_ms=5, compression_type=codec) as producer:
            for n in range(10):
                producer.send("packed", codec.encode() * 20, b"%d" % n, timestamp_ms=n)


def _send_old(address: str) -> None:
    for codec in ("none", "gzip", "snappy"):
        config = {"metadata.broker.list": address, "compression.codec": codec, "request.required.acks": "1"}
        producer: Producer[bytes, bytes] = Producer(ProducerConfig(config))
        producer.send([KeyedMessage("format0", KEYS[n], b"%d" % n) for n in (0, 2, 3)])
        producer.close()
    for codec in ("none", "gzip", "lz4"):
        plain: dict[str, Any] = {"linger_ms": 5, "compression_type": codec, "enable_idempotence": False}
        with KafkaProducer(bootstrap_servers=address, **plain) as new:
            for n in range(5):
                new.send("format1", b"%d" % n, timestamp_ms=1000 * n)
                new.send("stamped1", b"%d" % n, timestamp_ms=1000 * n)


@contextmanager
def _transactions(address: str) -> Iterator[None]:
    with KafkaProducer(bootstrap_servers=address, transactional_id="t", transaction_timeout_ms=600_000) as producer:
        producer.init_transactions()
        for turn in range(4):
            producer.begin_transaction()
            for n in range(5):
                producer.send("transactions", b"%d-%d" % (turn, n), timestamp_ms=1000 * n)
            producer.flush()
            if turn == 1:
                producer.abort_transaction()
            elif turn < 3:
                producer.commit_transaction()
        yield
        producer.abort_transaction()
