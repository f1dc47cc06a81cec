"""Delete the first records of partitions, up to an offset of each, as kafka-delete-records.sh does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.framework.json_answers import partition_errors
from ottla.cli.framework.json_file import MAX_LONG, Place, read_list, twice_in
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import ConfigurationError, KafkaError
from ottla.model import TopicPartition

FORM: Final = '{"partitions":[{"topic":"t","partition":0,"offset":7}]}'
ALL: Final = -1
"""In place of an offset: all records that are on all replicas in sync."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla delete-records`."""
    add_connection(parser)
    parser.add_argument(
        "--offset-json-file",
        required=True,
        metavar="FILE",
        help=f"the first offset of each partition that is to stay, {ALL} for none: {FORM}",
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 0 also where a partition could not be done, which is told, as Kafka's tool has it."""
    wanted = _read(args.offset_json_file)
    errors: dict[Any, KafkaError] = {}
    with KafkaAdminClient(client_options(args)) as admin:
        admin.describe_cluster()  # where no broker answers, that is an error of the tool, not of each partition
        if not args.json:
            print("Executing records delete operation", flush=True)
        low = admin.delete_records(wanted, errors=errors)
    if args.json:
        print(json.dumps(_as_json(low, errors)))
    else:
        _print(low, errors)
    return 0


def _read(file: str) -> dict[TopicPartition, int]:
    """Offsets by partition. ConfigurationError for a file that is wrong."""
    offsets = [_offset(item) for item in read_list(file, "partitions", FORM).items()]
    twice = twice_in(tp for tp, _ in offsets)
    if twice:
        told = ",".join(map(str, twice))
        raise ConfigurationError(f"{file}: Offset json file contains duplicate topic partitions: {told}")
    return dict(offsets)


def _offset(item: Place) -> tuple[TopicPartition, int]:
    return item.topic_partition(), item.field("offset").number(ALL, MAX_LONG)


def _print(low: Mapping[TopicPartition, int], errors: Mapping[Any, KafkaError]) -> None:
    print("Records delete operation completed:")
    told = {tp: f"low_watermark: {offset}" for tp, offset in low.items()}
    told |= {tp: f"error: {error}" for tp, error in errors.items()}
    for tp, what in sorted(told.items()):
        print(f"partition: {tp}\t{what}")


def _as_json(low: Mapping[TopicPartition, int], errors: Mapping[Any, KafkaError]) -> dict[str, Any]:
    return {
        "partitions": [{**tp._asdict(), "low_watermark": offset} for tp, offset in sorted(low.items())],
        "errors": partition_errors(errors),
    }
