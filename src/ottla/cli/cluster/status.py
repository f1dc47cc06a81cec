"""What a local cluster is like: its processes, and what its brokers say of leaders and replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.cluster.local_cluster import LocalCluster
from ottla.cli.framework.table import lines
from ottla.cli.topics.topics import is_under_replicated, moves_of
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.core.metadata import PartitionInfo
from ottla.cluster.store import znodes
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import BrokerNotAvailableError, KafkaError

ASK_MS: Final = 5_000
ONE_ANSWER_MS: Final = 2_000
"""How long one broker may take to answer, before another is asked."""
SHOWN: Final = 10
"""How many partitions are named on the terminal."""


@dataclass
class Status:
    """The cluster at one moment. What brokers say is None where none of them answers; `error` tells why."""

    directory: str
    zookeeper: dict[str, Any]
    brokers: list[dict[str, Any]]
    controller: int | None = None
    topics: int | None = None
    partitions: int | None = None
    under_replicated: list[str] | None = None
    offline: list[str] | None = None
    error: str | None = field(default=None)

    @property
    def is_whole(self) -> bool:
        """Every process runs, every broker is in the cluster, every partition has a leader and all replicas in sync."""
        goes_on = all(process["running"] and not process["paused"] for process in (self.zookeeper, *self.brokers))
        registered = all(broker["registered"] for broker in self.brokers)
        partitions = self.under_replicated == [] and self.offline == []
        return goes_on and registered and partitions and self.controller is not None


def status(cluster: LocalCluster) -> Status:
    """Look at the processes, and ask those brokers that run; ZooKeeper, where none of them answers."""
    found = _processes(cluster)
    servers = ",".join(broker["address"] for broker in found.brokers if broker["running"] and not broker["paused"])
    try:
        if not servers:
            paused = any(broker["paused"] for broker in found.brokers)
            raise BrokerNotAvailableError("all that run are paused (SIGSTOP)" if paused else "no broker runs")
        _ask(servers, found)
    except KafkaError as error:
        found.error = str(error)
        if found.zookeeper["running"] and not found.zookeeper["paused"]:
            _ask_zookeeper(found)
    return found


def _processes(cluster: LocalCluster) -> Status:
    zookeeper = {
        "address": cluster.zookeeper.connect,
        "pid": cluster.zookeeper_pid,
        "running": cluster.zookeeper_is_running(),
        "paused": cluster.zookeeper_is_paused(),
    }
    brokers = [
        {
            "id": broker.id,
            "address": broker.address,
            "pid": broker.pid,
            "running": cluster.is_running(broker),
            "paused": cluster.is_paused(broker),
            "registered": False,
        }
        for broker in cluster.brokers
    ]
    return Status(str(cluster.directory), zookeeper, brokers)


def _ask_zookeeper(found: Status) -> None:
    """Which brokers are in the cluster, and who is the controller; nothing where it does not say."""
    try:
        with ZkClient(found.zookeeper["address"], ASK_MS, ASK_MS) as zk:
            there = zk.children(znodes.BROKER_IDS)
            controller = zk.get(znodes.CONTROLLER)
    except KafkaError:
        return  # what the brokers have said is told
    for broker in found.brokers:
        broker["registered"] = str(broker["id"]) in there
    found.controller = None if controller is None else int(znodes.load(controller)["brokerid"])


def _ask(servers: str, found: Status) -> None:
    limits: dict[str, Any] = {"request_timeout_ms": ONE_ANSWER_MS, "default_api_timeout_ms": ASK_MS}
    with KafkaAdminClient(bootstrap_servers=servers, **limits) as admin:
        described = admin.describe_cluster()
        topics = admin.describe_topics().values()
        partitions = [partition for topic in topics for partition in topic.partitions]
        moves = moves_of(admin, partitions)
    there = {node.id for node in described.nodes}
    for broker in found.brokers:
        broker["registered"] = broker["id"] in there
    found.controller = None if described.controller is None else described.controller.id
    found.topics, found.partitions = len(topics), len(partitions)
    found.offline = [_name(p) for p in partitions if p.leader < 0]
    found.under_replicated = [_name(p) for p in partitions if is_under_replicated(p, moves)]


def _name(partition: PartitionInfo) -> str:
    return f"{partition.topic}-{partition.partition}"


def as_text(found: Status) -> Iterator[str]:
    """Lines for a terminal."""
    zookeeper = found.zookeeper
    rows = [("zookeeper", zookeeper["address"], zookeeper["pid"] or None, _process_state(zookeeper), "")]
    for broker in found.brokers:
        role = "controller" if broker["id"] == found.controller else ""
        rows.append((f"broker {broker['id']}", broker["address"], broker["pid"] or None, _state(broker), role))
    yield from lines(("PROCESS", "ADDRESS", "PID", "STATE", "ROLE"), rows)
    if found.error is not None:
        yield f"The brokers do not say more: {found.error}"
        return
    yield f"{found.topics} topics with {found.partitions} partitions"
    yield _named("under-replicated", found.under_replicated or [])
    yield _named("offline", found.offline or [])


def _process_state(process: dict[str, Any]) -> str:
    if not process["running"]:
        return "down"
    return "paused" if process["paused"] else "up"


def _state(broker: dict[str, Any]) -> str:
    state = _process_state(broker)
    return "not in the cluster" if state == "up" and not broker["registered"] else state


def _named(what: str, partitions: list[str]) -> str:
    more = f" and {len(partitions) - SHOWN} more" if len(partitions) > SHOWN else ""
    names = ": " + ", ".join(partitions[:SHOWN]) + more if partitions else ""
    return f"{len(partitions)} {what}{names}"
