"""Delete the records of partitions before an offset, as kafka-delete-records.sh does."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.json_file import MAX_LONG, JsonValue, duplicates_in, read_list
from ottla.cli.framework.options import JSON, Option
from ottla.cli.framework.output import Output, partition_errors
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import ConfigurationError, KafkaError
from ottla.model import TopicPartition

FORM: Final = '{"partitions":[{"topic":"t","partition":0,"offset":7}]}'
ALL: Final = -1
"""The offset that stands for the high watermark: all records that consumers may read are deleted."""


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete the records before the offsets in the file, and print the new low watermark or the error of each
    partition. The exit code is 0 even if a partition fails, as with Kafka's tool.
    """
    offsets = args.offsets
    errors: dict[Any, KafkaError] = {}
    admin.describe_cluster()  # an unreachable cluster is one error, not one for each partition
    output.text("Executing records delete operation")
    low_watermarks = admin.delete_records(offsets, errors=errors)
    results = {tp: f"low_watermark: {offset}" for tp, offset in low_watermarks.items()}
    results |= {tp: f"error: {error}" for tp, error in errors.items()}
    output.text("Records delete operation completed:")
    output.text(*(f"partition: {tp}\t{result}" for tp, result in sorted(results.items())))
    return {
        "partitions": [{**tp._asdict(), "low_watermark": offset} for tp, offset in sorted(low_watermarks.items())],
        "errors": partition_errors(errors),
    }


def _check(args: argparse.Namespace) -> None:
    args.offsets = _read(args.offset_json_file)  # once: the file may be a pipe


COMMAND = AdminCommand(
    run=run,
    check=_check,
    options=(
        *connection(),
        Option(
            "--offset-json-file FILE",
            f"JSON file with the offset before which records of each partition are deleted, {ALL} for all of "
            f"them: {FORM}",
            required=True,
        ),
        JSON,
    ),
)


def _read(file: str) -> dict[TopicPartition, int]:
    """Return the offsets in the file by partition. Raises ConfigurationError if the file cannot be read, is malformed,
    has a version other than 1, or contains a partition twice.
    """
    offsets = [_offset(item) for item in read_list(file, "partitions", FORM).items()]
    duplicates = ",".join(map(str, duplicates_in(tp for tp, _ in offsets)))
    if duplicates:
        raise ConfigurationError(f"{file}: Offset json file contains duplicate topic partitions: {duplicates}")
    return dict(offsets)


def _offset(item: JsonValue) -> tuple[TopicPartition, int]:
    return item.topic_partition(), item.field("offset").number(ALL, MAX_LONG)
