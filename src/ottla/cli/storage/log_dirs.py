"""Describe the log directories of brokers and the replicas in them, as kafka-log-dirs.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import CommandFailedError
from ottla.cli.framework.connection import connection
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.options import Flag, Option, broker_ids
from ottla.cli.framework.output import Output, ids, in_one_line
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from ottla.model import TopicPartition

CLIENT_ID: Final = "log-dirs-tool"

LogDirs = Mapping[str, LogDirDescription]
"""The log directories of a broker by path."""


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Print the log directories of brokers and the replicas in them. Raises CommandFailedError if a broker in
    `--broker-list` is not alive.
    """
    brokers, topics = {*broker_ids(_parts(args.broker_list))}, frozenset(_parts(args.topic_list))
    live = {node.id for node in admin.describe_cluster().nodes}
    if brokers - live:
        raise CommandFailedError(
            f"ERROR: The given brokers do not exist from --broker-list: {ids(sorted(brokers - live))}."
            f" Current existent brokers: {ids(sorted(live))}"
        )
    output.text("Querying brokers for log directories information")
    by_broker = sorted(admin.describe_log_dirs(brokers=sorted(brokers or live)).items())
    output.text(f"Received log directory information from brokers {ids(broker for broker, _ in by_broker)}")
    kafkas = [_as_kafkas_json(broker, log_dirs, topics) for broker, log_dirs in by_broker]
    output.text(in_one_line({"brokers": kafkas, "version": 1}))
    return {"brokers": [_as_json(broker, log_dirs, topics) for broker, log_dirs in by_broker]}


def _check(args: argparse.Namespace) -> None:
    broker_ids(_parts(args.broker_list))


COMMAND = AdminCommand(
    run=run,
    check=_check,
    configs={"client.id": CLIENT_ID},
    options=(
        *connection(),
        Flag("--describe", "print the log directories (the only action)", required=True),
        Option("--broker-list B,B,…", "ids of the brokers to describe, separated by commas (default: all)", default=""),
        Option(
            "--topic-list T,T,…", "topics whose replicas are printed, separated by commas (default: all)", default=""
        ),
        Flag("--json", "print only JSON, also with the total and usable bytes of the log directories"),
    ),
)


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _replicas(log_dir: LogDirDescription, topics: frozenset[str]) -> Iterator[tuple[TopicPartition, ReplicaInfo]]:
    """Yield the replicas of these topics (all if `topics` is empty), sorted by partition."""
    return ((tp, replica) for tp, replica in sorted(log_dir.replicas.items()) if not topics or tp.topic in topics)


def _as_kafkas_json(broker: int, log_dirs: LogDirs, topics: frozenset[str]) -> dict[str, Any]:
    """Return a broker's part of the JSON document of Kafka's tool, which does not contain the total and usable bytes.

    Only cordoned directories have the field isCordoned, because tools of Kafka before 4.3 print no such field.
    """
    return {
        "broker": broker,
        "logDirs": [_kafkas_dir(path, log_dir, topics) for path, log_dir in sorted(log_dirs.items())],
    }


def _kafkas_dir(path: str, log_dir: LogDirDescription, topics: frozenset[str]) -> dict[str, Any]:
    partitions = [
        {"partition": str(tp), "size": r.size, "offsetLag": r.offset_lag, "isFuture": r.is_future}
        for tp, r in _replicas(log_dir, topics)
    ]
    return {
        "partitions": partitions,
        "error": None if log_dir.error is None else java_class(log_dir.error),
        "logDir": path,
        **({"isCordoned": True} if log_dir.is_cordoned else {}),
    }


def _as_json(broker: int, log_dirs: LogDirs, topics: frozenset[str]) -> dict[str, Any]:
    return {
        "broker": broker,
        "log_dirs": [_dir_as_json(path, log_dir, topics) for path, log_dir in sorted(log_dirs.items())],
    }


def _dir_as_json(path: str, log_dir: LogDirDescription, topics: frozenset[str]) -> dict[str, Any]:
    return {
        "log_dir": path,
        "error": None if log_dir.error is None else str(log_dir.error),
        "total_bytes": log_dir.total_bytes,
        "usable_bytes": log_dir.usable_bytes,
        "is_cordoned": log_dir.is_cordoned,
        "partitions": [{**tp._asdict(), **replica._asdict()} for tp, replica in _replicas(log_dir, topics)],
    }
