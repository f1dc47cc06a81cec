"""Our consumer with group.protocol=consumer (KIP-848), with our broker and Apache Kafka, beside Java members."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import apache_kafka
from tests.interop.java_member import JavaMember
from tests.interop.steady import new_topic, sending

from ottla import KafkaConsumer, SubscriptionPattern
from ottla.errors import UnsupportedVersionError

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 6


@pytest.fixture
def topic(address: str) -> str:
    name = new_topic(address, PARTITIONS, "next")
    consumer = member(address, name)
    try:
        consumer.poll(timeout_ms=2000)
    except UnsupportedVersionError:
        pytest.skip("this broker does not speak KIP-848")
    finally:
        consumer.close()
    return name


def member(address: str, *topics: str, **options: Any) -> KafkaConsumer:
    options = {
        "group_id": topics[0] if topics else "g",
        "group_protocol": "consumer",
        "auto_offset_reset": "earliest",
        **options,
    }
    return KafkaConsumer(*topics, bootstrap_servers=address, **options)


@contextlib.contextmanager
def java_member(address: str, topic: str, protocol: str, folder: Path) -> Iterator[JavaMember]:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    java = JavaMember(address, topic, f"group.protocol={protocol}", folder)
    try:
        yield java
    finally:
        java.close()


def read_until(consumers: list[KafkaConsumer], seen: list[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline, "the condition does not hold after 90 seconds"
        for consumer in consumers:
            seen.extend(row.value for rows in consumer.poll(timeout_ms=50).values() for row in rows)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_java_and_ottla_consumers_share_a_group(address: str, topic: str, protocol: str, tmp_path: Path) -> None:
    ours: list[bytes] = []
    with sending(address, topic, PARTITIONS, 0.002) as sent, member(address, topic) as consumer:
        read_until([consumer], ours, lambda: len(consumer.assignment()) == PARTITIONS)
        with java_member(address, topic, protocol, tmp_path) as java:
            read_until(
                [consumer], ours, lambda: len(consumer.assignment()) == PARTITIONS // 2 and len(java.seen()) > 20
            )
            count = len(sent)
            read_until([consumer], ours, lambda: {*ours, *java.seen()} >= {*sent[:count]})
        read_until([consumer], ours, lambda: len(consumer.assignment()) == PARTITIONS)
        count = len(sent)
        read_until([consumer], ours, lambda: {*ours, *java.seen()} >= {*sent[:count]})
    assert len(ours) == len(set(ours)), "our consumer read a record twice"


def test_classic_members_migrate_to_the_consumer_protocol_one_by_one(address: str, topic: str) -> None:
    seen: list[bytes] = []
    options: dict[str, Any] = {"heartbeat_interval_ms": 200, "group_id": topic, "auto_offset_reset": "earliest"}
    with sending(address, topic, PARTITIONS, 0.002) as sent:
        first = KafkaConsumer(topic, bootstrap_servers=address, **options)
        second = KafkaConsumer(topic, bootstrap_servers=address, **options)
        read_until([first, second], seen, lambda: len(first.assignment()) == len(second.assignment()) == 3)
        first.close()
        with member(address, topic) as third:
            read_until([second, third], seen, lambda: len(second.assignment()) == len(third.assignment()) == 3)
            second.close()
            with member(address, topic) as fourth:
                read_until([third, fourth], seen, lambda: len(third.assignment()) == len(fourth.assignment()) == 3)
                count = len(sent)
                read_until([third, fourth], seen, lambda: {*seen} >= {*sent[:count]})
    assert len(seen) == len(set(seen))


def test_static_member_restarts_without_a_rebalance(address: str, topic: str) -> None:
    seen: list[bytes] = []
    with member(address, topic) as other:
        first = member(address, topic, group_instance_id="one")
        read_until([first, other], seen, lambda: len(first.assignment()) == len(other.assignment()) == 3)
        before = first.assignment()
        first.close()
        with member(address, topic, group_instance_id="one") as again:
            read_until([again, other], seen, lambda: len(again.assignment()) == 3)
            assert again.assignment() == before
            assert len(other.assignment()) == 3


def test_subscription_pattern_is_evaluated_by_the_broker(address: str, topic: str) -> None:
    seen: list[bytes] = []
    with member(address, group_id=f"{topic}-g") as consumer:
        consumer.subscribe(pattern=SubscriptionPattern(f"{topic}.*"))
        read_until([consumer], seen, lambda: len(consumer.assignment()) == PARTITIONS)
