"""Elect leaders of partitions, preferred ones or unclean ones, as kafka-leader-election.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.json_file import duplicates_in, read_list
from ottla.cli.framework.options import JSON, Flag, Option, flag_name, is_set
from ottla.cli.framework.output import Output, partition_errors
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.partitions import ElectionType
from ottla.errors import ConfigurationError, KafkaError
from ottla.model import TopicPartition

FORM: Final = '{"partitions":[{"topic":"t","partition":0}]}'
CHOICES: Final = ("all_topic_partitions", "topic", "path_to_json_file")
"""The options that select the partitions. Exactly one of them is required."""


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Elect leaders of the selected partitions, and print the partitions with a new leader, those that already had the
    right one (not with `--all-topic-partitions`), and the errors. The exit code is 1 if the election of a partition
    fails.
    """
    partitions = _partitions(args)
    kind = ElectionType[args.election_type]
    errors: dict[Any, KafkaError] = {}
    elected = admin.elect_leaders(kind, partitions, errors=errors)
    # For all partitions, Kafka reports only those with a new leader.
    unchanged = {*(partitions or ())} - elected - {*errors}
    if elected:
        output.text(f"Successfully completed leader election ({kind.name}) for partitions {_names(elected)}")
    if unchanged:
        output.text(f"Valid replica already elected for partitions {_names(unchanged)}")
    for partition, error in sorted(errors.items()):
        output.exit_code = 1
        if not args.json:
            output.warn(f"Error completing leader election ({kind.name}) for partition: {partition}: {error}")
    return {
        "elected": [tp._asdict() for tp in sorted(elected)],
        "unchanged": [tp._asdict() for tp in sorted(unchanged)],
        "errors": partition_errors(errors),
    }


def _check(args: argparse.Namespace) -> None:
    _partitions(args)


COMMAND = AdminCommand(
    run=run,
    check=_check,
    options=(
        *connection(),
        Option(
            "--election-type",
            "preferred: the first replica if it is in sync; unclean: a replica that is not in sync, if there is no "
            "leader (records may be lost)",
            str.upper,
            required=True,
            choices=[kind.name for kind in ElectionType],
        ),
        Flag("--all-topic-partitions", "elect leaders of all partitions"),
        Option("--topic", "topic of the partition in --partition"),
        Option("--partition N", "number of the partition in --topic, counted from 0", int),
        Option("--path-to-json-file FILE", f"JSON file with partitions: {FORM}"),
        JSON,
    ),
)


def _partitions(args: argparse.Namespace) -> list[TopicPartition] | None:
    """Return the partitions that the options select; None for all. Raises ConfigurationError if the options or
    the file are invalid.
    """
    chosen = [flag_name(option) for option in CHOICES if is_set(args, option)]
    if len(chosen) != 1:
        choices = ", ".join(map(flag_name, CHOICES))
        raise ConfigurationError(f"one of {choices} is needed, and not {' and '.join(chosen) or 'none'}")
    if (args.topic is None) != (args.partition is None):
        raise ConfigurationError("--topic and --partition belong together")
    if args.all_topic_partitions:
        return None
    if args.path_to_json_file is not None:
        return _read(args.path_to_json_file)
    if not args.topic or args.partition < 0:
        raise ConfigurationError(f"--topic {args.topic!r} --partition {args.partition}: there can be no such partition")
    return [TopicPartition(args.topic, args.partition)]


def _read(file: str) -> list[TopicPartition]:
    partitions = [item.topic_partition() for item in read_list(file, "partitions", FORM).items()]
    if not partitions:
        raise ConfigurationError(f"{file}: the list of partitions is empty: expected {FORM}")
    duplicates = ", ".join(map(str, duplicates_in(partitions)))
    if duplicates:
        raise ConfigurationError(f"{file}: duplicate partitions: {duplicates}")
    return partitions


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
