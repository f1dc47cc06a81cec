"""The command `ottla`: a table with one row per command. The module of each command defines its `COMMAND`.

Applications on top of Ottla add their commands through the entry point group `ottla.commands`; each entry point loads a
tuple of `CommandEntry`.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ottla import logs
from ottla.cli.framework.signals import Terminated, terminating
from ottla.errors import KafkaError


class CommandEntry(NamedTuple):
    """A command: its name, its help text, and the module in `package` that defines its `COMMAND`."""

    name: str
    module: str
    help: str
    package: str = "ottla.cli"


COMMANDS = tuple(
    CommandEntry(*row)
    for row in (
        ("broker", "broker", "start a broker (kafka-server-start.sh)"),
        (
            "cluster",
            "cluster.cluster",
            "start and stop a local cluster; print id and endpoints of any cluster (kafka-cluster.sh)",
        ),
        ("topics", "topics.topics", "create, list, describe, alter and delete topics (kafka-topics.sh)"),
        ("create-topic", "topics.create_topic", "create a topic as in Kafka 0.8 (kafka-create-topic.sh)"),
        ("console-producer", "console.console_producer", "send lines of standard input (kafka-console-producer.sh)"),
        ("console-consumer", "console.console_consumer", "print records (kafka-console-consumer.sh)"),
        (
            "console-share-consumer",
            "console.console_share_consumer",
            "print records of a share group (kafka-console-share-consumer.sh)",
        ),
        ("configs", "configs.configs", "describe and alter configs, quotas and SCRAM credentials (kafka-configs.sh)"),
        (
            "client-metrics",
            "configs.client_metrics",
            "manage subscriptions to the metrics of clients (kafka-client-metrics.sh)",
        ),
        ("acls", "acls.acls", "add, remove and list ACLs (kafka-acls.sh)"),
        (
            "delegation-tokens",
            "acls.delegation_tokens",
            "create, renew, expire and describe delegation tokens (kafka-delegation-tokens.sh)",
        ),
        (
            "consumer-groups",
            "consumer_groups.consumer_groups",
            "list, describe and delete consumer groups, reset their offsets (kafka-consumer-groups.sh)",
        ),
        (
            "share-groups",
            "groups.share_groups",
            "list, describe and delete share groups, reset their offsets (kafka-share-groups.sh)",
        ),
        (
            "streams-groups",
            "groups.streams_groups",
            "list, describe and delete streams groups, reset their offsets (kafka-streams-groups.sh)",
        ),
        (
            "streams-application-reset",
            "consumer_groups.streams_application_reset",
            "reset offsets and delete internal topics of a Streams application (kafka-streams-application-reset.sh)",
        ),
        ("groups", "groups.groups", "list groups of all types (kafka-groups.sh)"),
        ("get-offsets", "storage.get_offsets", "print the offsets of partitions (kafka-get-offsets.sh)"),
        (
            "delete-records",
            "storage.delete_records",
            "delete the oldest records of partitions (kafka-delete-records.sh)",
        ),
        (
            "reassign-partitions",
            "reassign_partitions.reassign_partitions",
            "move partitions to other brokers or log directories (kafka-reassign-partitions.sh)",
        ),
        ("leader-election", "leader_election", "elect leaders of partitions (kafka-leader-election.sh)"),
        ("features", "features", "describe, upgrade and downgrade features of the cluster (kafka-features.sh)"),
        (
            "replica-verification",
            "storage.replica_verification",
            "compare the replicas of partitions (kafka-replica-verification.sh)",
        ),
        ("log-dirs", "storage.log_dirs", "describe the log directories of brokers (kafka-log-dirs.sh)"),
        (
            "broker-api-versions",
            "broker_api_versions",
            "print the API versions that brokers support (kafka-broker-api-versions.sh)",
        ),
        ("transactions", "transactions.transactions", "describe, find and abort transactions (kafka-transactions.sh)"),
        (
            "producer-perf-test",
            "perf.producer_perf_test",
            "measure producer throughput and latency (kafka-producer-perf-test.sh)",
        ),
        ("consumer-perf-test", "perf.consumer_perf_test", "measure consumer throughput (kafka-consumer-perf-test.sh)"),
        (
            "share-consumer-perf-test",
            "perf.share_consumer_perf_test",
            "measure share consumer throughput (kafka-share-consumer-perf-test.sh)",
        ),
        ("e2e-latency", "perf.e2e_latency", "measure latency from producer to consumer (kafka-e2e-latency.sh)"),
        (
            "verifiable-producer",
            "perf.verifiable_producer",
            "send numbers and report the result of each (kafka-verifiable-producer.sh)",
        ),
        (
            "verifiable-consumer",
            "perf.verifiable_consumer",
            "read as a group member and report what happens (kafka-verifiable-consumer.sh)",
        ),
        (
            "mirror-maker",
            "mirror_maker",
            "copy topics, configs and offsets of groups between clusters (connect-mirror-maker.sh)",
        ),
        ("dump-log", "storage.dump_log", "print log and index files (kafka-dump-log.sh)"),
        ("metadata", "storage.metadata", "print an embedded metadata store, or copy it to or from ZooKeeper"),
        ("zookeeper-shell", "storage.zookeeper_shell", "read and change znodes of ZooKeeper (zookeeper-shell.sh)"),
        ("completion", "completion", "print a script that completes commands and options in bash or zsh"),
        ("spark-submit", "spark.submit", "submit a job to a Spark cluster together with Ottla (spark-submit)"),
        (
            "spark-archive",
            "spark.archive",
            "write an archive of Ottla for the executors of a Spark cluster (--archives)",
        ),
        ("spark-warm-up", "spark.warm_up", "make Spark sessions on this machine start faster (Java 25)"),
    )
)
"""The commands of Ottla itself."""

RENAMED = {"registry": "metadata"}
"""Commands that were renamed: old name → new name."""

CONNECT = "Kafka Connect and its connectors are a framework of the JVM, and run with Ottla's brokers unchanged"
LEFT_OUT = {
    "storage": "a data directory needs no formatting: ottla broker FILE starts with an empty one",
    "metadata-quorum": "there is no KRaft quorum; ottla metadata dump prints the metadata of a standalone broker",
    "metadata-shell": "there is no KRaft quorum; ottla metadata dump prints the metadata of a standalone broker",
    "connect-standalone": CONNECT,
    "connect-distributed": CONNECT,
    "connect-plugin-path": CONNECT,
    "connect-mirror-maker": "use ottla mirror-maker, with the same properties file",
    "jmx": "there is no JVM; metrics are on ottla.http.listener",
    "zookeeper-security-migration": "zookeeper.set.acl sets ACLs on new znodes",
}
"""Tools of Kafka without a command of the same name, with the reason or the replacement. docs/tools.md has the complete
list.
"""

INTERRUPTED = 130
"""The exit code after Ctrl+C, as in shells."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code: 0 for success, 1 for a failure, 2 for some kinds of wrong usage, or 128
    plus the number of the signal that ended it. `spark-submit` returns the exit code of the program that it runs.

    Raises SystemExit if argparse rejects the command line (with 2), or after an option such as `--help` or `--version`
    of a command (with 0).
    """
    try:
        logs.protect()
        with terminating():
            return _run(list(sys.argv[1:] if arguments is None else arguments))
    except KafkaError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except Terminated as signalled:
        return signalled.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has exited; Python must not report that when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    if arguments and arguments[0] in RENAMED:
        new_name = RENAMED[arguments[0]]
        print(f"ottla: {arguments[0]} is deprecated: use ottla {new_name}", file=sys.stderr)
        arguments = [new_name, *arguments[1:]]
    entry = _find(arguments[0]) if arguments else None
    if entry is None:
        return _no_command(arguments)
    module = importlib.import_module(f"{entry.package}.{entry.module}")
    exit_code: int = module.COMMAND.main(f"ottla {entry.name}", module.__doc__, arguments[1:])
    return exit_code


def _find(name: str) -> CommandEntry | None:
    own = {entry.name: entry for entry in COMMANDS}
    # Reading entry points takes as long as starting a command, so they are read only if the name is not in the table.
    return own.get(name) or {entry.name: entry for entry in all_commands()}.get(name)


def all_commands() -> tuple[CommandEntry, ...]:
    """Return the commands of Ottla and those of installed applications."""
    from importlib.metadata import entry_points

    added = (entry_point.load() for entry_point in entry_points(group="ottla.commands"))
    return (*COMMANDS, *(entry for entries in added for entry in entries))


def _no_command(arguments: list[str]) -> int:
    name = arguments[0] if arguments else None
    if name in ("--version", "version"):
        from importlib.metadata import version

        print(version("ottla"))
        return 0
    needs_help = name in ("-h", "--help", "help")
    if name in LEFT_OUT:
        print(f"ottla: {name} is left out: {LEFT_OUT[name]}", file=sys.stderr)
        return 2
    if name is not None and not needs_help:
        from ottla.config.options import nearest

        suggestion = nearest(name, [entry.name for entry in all_commands()])
        print(f"ottla: there is no command {name!r}{suggestion} (`ottla --help` lists all commands)", file=sys.stderr)
        return 2
    print(_usage(), file=sys.stdout if needs_help else sys.stderr)
    return 0 if needs_help else 2


def _usage() -> str:
    entries = all_commands()
    width = max(len(entry.name) for entry in entries)
    rows = [f"  {entry.name:<{width}}  {entry.help}" for entry in entries]
    return "\n".join(
        ["usage: ottla COMMAND [OPTIONS]", "", *rows, "", "`ottla COMMAND --help` describes the options of a command."]
    )


if __name__ == "__main__":
    sys.exit(main())
