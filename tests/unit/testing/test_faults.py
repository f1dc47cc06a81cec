"""Faults apply to matching requests of any client, and end with the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from ottla import Broker, ConfigResource, ConfigResourceType, KafkaConsumer, TopicPartition
from ottla.errors import (
    CommitFailedError,
    ConfigurationError,
    IllegalStateError,
    KafkaTimeoutError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)
from ottla.testing.clients import AdminFactory, ConsumerFactory, ProducerFactory, ShareConsumerFactory, TopicFactory
from ottla.testing.faults import Fault, Faults


def values(consumer: KafkaConsumer, count: int) -> list[bytes]:
    return [next(consumer).value or b"" for _ in range(count)]


def test_lost_response_makes_a_producer_without_idempotence_write_twice(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_consumer: ConsumerFactory, ottla_topic: str
) -> None:
    lost = ottla_faults.on("Produce", topic=ottla_topic).lose_response()
    producer = ottla_producer(enable_idempotence=False, retries=5, retry_backoff_ms=1)
    assert producer.send(ottla_topic, b"1").get(10).offset == 1
    assert lost.hits == 1
    consumer = ottla_consumer(ottla_topic, consumer_timeout_ms=5000)
    assert values(consumer, 2) == [b"1", b"1"]


def test_lost_response_does_not_make_an_idempotent_producer_write_twice(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    ottla_faults.on("Produce", topic=ottla_topic).lose_response()
    producer = ottla_producer(retry_backoff_ms=1)
    assert producer.send(ottla_topic, b"1").get(10).offset == 0
    assert producer.send(ottla_topic, b"2").get(10).offset == 1


def test_failed_request_has_the_error_in_all_partitions(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    producer = ottla_producer()
    ottla_faults.on("Produce", topic=ottla_topic, partition=0).fail("TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send(ottla_topic, b"1").get(10)
    assert producer.send(ottla_topic, b"2").get(10).offset == 0


def test_failed_metadata_request_has_the_error_in_its_topics(
    ottla_faults: Faults, ottla_admin: AdminFactory, ottla_create_topic: TopicFactory
) -> None:
    topic = ottla_create_topic(partitions=1)
    admin = ottla_admin(retry_backoff_ms=1)
    failed = ottla_faults.on("Metadata", topic=topic).fail("LEADER_NOT_AVAILABLE")
    assert len(admin.describe_topics([topic])[topic].partitions) == 1
    assert failed.hits == 1


def test_nth_and_times_select_requests(ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str) -> None:
    producer = ottla_producer()
    fault = ottla_faults.on("Produce", topic=ottla_topic, nth=2, times=2).fail("TOPIC_AUTHORIZATION_FAILED")
    outcomes = []
    for _ in range(4):
        try:
            outcomes.append(producer.send(ottla_topic, b"1").get(10).offset)
        except TopicAuthorizationFailedError:
            outcomes.append(-1)
    assert outcomes == [0, -1, -1, 1]
    assert fault.hits == 2


def test_fetch_within_a_session_can_be_failed(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_consumer: ConsumerFactory, ottla_topic: str
) -> None:
    producer = ottla_producer()
    producer.send(ottla_topic, b"1").get(10)
    consumer = ottla_consumer(ottla_topic, consumer_timeout_ms=5000, retry_backoff_ms=1, fetch_max_wait_ms=10)
    assert values(consumer, 1) == [b"1"]
    failed = ottla_faults.on("Fetch", topic=ottla_topic).fail("NOT_LEADER_OR_FOLLOWER")
    consumer.poll(20)
    failed.wait()
    producer.send(ottla_topic, b"2").get(10)
    assert values(consumer, 1) == [b"2"]


def test_dropped_and_disconnected_requests_are_retried_by_the_producer(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    producer = ottla_producer(request_timeout_ms=100, retry_backoff_ms=1)
    ottla_faults.on("Produce", topic=ottla_topic).drop()
    assert producer.send(ottla_topic, b"1").get(10).offset == 0
    ottla_faults.on("Produce", topic=ottla_topic).disconnect()
    assert producer.send(ottla_topic, b"2").get(10).offset == 1


def test_held_request_waits_for_its_release(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    producer = ottla_producer()
    held = ottla_faults.on("Produce", topic=ottla_topic).hold()
    future = producer.send(ottla_topic, b"1")
    held.wait()
    with pytest.raises(KafkaTimeoutError):
        future.get(0.05)
    held.release()
    assert future.get(10).offset == 0


def test_delayed_and_throttled_requests_take_the_configured_time(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    producer = ottla_producer()
    ottla_faults.on("Produce", topic=ottla_topic).delay(0.05)
    began = time.monotonic()
    producer.send(ottla_topic, b"1").get(10)
    assert time.monotonic() - began >= 0.05
    ottla_faults.on("Produce", topic=ottla_topic).throttle(0.1)
    producer.send(ottla_topic, b"2").get(10)
    throttled = producer.metrics()["producer-metrics"]["produce-throttle-time-max"]
    assert throttled == pytest.approx(100, abs=1)


def test_fenced_producer_cannot_commit(ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str) -> None:
    producer = ottla_producer(transactional_id=ottla_topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(ottla_topic, b"1").get(10)
    ottla_faults.on("EndTxn", transactional_id=ottla_topic).fence_producer()
    with pytest.raises(ProducerFencedError):
        producer.commit_transaction()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_expired_member_cannot_commit(
    ottla_faults: Faults,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_topic: str,
    protocol: str,
) -> None:
    ottla_producer().send(ottla_topic, b"1").get(10)
    consumer = ottla_consumer(
        ottla_topic, group_id=ottla_topic, group_protocol=protocol, consumer_timeout_ms=5000, enable_auto_commit=False
    )
    assert values(consumer, 1) == [b"1"]
    ottla_faults.on("OffsetCommit", group=ottla_topic).expire_member()
    with pytest.raises(CommitFailedError):
        consumer.commit()


def test_call_runs_the_function_before_the_request_is_handled(
    ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    called = threading.Event()
    ottla_faults.on("Produce", client_id="writer").call(called.set)
    producer = ottla_producer(client_id="writer")
    producer.send(ottla_topic, b"1").get(10)
    assert called.is_set()


def test_moved_leader_and_coordinator_are_looked_up_again(
    ottla_cluster: Broker,
    ottla_faults: Faults,
    ottla_producer: ProducerFactory,
    ottla_consumer: ConsumerFactory,
    ottla_create_topic: TopicFactory,
) -> None:
    topic = ottla_create_topic(partitions=1, replication_factor=3)
    producer = ottla_producer(retry_backoff_ms=5)
    producer.send(topic, b"1").get(10)
    before = ottla_cluster.leader(topic)
    ottla_faults.on("Produce", topic=topic).move_leader()
    assert producer.send(topic, b"2").get(10).offset == 1
    assert ottla_cluster.leader(topic) != before
    consumer = ottla_consumer(topic, group_id="g", consumer_timeout_ms=20_000, retry_backoff_ms=5)
    assert values(consumer, 2) == [b"1", b"2"]
    moved = ottla_faults.on("OffsetCommit", group="g").move_coordinator()
    consumer.commit()
    assert moved.hits == 1
    assert consumer.committed(TopicPartition(topic, 0)) == 2


def test_fault_that_matches_no_request_fails_the_test(ottla_broker: Broker, ottla_producer: ProducerFactory) -> None:
    faults = Faults(ottla_broker)
    faults.on("Produce", topic="other").fail("NOT_CONTROLLER")
    faults.on("Produce", topic="other", optional=True).drop()
    ottla_producer().send("some", b"1").get(10)
    faults.clear()
    message = r"on\('Produce', topic='other'\)\.fail\('NOT_CONTROLLER'\) matched no request .*requests: .*1 Produce"
    with pytest.raises(IllegalStateError, match=message):
        faults.check()
    fault = faults.on("Produce", topic="other").drop()
    with pytest.raises(TimeoutError, match="matched no request within 0.01 s; requests: "):
        fault.wait(0.01)
    faults.clear()


def test_fault_step_that_cannot_be_applied_fails_the_test(
    ottla_broker: Broker, ottla_producer: ProducerFactory, ottla_topic: str
) -> None:
    faults = Faults(ottla_broker)
    faults.on("Produce", topic=ottla_topic).fence_producer()
    assert ottla_producer().send(ottla_topic, b"1").get(10).offset == 0
    faults.clear()
    with pytest.raises(IllegalStateError, match="fence_producer: Produce of client .* names no transactional id"):
        faults.check()


def test_invalid_fault_arguments_are_rejected_with_the_expected_values(ottla_faults: Faults) -> None:
    with pytest.raises(ConfigurationError, match=r"'Producer' is not an API; did you mean Produce\?"):
        ottla_faults.on("Producer")
    with pytest.raises(ConfigurationError, match="partition=0 needs topic="):
        ottla_faults.on("Produce", partition=0)
    with pytest.raises(ConfigurationError, match="nth=0 is not allowed: expected at least 1"):
        ottla_faults.on("Produce", nth=0)
    fault = ottla_faults.on("Produce", optional=True)
    with pytest.raises(ConfigurationError, match="'NOT_LEADER' is not an error of Kafka; did you mean NOT_LEADER"):
        fault.fail("NOT_LEADER")
    with pytest.raises(ConfigurationError, match="KafkaTimeoutError has no code"):
        fault.fail(KafkaTimeoutError)
    with pytest.raises(ConfigurationError, match=r"delay\(-1\) is not allowed"):
        fault.delay(-1)
    with pytest.raises(ConfigurationError, match="move_leader needs several brokers; .* fixture ottla_cluster"):
        fault.move_leader()
    fault.drop()
    with pytest.raises(ConfigurationError, match="has an outcome already"):
        fault.disconnect()
    with pytest.raises(ConfigurationError, match=r"hold\(\) comes before the outcome"):
        fault.hold()


@pytest.mark.parametrize(
    "define",
    [
        lambda fault: fault.fail("NO_SUCH"),
        lambda fault: fault.delay(1).throttle(-1),
        lambda fault: fault.move_leader(),
        lambda fault: fault.drop().hold(),
    ],
)
def test_invalid_fault_is_not_reported_a_second_time(ottla_broker: Broker, define: Callable[[Fault], Fault]) -> None:
    faults = Faults(ottla_broker)
    with pytest.raises(ConfigurationError):
        define(faults.on("Produce"))
    faults.clear()
    faults.check()


def test_expired_member_of_a_share_group_is_replaced(
    ottla_faults: Faults,
    ottla_producer: ProducerFactory,
    ottla_admin: AdminFactory,
    ottla_share_consumer: ShareConsumerFactory,
    ottla_topic: str,
) -> None:
    configs = {"share.auto.offset.reset": "earliest"}
    ottla_admin().alter_configs({ConfigResource(ConfigResourceType.GROUP, ottla_topic): configs})
    ottla_producer().send(ottla_topic, b"1").get(10)
    expired = ottla_faults.on("ShareFetch", group=ottla_topic).expire_member()
    consumer = ottla_share_consumer(ottla_topic, group_id=ottla_topic)
    while not consumer.poll(1000):
        pass
    assert expired.hits == 1


def test_faults_do_not_apply_to_inter_broker_requests(
    ottla_cluster: Broker, ottla_faults: Faults, ottla_producer: ProducerFactory, ottla_create_topic: TopicFactory
) -> None:
    fetches = ottla_faults.on("Fetch", times=None, optional=True).fail("NOT_LEADER_OR_FOLLOWER")
    topic = ottla_create_topic(partitions=1, replication_factor=3)
    producer = ottla_producer(acks="all")
    assert [producer.send(topic, b"1").get(10).offset for _ in range(3)] == [0, 1, 2]
    assert fetches.hits == 0
