"""The other Python clients, for the rows of `clients`, each used as its documentation recommends."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

KEYS = [b"k%09d" % i for i in range(1000)]
VALUES = [(b"%08d" % i) * 12 + b"abcd" for i in range(1000)]
BATCH_BYTES = 65_536
AT_ONCE = 10_000


def confluent_send(bootstrap: str, topic: str, count: int) -> None:
    """Call confluent-kafka's produce() for each record."""
    producer = _confluent_producer(bootstrap)
    for i in range(count):
        producer.produce(topic, VALUES[i % 1000], KEYS[i % 1000])
    producer.flush(120)


def confluent_produce_batch(bootstrap: str, topic: str, count: int) -> None:
    """Call confluent-kafka's produce_batch() with lists of 10,000 (since 2.13)."""
    producer = _confluent_producer(bootstrap)
    rows = [{"value": VALUES[i % 1000], "key": KEYS[i % 1000]} for i in range(AT_ONCE)]
    if not hasattr(producer, "produce_batch"):
        raise SystemExit("this confluent-kafka has no produce_batch")
    for _ in range(count // AT_ONCE):
        producer.produce_batch(topic, rows)
    producer.flush(120)


def _confluent_producer(bootstrap: str) -> Any:
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "batch.size": BATCH_BYTES}
    return Producer({**settings, "batch.num.messages": 1_000_000, "queue.buffering.max.messages": 2_000_000})


def confluent_poll(bootstrap: str, topic: str, count: int) -> None:
    """Call confluent-kafka's poll()."""
    consumer = _confluent_consumer(bootstrap, topic)
    seen = size = 0
    while seen < count:
        message = consumer.poll(1.0)
        if message is not None:
            size += len(message.value())
            seen += 1
    consumer.close()


def confluent_consume(bootstrap: str, topic: str, count: int) -> None:
    """Call confluent-kafka's consume() for up to 10,000 messages."""
    consumer = _confluent_consumer(bootstrap, topic)
    seen = size = 0
    while seen < count:
        messages = consumer.consume(AT_ONCE, 1.0)
        seen += len(messages)
        for message in messages:
            size += len(message.value())
    consumer.close()


def _confluent_consumer(bootstrap: str, topic: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "queued.min.messages": 1_000_000}
    consumer = Consumer({**settings, "fetch.queue.backoff.ms": 5, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def kafka_python_send(bootstrap: str, topic: str, count: int) -> None:
    """Call kafka-python's send() for each record."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, batch_size=BATCH_BYTES)
    for i in range(count):
        producer.send(topic, VALUES[i % 1000], KEYS[i % 1000])
    producer.flush(120)
    producer.close()


def kafka_python_poll(bootstrap: str, topic: str, count: int) -> None:
    """Call kafka-python's poll() for up to 10,000 records."""
    from kafka import KafkaConsumer, TopicPartition

    options = {"bootstrap_servers": bootstrap, "auto_offset_reset": "earliest", "max_poll_records": AT_ONCE}
    consumer = KafkaConsumer(**options, enable_auto_commit=False)
    consumer.assign([TopicPartition(topic, 0)])
    seen = size = 0
    while seen < count:
        for rows in consumer.poll(timeout_ms=500).values():
            seen += len(rows)
            for row in rows:
                size += len(row.value)
    consumer.close()


def aiokafka_send(bootstrap: str, topic: str, count: int) -> None:
    """Call aiokafka's send() for each record."""
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        options = {"bootstrap_servers": bootstrap, "acks": "all", "linger_ms": 5, "max_batch_size": BATCH_BYTES}
        async with AIOKafkaProducer(**options) as producer:
            for i in range(count):
                await producer.send(topic, VALUES[i % 1000], KEYS[i % 1000])
            await producer.flush()

    asyncio.run(run())


def aiokafka_getmany(bootstrap: str, topic: str, count: int) -> None:
    """Call aiokafka's getmany() for up to 10,000 records."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        consumer.assign([TopicPartition(topic, 0)])
        async with consumer:
            seen = size = 0
            while seen < count:
                records = await consumer.getmany(timeout_ms=500, max_records=AT_ONCE)
                for rows in records.values():
                    seen += len(rows)
                    for row in rows:
                        size += len(row.value)

    asyncio.run(run())
