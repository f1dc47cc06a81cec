"""Timeouts of the broker expire when a test advances its clock."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ottla import Broker, TopicPartition
from ottla.errors import CommitFailedError, ConfigurationError, KafkaError
from ottla.testing.clients import AdminFactory, ConsumerFactory, ProducerFactory, TopicFactory
from ottla.testing.clock import BrokerClock


def test_records_are_deleted_after_their_retention_time(
    ottla_clock: BrokerClock,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_create_topic: TopicFactory,
) -> None:
    topic = ottla_create_topic(partitions=1, configs={"segment.ms": "1000", "retention.ms": "60000"})
    producer = ottla_producer()
    for _ in range(2):
        producer.send(topic, b"1").get(10)
        ottla_clock.advance(2)
    before = ottla_clock.now_ms()
    ottla_clock.advance(timedelta(hours=1))
    assert ottla_clock.now_ms() - before >= 3_600_000
    partition = TopicPartition(topic, 0)
    assert ottla_consumer().beginning_offsets([partition]) == {partition: 2}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_is_removed_after_its_session_timeout(
    ottla_clock: BrokerClock,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_create_topic: TopicFactory,
    protocol: str,
) -> None:
    topic = ottla_create_topic(partitions=1)
    ottla_producer().send(topic, b"1").get(10)
    consumer = ottla_consumer(topic, group_id="g", group_protocol=protocol, enable_auto_commit=False)
    assert next(consumer).value == b"1"
    ottla_clock.advance(30)
    consumer.commit()
    ottla_clock.advance(60)
    with pytest.raises(CommitFailedError):
        consumer.commit()


def test_transaction_is_aborted_after_its_timeout(
    ottla_clock: BrokerClock,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_create_topic: TopicFactory,
) -> None:
    topic = ottla_create_topic(partitions=1)
    producer = ottla_producer(transactional_id="t", transaction_timeout_ms=5000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"1").get(10)
    ottla_clock.advance(60)
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    consumer = ottla_consumer(topic, isolation_level="read_committed", consumer_timeout_ms=200)
    assert list(consumer) == []


def test_cluster_accepts_writes_after_the_clock_is_advanced(
    ottla_clock: BrokerClock, ottla_cluster: Broker, ottla_producer: ProducerFactory, ottla_create_topic: TopicFactory
) -> None:
    topic = ottla_create_topic(partitions=1, replication_factor=3)
    producer = ottla_producer(acks="all", retry_backoff_ms=5)
    producer.send(topic, b"1").get(10)
    ottla_clock.advance(timedelta(days=1))
    assert producer.send(topic, b"2").get(30).offset == 1
    assert ottla_cluster.bootstrap_servers.count(":") == 3


def test_clock_is_moved_by_positive_seconds_or_timedeltas_only(
    ottla_clock: BrokerClock, ottla_admin: AdminFactory
) -> None:
    with pytest.raises(ConfigurationError, match=r"advance\(-1\) is not allowed"):
        ottla_clock.advance(-1)
    with pytest.raises(ConfigurationError, match=r"advance\('1h'\) is not allowed: expected seconds or a .*timedelta"):
        ottla_clock.advance("1h")  # type: ignore[arg-type]
    assert ottla_admin().list_topics() == []
