"""A Java consumer and ours in one group: with every assignor and either leader, no record is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import apache_kafka
from tests.interop.java_member import JavaMember
from tests.interop.steady import new_topic, sending

from ottla import KafkaConsumer

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PARTITIONS = 6
STRATEGY = "partition.assignment.strategy=org.apache.kafka.clients.consumer"
ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}


@pytest.fixture
def topic(bootstrap: str) -> str:
    return new_topic(bootstrap, PARTITIONS, "mixed")


@pytest.fixture
def sent(bootstrap: str, topic: str) -> Iterator[list[bytes]]:
    """Values sent to all partitions until the test ends."""
    with sending(bootstrap, topic, PARTITIONS, 0.002) as values:
        yield values


@pytest.mark.parametrize("first", ["java", "ours"])
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_java_and_ottla_consumers_share_a_classic_group(
    bootstrap: str, topic: str, sent: list[bytes], assignor: str, first: str, tmp_path: Path
) -> None:
    reason = apache_kafka.missing()
    if reason:
        pytest.skip(reason)
    ours: list[bytes] = []
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        partition_assignment_strategy=[assignor],
        heartbeat_interval_ms=200,
    )

    def read_until(condition: object, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            assert time.monotonic() < deadline, f"the condition does not hold after {seconds} seconds"
            ours.extend(row.value for rows in consumer.poll(timeout_ms=50).values() for row in rows)

    with consumer:
        if first == "ours":
            read_until(lambda: len(consumer.assignment()) == PARTITIONS)
        java = JavaMember(bootstrap, topic, f"{STRATEGY}.{ASSIGNORS[assignor]}", tmp_path)
        try:
            if first == "java":
                deadline = time.monotonic() + 60
                while not java.seen():
                    assert time.monotonic() < deadline, "the Java member reads nothing"
                    time.sleep(0.1)
            before = 0 if first == "java" else len(java.seen())
            read_until(lambda: len(consumer.assignment()) == PARTITIONS // 2 and len(java.seen()) > before + 20)
            count = len(sent)
            read_until(lambda: len({*ours, *java.seen()}) >= count)
        finally:
            java.close()
    everything = [*ours, *java.seen()]
    if assignor != "cooperative-sticky":
        # With cooperative-sticky, Java reads on after its last commit before a partition moves, which is at least once.
        assert len(everything) == len(set(everything)), "a record was read twice"
