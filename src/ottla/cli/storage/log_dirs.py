"""Tell the data directories of brokers and what lies in them, as kafka-log-dirs.sh does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.cli.framework.broker_ids import broker_ids, ids
from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.json_answers import in_one_line
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from ottla.model import TopicPartition

CLIENT_ID: Final = "log-dirs-tool"

Dirs = Mapping[str, LogDirDescription]
"""Data directories of a broker by their paths."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla log-dirs`."""
    add_connection(parser)
    parser.add_argument("--describe", action="store_true", required=True, help="tell it; there is nothing else to do")
    parser.add_argument("--broker-list", default="", metavar="B,B,…", help="brokers; all of them if not given")
    parser.add_argument("--topic-list", default="", metavar="T,T,…", help="topics; all of them if not given")
    parser.add_argument("--json", action="store_true", help="nothing but JSON; with the bytes that directories have")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 where a broker is not there or does not answer."""
    wanted, topics = {*broker_ids(_parts(args.broker_list))}, frozenset(_parts(args.topic_list))
    with KafkaAdminClient({"client.id": CLIENT_ID, **client_options(args)}) as admin:
        known = {node.id for node in admin.describe_cluster().nodes}
        if wanted - known:
            print(
                f"ERROR: The given brokers do not exist from --broker-list: {ids(sorted(wanted - known))}."
                f" Current existent brokers: {ids(sorted(known))}",
                file=sys.stderr,
            )
            return 1
        if not args.json:
            print("Querying brokers for log directories information", flush=True)
        found = admin.describe_log_dirs(brokers=sorted(wanted or known))
    by_broker = sorted(found.items())
    if args.json:
        print(json.dumps({"brokers": [_as_json(broker, dirs, topics) for broker, dirs in by_broker]}))
    else:
        print(f"Received log directory information from brokers {ids(sorted(found))}")
        print(in_one_line({"brokers": [_as_kafkas(b, dirs, topics) for b, dirs in by_broker], "version": 1}))
    return 0


def _parts(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _replicas(found: LogDirDescription, topics: frozenset[str]) -> Iterator[tuple[TopicPartition, ReplicaInfo]]:
    """Those of these topics, of all with none, in the order of topics and partitions."""
    return ((tp, replica) for tp, replica in sorted(found.replicas.items()) if not topics or tp.topic in topics)


def _as_kafkas(broker: int, dirs: Dirs, topics: frozenset[str]) -> dict[str, Any]:
    """As Kafka's tool prints it, which leaves out how large the directories are."""
    return {"broker": broker, "logDirs": [_kafkas_dir(path, found, topics) for path, found in sorted(dirs.items())]}


def _kafkas_dir(path: str, found: LogDirDescription, topics: frozenset[str]) -> dict[str, Any]:
    partitions = [
        {"partition": str(tp), "size": r.size, "offsetLag": r.offset_lag, "isFuture": r.is_future}
        for tp, r in _replicas(found, topics)
    ]
    return {"partitions": partitions, "error": None if found.error is None else java_class(found.error), "logDir": path}


def _as_json(broker: int, dirs: Dirs, topics: frozenset[str]) -> dict[str, Any]:
    return {"broker": broker, "log_dirs": [_dir_as_json(path, found, topics) for path, found in sorted(dirs.items())]}


def _dir_as_json(path: str, found: LogDirDescription, topics: frozenset[str]) -> dict[str, Any]:
    return {
        "log_dir": path,
        "error": None if found.error is None else str(found.error),
        "total_bytes": found.total_bytes,
        "usable_bytes": found.usable_bytes,
        "is_cordoned": found.is_cordoned,
        "partitions": [{**tp._asdict(), **replica._asdict()} for tp, replica in _replicas(found, topics)],
    }
