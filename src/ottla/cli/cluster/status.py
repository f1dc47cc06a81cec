"""The status of a local cluster: its processes, its controller, and the partitions that are not healthy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.cluster.local_cluster import LocalCluster
from ottla.cli.framework.output import lines
from ottla.cli.topics.topics import is_under_replicated, reassignments_of
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.core.metadata import PartitionInfo
from ottla.cluster.store import znodes
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import BrokerNotAvailableError, KafkaError
from ottla.logs import listed

TIMEOUT_MS: Final = 5_000
REQUEST_MS: Final = 2_000
"""Timeout in milliseconds of one request, shorter than TIMEOUT_MS, so that another broker can be tried."""
MAX_NAMES: Final = 10
"""Maximum number of partitions in each list whose names are printed as text."""


@dataclass
class Status:
    """The status of a cluster. The fields from `controller` to `offline` are None if no broker responds; `error` then
    has the reason. The controller may come from ZooKeeper even then.
    """

    directory: str
    zookeeper: dict[str, Any] | None
    brokers: list[dict[str, Any]]
    controller: int | None = None
    topics: int | None = None
    partitions: int | None = None
    under_replicated: list[str] | None = None
    offline: list[str] | None = None
    error: str | None = field(default=None)

    @property
    def is_healthy(self) -> bool:
        """Whether all processes run, all brokers are registered, one is the controller, and all partitions have a
        leader and are fully replicated.
        """
        processes = [*self.brokers, *([self.zookeeper] if self.zookeeper else [])]
        is_running = all(process["running"] and not process["paused"] for process in processes)
        registered = all(broker["registered"] for broker in self.brokers)
        partitions = self.under_replicated == [] and self.offline == []
        return is_running and registered and partitions and self.controller is not None


def status(cluster: LocalCluster) -> Status:
    """Return the status of a cluster: that of its processes, and what a running broker reports. If no broker responds,
    the registrations and the controller come from ZooKeeper, if the cluster has one.
    """
    report = _processes(cluster)
    servers = ",".join(broker["address"] for broker in report.brokers if broker["running"] and not broker["paused"])
    try:
        if not servers:
            paused = any(broker["paused"] for broker in report.brokers)
            raise BrokerNotAvailableError(
                "all running brokers are paused (SIGSTOP)" if paused else "no broker is running"
            )
        _add_from_brokers(servers, report)
    except KafkaError as error:
        report.error = str(error)
        zookeeper = report.zookeeper
        if zookeeper is not None and zookeeper["running"] and not zookeeper["paused"]:
            _add_from_zookeeper(zookeeper["address"], report)
    return report


def _processes(cluster: LocalCluster) -> Status:
    server = cluster.zookeeper
    zookeeper = (
        None
        if server is None
        else {
            "address": server.connect,
            "pid": cluster.zookeeper_pid,
            "running": cluster.zookeeper_is_running(),
            "paused": cluster.zookeeper_is_paused(),
        }
    )
    brokers = [
        {
            "id": broker.id,
            "address": broker.address,
            "http": broker.http_address or None,
            "pid": broker.pid,
            "running": cluster.is_running(broker),
            "paused": cluster.is_paused(broker),
            "registered": False,
        }
        for broker in cluster.brokers
    ]
    return Status(str(cluster.directory), zookeeper, brokers)


def _add_from_zookeeper(address: str, report: Status) -> None:
    """Add the registered brokers and the controller to the status, if ZooKeeper responds."""
    try:
        with ZkClient(address, TIMEOUT_MS, TIMEOUT_MS) as zk:
            registered = zk.children(znodes.BROKER_IDS)
            controller = zk.get(znodes.CONTROLLER)
    except KafkaError:
        return  # the brokers' error is reported
    for broker in report.brokers:
        broker["registered"] = str(broker["id"]) in registered
    report.controller = None if controller is None else int(znodes.load(controller)["brokerid"])


def _add_from_brokers(servers: str, report: Status) -> None:
    limits: dict[str, Any] = {"request_timeout_ms": REQUEST_MS, "default_api_timeout_ms": TIMEOUT_MS}
    with KafkaAdminClient(bootstrap_servers=servers, **limits) as admin:
        cluster = admin.describe_cluster()
        topics = admin.describe_topics().values()
        partitions = [partition for topic in topics for partition in topic.partitions]
        reassignments = reassignments_of(admin, partitions)
    registered = {node.id for node in cluster.nodes}
    for broker in report.brokers:
        broker["registered"] = broker["id"] in registered
    report.controller = None if cluster.controller is None else cluster.controller.id
    report.topics, report.partitions = len(topics), len(partitions)
    report.offline = [_name(p) for p in partitions if p.leader < 0]
    report.under_replicated = [_name(p) for p in partitions if is_under_replicated(p, reassignments)]


def _name(partition: PartitionInfo) -> str:
    return f"{partition.topic}-{partition.partition}"


def as_text(report: Status) -> Iterator[str]:
    """Yield the status as lines of text: a table of the processes, then the partitions or the error."""
    zookeeper = report.zookeeper
    rows: list[tuple[str, str, str, int | None, str, str]] = []
    if zookeeper is not None:
        rows.append(("zookeeper", zookeeper["address"], "", zookeeper["pid"] or None, _process_state(zookeeper), ""))
    for broker in report.brokers:
        role = "controller" if broker["id"] == report.controller else ""
        http, pid = broker["http"] or "", broker["pid"] or None
        rows.append((f"broker {broker['id']}", broker["address"], http, pid, _state(broker), role))
    yield from lines(("PROCESS", "ADDRESS", "HTTP", "PID", "STATE", "ROLE"), rows)
    if report.error is not None:
        yield f"No further information from the brokers: {report.error}"
        return
    yield f"{report.topics} topics with {report.partitions} partitions"
    yield _named("under-replicated", report.under_replicated or [])
    yield _named("offline", report.offline or [])


def _process_state(process: dict[str, Any]) -> str:
    if not process["running"]:
        return "down"
    return "paused" if process["paused"] else "up"


def _state(broker: dict[str, Any]) -> str:
    state = _process_state(broker)
    return "not registered" if state == "up" and not broker["registered"] else state


def _named(what: str, partitions: list[str]) -> str:
    names = f": {listed(partitions, MAX_NAMES)}" if partitions else ""
    return f"{len(partitions)} {what}{names}"
