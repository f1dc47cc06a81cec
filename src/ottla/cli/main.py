"""The command `ottla`: a table with a row per command, and a module per command.

Applications on top of Ottla add their commands through the entry point group `ottla.commands`; each entry is a tuple of
`Command`.
"""

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
    """A command of `ottla`."""

    name: str
    module: str
    """The module in `package` that defines `add_arguments(parser)` and `run(args) -> exit code`."""
    help: str
    package: str = "ottla.cli"


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
    Command("spark-submit", "spark.submit", "submit a job to a Spark cluster together with Ottla (spark-submit)"),
    Command("spark-archive", "spark.archive", "write what a Spark cluster has to be sent, for --archives"),
    Command("spark-warm-up", "spark.warm_up", "make Spark sessions on this machine start faster (Java 25)"),
)
"""The commands of Ottla itself."""

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
    if given and given[0] in RENAMED:
        print(f"ottla: {given[0]} is deprecated: use ottla {RENAMED[given[0]]}", file=sys.stderr)
        given = [RENAMED[given[0]], *given[1:]]
    command = _command(given[0]) if given else None
    if command is None:
        return _no_command(given)
    module = importlib.import_module(f"{command.package}.{command.module}")
    parser = argparse.ArgumentParser(
        prog=f"ottla {command.name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    code: int = module.run(parser.parse_args(given[1:]))
    return code


def _command(name: str) -> Command | None:
    own = {command.name: command for command in COMMANDS}
    # Reading entry points takes as long as starting a command, so they are read only if the name is not in the table.
    return own.get(name) or {command.name: command for command in all_commands()}.get(name)


def all_commands() -> tuple[Command, ...]:
    """Return the commands of Ottla and of the applications that are installed with it."""
    from importlib.metadata import entry_points

    added = (entry.load() for entry in entry_points(group="ottla.commands"))
    return (*COMMANDS, *(command for commands in added for command in commands))


def _no_command(given: list[str]) -> int:
    if given and given[0] in ("--version", "version"):
        from importlib.metadata import version

        print(version("ottla"))
        return 0
    asked = bool(given) and given[0] in ("-h", "--help", "help")
    if given and not asked:
        from ottla.config.options import nearest

        suggestion = nearest(given[0], [command.name for command in all_commands()])
        print(f"ottla: there is no command {given[0]!r}{suggestion}", file=sys.stderr)
    print(_usage(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


def _usage() -> str:
    commands = all_commands()
    width = max(len(command.name) for command in commands)
    lines = [f"  {command.name:<{width}}  {command.help}" for command in commands]
    return "\n".join(
        ["usage: ottla COMMAND [OPTIONS]", "", *lines, "", "`ottla COMMAND --help` lists the options of a command."]
    )


if __name__ == "__main__":
    sys.exit(main())
