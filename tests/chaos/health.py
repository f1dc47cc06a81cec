"""The cluster's state according to ZooKeeper and to each broker, and waiting until it is healthy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from tests.chaos.cluster import BROKERS, Cluster
from tests.chaos.sending import CLIENT
from tests.chaos.sending import PARTITIONS as ORDERED_PARTITIONS
from tests.chaos.transfers import PARTITIONS as TRANSFERS_PARTITIONS
from tests.chaos.tree import EmbeddedTree, Tree, ZooKeeperTree

from ottla import KafkaAdminClient
from ottla.client.admin.topics.partitions import ElectionType
from ottla.errors import KafkaError
from ottla.net.client.blocking_channel import BlockingChannel
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.simulation.history import ORDERED, TRANSFERS

HEALTHY_SECONDS = 90.0
START_SECONDS = 120.0
POLL_SECONDS = 0.2
RESPONSE_MS = 2_000
METADATA_VERSION = 5
ELECTION_MS = 10_000


class UnhealthyError(AssertionError):
    """The cluster did not become healthy in time."""


class Health:
    """Queries without the links. One broker is not enough: a broker that was cut off has outdated metadata."""

    def __init__(self, cluster: Cluster) -> None:
        self._servers = cluster.bootstrap
        self._ports = cluster.ports
        self._connect = cluster.tree

    @cached_property
    def _tree(self) -> Tree:
        return ZooKeeperTree(self._connect) if isinstance(self._connect, str) else EmbeddedTree(self._connect)

    def wait_for_brokers(self) -> None:
        """Wait until every broker's metadata contains all brokers."""
        self._wait(START_SECONDS, lambda: self._problems_of_brokers(_absent_brokers))

    def wait_for_replicas(self, topic: str, expected: Sequence[tuple[int, ...]]) -> None:
        """Wait until every broker reports the partitions of a topic on these brokers."""

        def other(view: MetadataResponse) -> list[str]:
            partitions = [p for partition in view.topics if partition.name == topic for p in partition.partitions]
            reported = [tuple(p.replica_nodes) for p in sorted(partitions, key=lambda p: p.partition_index)]
            return [] if reported == list(expected) else [f"{topic} is on {reported}"]

        self._wait(START_SECONDS, lambda: self._problems_of_brokers(other))

    def create_topics(self) -> None:
        """Create the topics of the load, replicated to all brokers."""
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        admin = AdminClient({"bootstrap.servers": self._servers, **CLIENT})
        topics = [NewTopic(ORDERED, ORDERED_PARTITIONS, 3), NewTopic(TRANSFERS, TRANSFERS_PARTITIONS, 3)]
        for made in admin.create_topics(topics, operation_timeout=30, request_timeout=30).values():
            made.result(30)

    def wait_until_healthy(self) -> None:
        """Wait until every partition has a leader and all its replicas in sync, in the metadata of every broker."""
        self._wait(HEALTHY_SECONDS, lambda: self._tree.missing() or self._problems_of_brokers(_missing))

    def _wait(self, seconds: float, missing: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + seconds
        while problems := missing():
            if time.monotonic() > deadline:
                raise UnhealthyError(f"the cluster is not healthy after {seconds:.0f} s: {'; '.join(problems)}")
            time.sleep(POLL_SECONDS)

    def _problems_of_brokers(self, missing: Callable[[MetadataResponse], list[str]]) -> list[str]:
        views = {broker: _metadata(port) for broker, port in self._ports.items()}
        return [f"broker {n} does not respond" for n, view in views.items() if view is None] + [
            f"broker {n} reports: {word}" for n, view in views.items() if view is not None for word in missing(view)
        ]

    def elect_preferred(self) -> None:
        """Elect the preferred leaders, so that each broker leads partitions and each fault has an effect."""
        # librdkafka's Python binding does not support this in version 2.16
        try:
            with KafkaAdminClient(bootstrap_servers=self._servers) as admin:
                admin.elect_leaders(ElectionType.PREFERRED, None, ELECTION_MS, raise_errors=False)
        except KafkaError:
            return  # otherwise the load is only less balanced

    def controller(self) -> int:
        """Return the active controller, or -1."""
        return self._tree.controller()

    def leaders(self) -> Mapping[int, int]:
        """Return the leader of each partition of the ordered topic."""
        return self._tree.leaders(ORDERED)

    def close(self) -> None:
        """End the session with ZooKeeper."""
        self._tree.close()


def _metadata(port: int) -> MetadataResponse | None:
    channel = BlockingChannel("127.0.0.1", port, read_timeout_ms=RESPONSE_MS)
    try:
        channel.connect()
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        channel.send(request, METADATA_VERSION, 0, "health")
        response = channel.receive()
    except KafkaError:
        return None
    finally:
        channel.disconnect()
    assert isinstance(response, MetadataResponse)
    return response


def _absent_brokers(view: MetadataResponse) -> list[str]:
    there = {broker.node_id for broker in view.brokers}
    return [f"no broker {broker}" for broker in BROKERS if broker not in there]


def _missing(view: MetadataResponse) -> list[str]:
    absent = _absent_brokers(view)
    for topic in view.topics:
        for partition in topic.partitions:
            if partition.leader_id < 0 or set(partition.isr_nodes) != set(partition.replica_nodes):
                name = f"{topic.name}-{partition.partition_index}"
                absent.append(f"{name} (leader {partition.leader_id}, ISR {partition.isr_nodes})")
    return absent
