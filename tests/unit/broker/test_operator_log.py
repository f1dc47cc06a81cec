"""The log of a cluster at INFO: each event is logged once, and normal events raise no alarm."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    Broker,
    ConfigResource,
    ElectionType,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    ResourcePattern,
    ResourceType,
    TopicPartition,
)
from ottla.errors import KafkaError

CONFIGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 1,
    "listener.name.plaintext.plain.sasl.jaas.config": "secret",
    "replica.lag.time.max.ms": 1000,
}
READ_ACL = ACL(
    "User:ann",
    "*",
    ACLOperation.READ,
    ACLPermissionType.ALLOW,
    ResourcePattern(ResourceType.TOPIC, "visits", ACLResourcePatternType.LITERAL),
)
MASKS = (
    (r"\d+\.\d\d? s\b", "N s"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"id=[\w-]{22}", "id=ID"),
    (r"cluster=[\w-]{22}", "cluster=ID"),
    (r"(consumer-readers-)[\w-]+", r"\1ID"),
    (r"log\.dirs=\S+/", "log.dirs=DIR/"),
    (r"/\S+/broker-1", "DIR/broker-1"),
    (r"Ottla [\d.]+, Python [\d.]+", "VERSION"),
    (r"broker.rack=[^,]+, ", ""),
    (r"client_id=[\w.-]+", "client_id=ID"),
)
"""Parts of lines that differ between runs."""


class BrokerLog:
    """The lines logged by the brokers since the last call of `lines`."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def lines(self) -> list[str]:
        """Return the lines so far, sorted as brokers act side by side, and forget them."""
        records = [
            r
            for r in self._caplog.records
            if not r.name.startswith(("ottla.client", "ottla.config")) and "event loop was blocked" not in r.msg
        ]
        self._caplog.clear()
        return sorted(
            f"{record.levelname} {record.name.removeprefix('ottla.')}: {_masked(record)}" for record in records
        )


def _masked(record: logging.LogRecord) -> str:
    text = record.getMessage()
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    # either broker may request it from the controller
    return text.replace(BY, "(automatically)") if "__consumer_offsets" in text else text


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def join_and_leave(servers: str, group_id: str = "readers", **configs: Any) -> None:
    """Join a group, and leave it when all partitions have a position, which is committed then."""
    client_id = f"consumer-{group_id}-1"
    with KafkaConsumer("visits", bootstrap_servers=servers, group_id=group_id, client_id=client_id, **configs) as c:
        while not c.assignment():
            c.poll(timeout_ms=100)
        for tp in c.assignment():
            c.position(tp)


@pytest.fixture
def broker_log(caplog: pytest.LogCaptureFixture) -> BrokerLog:
    caplog.set_level(logging.INFO, "ottla")
    return BrokerLog(caplog)


@pytest.fixture
def cluster(broker_log: BrokerLog) -> Iterator[Broker]:
    """Two brokers, of which broker 0 is the controller."""
    with Broker(CONFIGS, brokers=2) as brokers:
        brokers.stop_broker(1)
        brokers.start_broker(1)
        yield brokers


@pytest.fixture
def admin(cluster: Broker) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


BY = "(requested by User:ANONYMOUS from 127.0.0.1, client_id=ID)"


