"""Broker configs of Apache Kafka that change nothing here, with the reasons, and the removal of KRaft controllers'
listeners from a node's configs.

So a broker starts with the `server.properties` that Kafka 4 ships, without changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.errors import ConfigurationError

CONTROLLERS: Final = "there are no KRaft controllers, metadata is in ZooKeeper or in the broker's own store"
THREADS: Final = "an event loop serves all connections, ottla.brokers uses further cores"
METRICS: Final = "metrics are served by ottla.http.listener, and reporters are Python classes in metric.reporters"
PURGATORY: Final = "requests that wait are removed when they are answered"
WRITING: Final = "what arrives in one round of the event loop is written together"
JAVA: Final = "classes of Java cannot be loaded"
KERBEROS: Final = "GSSAPI is not among the mechanisms"

NO_EFFECT: Final = {
    **dict.fromkeys(
        (
            "process.roles",
            "controller.",
            "metadata.log.",
            "metadata.max.idle.interval.ms",
            "metadata.max.retention.",
            "broker.heartbeat.interval.ms",
            "initial.broker.registration.timeout.ms",
            "early.start.listeners",
            "sasl.mechanism.controller.protocol",
        ),
        CONTROLLERS,
    ),
    **dict.fromkeys(
        (
            "num.network.threads",
            "background.threads",
            "queued.max.requests",
            "num.replica.alter.log.dirs.threads",
            "group.coordinator.threads",
            "group.coordinator.background.threads",
            "share.coordinator.threads",
            "group.consumer.assignor.offload.enable",
            "group.share.assignor.offload.enable",
            "group.streams.assignor.offload.enable",
        ),
        THREADS,
    ),
    **dict.fromkeys(("kafka.metrics.", "metrics.", "log4j.", "kafka.logs.dir"), METRICS),
    **dict.fromkeys(
        (
            "fetch.purgatory.purge.interval.requests",
            "producer.purgatory.purge.interval.requests",
            "delete.records.purgatory.purge.interval.requests",
            "share.fetch.purgatory.purge.interval.requests",
        ),
        PURGATORY,
    ),
    **dict.fromkeys(
        (
            "group.coordinator.append.linger.ms",
            "group.coordinator.cached.buffer.max.bytes",
            "share.coordinator.append.linger.ms",
            "share.coordinator.cached.buffer.max.bytes",
        ),
        WRITING,
    ),
    **dict.fromkeys(
        (
            "alter.config.policy.class.name",
            "create.topic.policy.class.name",
            "client.quota.callback.class",
            "principal.builder.class",
            "sasl.client.callback.handler.class",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
            "ssl.engine.factory.class",
        ),
        JAVA,
    ),
    "sasl.kerberos.": KERBEROS,
}
"""Names, or prefixes that end with a dot, and the reasons."""


def without_controllers(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configs of a KRaft node without the listeners of its controller.

    Raises ConfigurationError if the node is only a controller, or if it belongs to a quorum of several controllers and
    zookeeper.connect is not set: brokers on several machines form a cluster only with ZooKeeper.
    """
    roles = {role.strip() for role in str(configs.get("process.roles", "")).split(",")}
    if roles == {"controller"}:
        raise ConfigurationError(
            "process.roles: 'controller' is not allowed: there are no KRaft controllers, start the brokers only"
        )
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        if str(configs.get(name, "")).count(",") and "zookeeper.connect" not in configs:
            raise ConfigurationError(
                f"{name}: {configs[name]!r} is not allowed: brokers of several machines form a cluster by ZooKeeper,"
                " set zookeeper.connect; those of one machine by ottla.brokers"
            )
    controllers = {name.strip().upper() for name in str(configs.get("controller.listener.names", "")).split(",")}
    others = dict(configs)
    for name in ("listeners", "advertised.listeners"):
        if isinstance(configs.get(name), str):
            others[name] = ",".join(
                listener
                for listener in configs[name].split(",")
                if listener.partition("://")[0].strip().upper() not in controllers
            )
    return others
