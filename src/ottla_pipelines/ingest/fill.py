"""Sample data in topics for trying out pipelines: the flights of a year, or generated visits."""

from __future__ import annotations

from collections.abc import Iterable

from ottla import KafkaConsumer, KafkaProducer
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import FLIGHTS, VISITS, WEATHER, Topic
from ottla_pipelines.ingest import nycflights
from ottla_pipelines.ingest.events import number, partition_for
from ottla_pipelines.ingest.replay import bulk_producer, create_topics
from ottla_pipelines.ingest.visits import visits
from ottla_pipelines.run import partitions


def is_empty(bootstrap_servers: str, topics: Iterable[Topic]) -> bool:
    """Return whether no record was ever written to the topics. Missing topics are created."""
    listed = tuple(topics)
    create_topics(bootstrap_servers, listed)
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        return not any(consumer.end_offsets(list(partitions(listed))).values())


def fill_visits(bootstrap_servers: str, seed: int, count: int, malformed: float = 0.05) -> int:
    """Send `count` visits generated from `seed`, of which about the fraction `malformed` is broken, if the topic is
    empty. Return the number of records sent.
    """
    if not is_empty(bootstrap_servers, [VISITS]):
        return 0
    with bulk_producer(bootstrap_servers) as producer:
        for i, (key, value, timestamp_ms) in enumerate(visits(seed, count, malformed=malformed)):
            where = TopicPartition(VISITS.name, partition_for(key, i, VISITS.partitions))
            producer.send(where.topic, value, key=key, partition=where.partition, timestamp_ms=timestamp_ms)
        _flush(producer, bootstrap_servers, [VISITS], count)
    return count


def fill_flights(bootstrap_servers: str, limit: int | None) -> int:
    """Send the first `limit` flights (None for all) and their weather, if both topics are empty. Return the number of
    events sent.
    """
    if not is_empty(bootstrap_servers, [FLIGHTS, WEATHER]):
        return 0
    sent = 0
    with bulk_producer(bootstrap_servers) as producer:
        for _, topic, partition, key, value, timestamp_ms in number(nycflights.events(limit)):
            producer.send(topic, value, key=key, partition=partition, timestamp_ms=timestamp_ms)
            sent += 1
        _flush(producer, bootstrap_servers, [FLIGHTS, WEATHER], sent)
    return sent


def _flush(producer: KafkaProducer, bootstrap_servers: str, topics: list[Topic], sent: int) -> None:
    """Wait until all events are sent. Raises KafkaError if the topics then have a different number of records."""
    producer.flush()
    with KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        stored = sum(consumer.end_offsets(list(partitions(tuple(topics)))).values())
    if stored != sent:
        raise KafkaError(f"{sent} records were sent, but {', '.join(t.name for t in topics)} contain {stored}")
