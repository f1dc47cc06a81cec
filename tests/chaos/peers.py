"""How a broker of each peer is configured and started. Both get the same options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from scripts import apache_kafka

KAFKA_VERSION = "3.9.2"
SESSION_MS = 6_000
LAG_MS = 4_000
"""Time after which a follower that does not fetch leaves the ISR: shorter than cuts, so that cuts have an effect."""

OPTIONS: Mapping[str, object] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "broker.session.timeout.ms": SESSION_MS,
    "zookeeper.connection.timeout.ms": 30_000,
    "replica.lag.time.max.ms": LAG_MS,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "transaction.state.log.num.partitions": 3,
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "controlled.shutdown.retry.backoff.ms": 1_000,
    "inter.broker.listener.name": "PEER",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,PEER:PLAINTEXT",
}
"""Configs of every broker; the others have Kafka's defaults."""


class Peer(NamedTuple):
    """The kind of brokers: `command` starts one with a properties file, and `missing` returns why it cannot.

    `embedded`: the brokers share an embedded metadata store; there is no ZooKeeper.
    """

    name: str
    command: Callable[[Path], list[str]]
    missing: Callable[[], str | None]
    embedded: bool = False


def _ottla(properties: Path) -> list[str]:
    return [sys.executable, "-m", "ottla", "broker", str(properties), "--log-level", "info"]


def _ottla_missing() -> str | None:
    return None


def _kafka(properties: Path) -> list[str]:
    return apache_kafka.java("kafka.Kafka", str(properties), version=KAFKA_VERSION, heap=("-Xmx512M", "-XX:+UseG1GC"))


def _kafka_missing() -> str | None:
    return apache_kafka.missing(KAFKA_VERSION)


PEERS = {
    "ottla": Peer("ottla", _ottla, _ottla_missing),
    "embedded": Peer("embedded", _ottla, _ottla_missing, embedded=True),
    "kafka": Peer("kafka", _kafka, _kafka_missing),
}


def write_properties(path: Path, options: Mapping[str, object]) -> None:
    """Write a server.properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
