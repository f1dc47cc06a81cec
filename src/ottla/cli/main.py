"""The command `ottla`: one row per command in the table, one file per command beside it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ottla import logs
from ottla.cli.framework.signals import Terminated, terminating
from ottla.errors import KafkaError


class Command(NamedTuple):
    """One command: its name, the module that has `add_arguments` and `run`, and what it is for."""

    name: str
    module: str
    help: str


COMMANDS = (
    Command("broker", "broker", "start a broker (kafka-server-start.sh)"),
    Command("cluster", "cluster.cluster", "start and stop ZooKeeper and brokers on this machine, add and kill brokers"),
    Command("topics", "topics.topics", "create, list, describe, alter and delete topics (kafka-topics.sh)"),
    Command(
        "create-topic", "topics.create_topic", "create a topic with the flags of Kafka 0.8 (kafka-create-topic.sh)"
    ),
    Command("console-producer", "console.console_producer", "send lines of standard input (kafka-console-producer.sh)"),
    Command("console-consumer", "console.console_consumer", "print records (kafka-console-consumer.sh)"),
    Command("configs", "configs.configs", "describe and alter options, quotas and passwords (kafka-configs.sh)"),
    Command("acls", "acls.acls", "add, remove and list access rules (kafka-acls.sh)"),
    Command(
        "consumer-groups",
        "consumer_groups.consumer_groups",
        "consumer groups, their offsets and lag (kafka-consumer-groups.sh)",
    ),
    Command("get-offsets", "storage.get_offsets", "tell the offsets of partitions (kafka-get-offsets.sh)"),
    Command(
        "delete-records", "storage.delete_records", "delete the first records of partitions (kafka-delete-records.sh)"
    ),
    Command(
        "reassign-partitions",
        "reassign_partitions.reassign_partitions",
        "move partitions (kafka-reassign-partitions.sh)",
    ),
    Command("leader-election", "leader_election", "elect leaders of partitions anew (kafka-leader-election.sh)"),
    Command("log-dirs", "storage.log_dirs", "tell what lies in the data directories of brokers (kafka-log-dirs.sh)"),
    Command("broker-api-versions", "broker_api_versions", "tell what brokers speak (kafka-broker-api-versions.sh)"),
    Command("transactions", "transactions.transactions", "describe, find and end transactions (kafka-transactions.sh)"),
    Command(
        "producer-perf-test", "perf.producer_perf_test", "measure how quickly is sent (kafka-producer-perf-test.sh)"
    ),
    Command(
        "consumer-perf-test", "perf.consumer_perf_test", "measure how quickly is read (kafka-consumer-perf-test.sh)"
    ),
    Command(
        "verifiable-producer",
        "perf.verifiable_producer",
        "send numbers, and tell of each whether it arrived (kafka-verifiable-producer.sh)",
    ),
    Command(
        "verifiable-consumer",
        "perf.verifiable_consumer",
        "read as a member of a group, and tell what happens (kafka-verifiable-consumer.sh)",
    ),
    Command("dump-log", "storage.dump_log", "print log and index files (kafka-dump-log.sh)"),
    Command(
        "metadata", "storage.metadata", "print the metadata of a standalone broker, export it to ZooKeeper or import it"
    ),
    Command("pipeline", "pipeline", "make, check and run declarative pipelines on Spark"),
    Command("spark-submit", "spark.submit", "submit a job to a Spark cluster together with Ottla (spark-submit)"),
    Command("spark-archive", "spark.archive", "write what a Spark cluster has to be sent, for --archives"),
    Command("spark-warm-up", "spark.warm_up", "make Spark sessions on this machine start faster (Java 25)"),
    Command("demo", "demo", "a year of flights through a broker into Spark, with an account of every row"),
)
"""Every command."""

RENAMED = {"registry": "metadata"}
"""Commands that had another name in an earlier release: old name → name."""

INTERRUPTED = 130
"""Exit code after Ctrl+C, as shells have it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 1 failed, 2 wrong usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        logs.protect()
        with terminating():
            return _run(given)
    except KafkaError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except Terminated as signalled:
        return signalled.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone; Python must not complain about that when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(given: list[str]) -> int:
    by_name = {command.name: command for command in COMMANDS}
    if given and given[0] in RENAMED:
        print(f"ottla: {given[0]} is deprecated: use ottla {RENAMED[given[0]]}", file=sys.stderr)
        given = [RENAMED[given[0]], *given[1:]]
    command = by_name.get(given[0]) if given else None
    if command is None:
        return _no_command(given)
    module = importlib.import_module(f"ottla.cli.{command.module}")
    parser = argparse.ArgumentParser(
        prog=f"ottla {command.name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(given[1:]))
    return code


def _no_command(given: list[str]) -> int:
    if given and given[0] in ("--version", "version"):
        from importlib.metadata import version

        print(version("ottla"))
        return 0
    asked = bool(given) and given[0] in ("-h", "--help", "help")
    if given and not asked:
        from ottla.config.options import nearest

        print(
            f"ottla: there is no command {given[0]!r}{nearest(given[0], [c.name for c in COMMANDS])}", file=sys.stderr
        )
    print(_usage(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def _usage() -> str:
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  {command.name:<{width}}  {command.help}" for command in COMMANDS]
    return "\n".join(
        ["usage: ottla COMMAND [OPTIONS]", "", *lines, "", "ottla COMMAND --help tells a command's options."]
    )


if __name__ == "__main__":
    sys.exit(main())