def test_topic_group_config_and_acl_events_are_logged_once(
    broker_log: BrokerLog, cluster: Broker, admin: KafkaAdminClient
) -> None:
    servers = cluster.bootstrap_servers
    broker_log.lines()
    admin.create_topics([NewTopic("visits", 1, 2)])
    assert broker_log.lines() == [
        f"INFO controller: Created topic visits: partitions=1 replication_factor=2 id=ID configs={{}} {BY}",
        "INFO replication: Broker 0 now leads visits-0 (epoch 0)",
        "INFO replication: Broker 1 now follows visits-0 (epoch 0)",
    ]
    with KafkaProducer(bootstrap_servers=servers, acks="all") as producer:
        producer.send("visits", b"1").get(30)
    assert broker_log.lines() == []
    join_and_leave(servers)
    assert broker_log.lines() == [
        "INFO controller: Created topic __consumer_offsets: partitions=1 replication_factor=2 id=ID configs="
        "{'cleanup.policy': 'compact', 'compression.type': 'producer', 'segment.bytes': '104857600'} (automatically)",
        "INFO coordinator.group: Group readers has a new generation: generation=1 members=1 protocol=range "
        "leader=consumer-readers-ID after N s",
        "INFO coordinator.group: Group readers is empty: generation=2",
        "INFO coordinator.group: Rebalancing group readers: generation=0 members=1: "
        "member consumer-readers-ID (/127.0.0.1) joins",
        "INFO coordinator.group: Rebalancing group readers: generation=1 members=0: "
        "member consumer-readers-ID (/127.0.0.1) leaves: the consumer is being closed or unsubscribed",
        "INFO replication: Broker 0 now follows __consumer_offsets-0 (epoch 0)",
        "INFO replication: Broker 1 now leads __consumer_offsets-0 (epoch 0)",
    ]
    admin.alter_configs([ConfigResource("topic", "visits", {"retention.ms": "1000"})])
    admin.create_acls([READ_ACL])
    admin.delete_acls([READ_ACL])
    acl = "ACL ALLOW READ on TOPIC visits (LITERAL) for User:ann from host *"
    assert broker_log.lines() == [
        f"INFO changes: Added {acl} {BY}",
        f"INFO changes: Changed configs of topic visits: retention.ms=1000 {BY}",
        f"INFO changes: Deleted {acl} {BY}",
    ]
    admin.delete_topics(["visits"])
    wait_until(lambda: "visits" not in admin.list_topics())
    assert broker_log.lines() == [
        "INFO controller: Deleted topic visits",
        f"INFO controller: Deleting topic visits: partitions=1 {BY}",
    ]


def test_changes_of_offsets_leaders_and_replicas_are_logged_with_their_client(
    broker_log: BrokerLog, cluster: Broker, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("visits", replica_assignments={0: [0, 1]})])
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all") as producer:
        producer.send("visits", b"1").get(30)
    join_and_leave(cluster.bootstrap_servers)
    visits = TopicPartition("visits", 0)
    broker_log.lines()
    for offset in (0, 0, 1):  # the consumer has committed 1
        admin.alter_consumer_group_offsets("readers", {visits: offset})
    admin.delete_consumer_group_offsets("readers", [visits])
    assert broker_log.lines() == [
        f"INFO changes.offsets: Set offsets of group readers: visits-0=0 (was 1) {BY}",
        f"INFO changes.offsets: Set offsets of group readers: visits-0=1 (was 0) {BY}",
        f"INFO changes: Deleted offsets of group readers: visits-0 {BY}",
    ]
    join_and_leave(cluster.bootstrap_servers, "modern", group_protocol="consumer")
    reasons = [re.sub(r"member [\w-]+", "member ID", line) for line in broker_log.lines() if "Rebalancing" in line]
    assert [line.partition("members=")[2] for line in reasons] == [
        "1: member ID (client_id=ID /127.0.0.1) joins",
        "0: member ID (client_id=ID /127.0.0.1) left",
    ]
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="simple") as consumer:
        consumer.assign([visits])
        for offset in (0, 1, 0):  # the first two are normal progress
            consumer.commit({visits: OffsetAndMetadata(offset)})
    assert broker_log.lines() == [f"INFO changes.offsets: Set offsets of group simple: visits-0=0 (was 1) {BY}"]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="billing") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("visits", b"2").get(30)
        admin.force_terminate_transaction("billing")
        with contextlib.suppress(KafkaError):
            producer.abort_transaction()
    initialized = "INFO coordinator.transaction: Initialized transactional_id=billing: producer_id="
    lines = [line for line in broker_log.lines() if "billing" in line]
    assert f"INFO changes: Aborting the open transaction of transactional_id=billing {BY}" in lines
    assert any(line.startswith(initialized) and line.endswith(BY) for line in lines), "who has the open transaction"
    admin.alter_partition_reassignments({visits: [1, 0]})
    assert f"INFO changes: Accepted reassignments: visits-0 to [1, 0] {BY}" in broker_log.lines()
    admin.elect_leaders(ElectionType.PREFERRED, [visits])
    assert f"INFO changes: Elected preferred leaders of visits-0 {BY}" in broker_log.lines()


