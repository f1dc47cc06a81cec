"""Elect leaders of partitions anew, as kafka-leader-election.sh does: preferred ones, or such as are not in sync."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.cli.framework.connection import add_connection, as_typed, client_options, is_given
from ottla.cli.framework.json_answers import partition_errors
from ottla.cli.framework.json_file import read_list, twice_in
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.partitions import ElectionType
from ottla.errors import ConfigurationError, KafkaError
from ottla.model import TopicPartition

FORM: Final = '{"partitions":[{"topic":"t","partition":0}]}'
CHOICES: Final = ("all_topic_partitions", "topic", "path_to_json_file")
"""What says which partitions: one of these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla leader-election`."""
    add_connection(parser)
    parser.add_argument(
        "--election-type",
        type=str.upper,
        required=True,
        choices=[kind.name for kind in ElectionType],
        help="preferred: the first replica, if it is in sync; unclean: one that is not, where none leads (loses data)",
    )
    parser.add_argument("--all-topic-partitions", action="store_true", help="every partition")
    parser.add_argument("--topic", help="a topic, with --partition")
    parser.add_argument("--partition", type=int, metavar="N", help="the number of a partition of --topic")
    parser.add_argument("--path-to-json-file", metavar="FILE", help=f"partitions as {FORM}")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 where a partition could not be given a leader."""
    partitions = _partitions(args)
    kind = ElectionType[args.election_type]
    errors: dict[Any, KafkaError] = {}
    with KafkaAdminClient(client_options(args)) as admin:
        elected = admin.elect_leaders(kind, partitions, errors=errors)
    # Of all partitions Kafka tells only those that have a new leader.
    unchanged = {*(partitions or ())} - elected - {*errors}
    if args.json:
        print(json.dumps(_as_json(elected, unchanged, errors)))
    else:
        _print(kind, elected, unchanged, errors)
    return 1 if errors else 0


def _partitions(args: argparse.Namespace) -> list[TopicPartition] | None:
    """What was asked for; None for all. ConfigurationError where that is not clear."""
    given = [as_typed(option) for option in CHOICES if is_given(args, option)]
    if len(given) != 1:
        every = ", ".join(map(as_typed, CHOICES))
        raise ConfigurationError(f"one of {every} is needed, and not {' and '.join(given) or 'none'}")
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
        raise ConfigurationError(f"{file}: the list of partitions is empty: {FORM} is wanted")
    twice = twice_in(partitions)
    if twice:
        raise ConfigurationError(f"{file}: partitions are there twice: {', '.join(map(str, twice))}")
    return partitions


def _print(
    kind: ElectionType,
    elected: Iterable[TopicPartition],
    unchanged: Iterable[TopicPartition],
    errors: Mapping[Any, KafkaError],
) -> None:
    if elected:
        print(f"Successfully completed leader election ({kind.name}) for partitions {_names(elected)}")
    if unchanged:
        print(f"Valid replica already elected for partitions {_names(unchanged)}")
    for partition, error in sorted(errors.items()):
        print(f"Error completing leader election ({kind.name}) for partition: {partition}: {error}", file=sys.stderr)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))


def _as_json(
    elected: Iterable[TopicPartition], unchanged: Iterable[TopicPartition], errors: Mapping[Any, KafkaError]
) -> dict[str, Any]:
    return {
        "elected": [tp._asdict() for tp in sorted(elected)],
        "unchanged": [tp._asdict() for tp in sorted(unchanged)],
        "errors": partition_errors(errors),
    }