def test_changes_of_leaders_and_isr_during_a_restart_are_logged(
    broker_log: BrokerLog, cluster: Broker, admin: KafkaAdminClient
) -> None:
    admin.create_topics(
        [NewTopic("a", replica_assignments={0: [0, 1]}), NewTopic("b", replica_assignments={0: [1, 0]})]
    )
    broker_log.lines()
    cluster.stop_broker(1)
    wait_until(lambda: len(admin.describe_cluster().nodes) == 1)
    assert broker_log.lines() == [
        "INFO broker: Stopped broker 1 in N s",
        "INFO broker: Stopping broker 1",
        "INFO cluster: Controlled shutdown of broker 1: moved 1 of 1 leaders in N s",
        "INFO cluster: Controlled shutdown of broker 1: moving its leaders (1) to other brokers",
        "INFO controller: Controlled shutdown of broker 1: moving its leaders to other brokers",
        "INFO controller: Live brokers: [0]; registered: [], left: [1]",
        "INFO controller: a-0 is still led by broker 0: epoch=1 isr=[0] replicas=[0, 1] (controlled shutdown)",
        "INFO controller: b-0 is led by broker 0: epoch=1 isr=[0] replicas=[1, 0] (controlled shutdown)",
        "INFO replication: Broker 0 now leads b-0 (epoch 1)",
        "INFO replication: Broker 1 now follows b-0 (epoch 1)",
    ]
    cluster.start_broker(1)
    wait_until(lambda: all(len(t.partitions[0].isr) == 2 for t in admin.describe_topics(["a", "b"]).values()))
    assert [line for line in broker_log.lines() if "Configs that differ" not in line] == [
        "INFO broker: Broker 1 serves clients at PLAINTEXT://127.0.0.1:PORT: partitions=2 cluster=ID controller=0, "
        "started in N s",
        "INFO broker: Starting broker 1: VERSION",
        "INFO controller: Broker 0 is the controller",
        "INFO controller: Live brokers: [0, 1]; registered: [1], left: []",
        "INFO replication: Broker 1 now follows a-0 (epoch 1), b-0 (epoch 1)",
        "INFO replication: Expanding ISR of a-0 from [0] to [0, 1]",
        "INFO replication: Expanding ISR of b-0 from [0] to [0, 1]",
        "INFO storage: DIR/broker-1: 2 of 2 logs loaded in N s after a clean shutdown",
    ]


def test_start_and_stop_are_logged_with_version_configs_and_duration(broker_log: BrokerLog) -> None:
    with Broker(CONFIGS):
        started = broker_log.lines()
    configs = started.pop(1)
    assert "replica.lag.time.max.ms=1000" in configs
    assert "jaas.config=[hidden]" in configs
    assert "secret" not in configs
    assert started == [
        "INFO broker: Broker 0 serves clients at PLAINTEXT://127.0.0.1:PORT: partitions=0 cluster=ID controller=0, "
        "started in N s",
        "INFO broker: Starting broker 0: VERSION",
        "INFO controller: Elected broker 0 as controller: epoch=1",
    ]
    assert broker_log.lines() == [
        "INFO broker: Stopped broker 0 in N s",
        "INFO broker: Stopping broker 0",
        "INFO controller: Broker 0 is no longer the controller: epoch=1",
    ]
