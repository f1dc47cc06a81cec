"""Print records as a member of a share group, and acknowledge them, as kafka-console-share-consumer.sh does."""

from __future__ import annotations

import argparse
import sys
import time

from ottla.cli.console.record_format import OPTIONS, RecordFormatter, formatter
from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options, connection, without_serialization
from ottla.cli.framework.options import Flag, OneOf, Option, Repeatable, limit
from ottla.cli.framework.signals import stopping
from ottla.client.consumer.share.acknowledgements import AcknowledgeType
from ottla.client.consumer.share.acquired_records import ShareConsumerRecord
from ottla.client.consumer.share.share_consumer import KafkaShareConsumer
from ottla.errors import KafkaError, WakeupError

POLL_MS = 500
GROUP = "console-share-consumer"


def run(args: argparse.Namespace) -> int:
    """Print records until the limit of `--max-messages` or `--timeout-ms` is reached or a signal arrives. Acknowledge
    each of them: accept it, or release or reject it if the options say so.

    Return 0, or 128 plus the number of the signal that ended the command.
    """
    record_format = formatter(args)
    with KafkaShareConsumer(args.topic, _options(args)) as consumer, stopping(consumer.wakeup) as stop:
        count = _print(consumer, record_format, args)
        sys.stdout.buffer.flush()
        consumer.close()  # before a second signal can end the process: acknowledges, and leaves the group
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return stop.exit_code


def _print(consumer: KafkaShareConsumer, record_format: RecordFormatter, args: argparse.Namespace) -> int:
    """Print records until a limit is reached or a signal arrives. Return the number of acknowledged records."""
    count = 0
    last = time.monotonic()
    while args.max_messages is None or count < args.max_messages:
        try:
            polled = consumer.poll(POLL_MS if args.timeout_ms is None else min(POLL_MS, args.timeout_ms))
        except WakeupError:
            return count  # a signal is the usual end of this tool
        for records in polled.values():
            for record in records:
                if args.max_messages is not None and count >= args.max_messages:
                    return count  # the others are released when the consumer closes
                _handle(consumer, record, record_format, args)
                count += 1
        sys.stdout.buffer.flush()
        now = time.monotonic()
        if polled:
            last = now
        elif args.timeout_ms is not None and (now - last) * 1000 >= args.timeout_ms:
            print(f"No record arrived for {args.timeout_ms} ms", file=sys.stderr)
            break
    return count


def _handle(
    consumer: KafkaShareConsumer, record: ShareConsumerRecord, record_format: RecordFormatter, args: argparse.Namespace
) -> None:
    kind = AcknowledgeType.ACCEPT
    if args.release:
        kind = AcknowledgeType.RELEASE
    elif args.reject:
        kind = AcknowledgeType.REJECT
    try:
        sys.stdout.buffer.write(record_format.line(record))
    except KafkaError as error:
        if not args.reject_message_on_error:
            raise
        print(f"Rejected {record.topic_partition}, offset {record.offset}: {error}", file=sys.stderr)
        kind = AcknowledgeType.REJECT
    consumer.acknowledge(record, kind)


def _options(args: argparse.Namespace) -> dict[str, object]:
    options: dict[str, object] = without_serialization(client_options(args, args.consumer_property))
    options["share.acknowledgement.mode"] = "explicit"
    options["group.id"] = args.group or options.get("group.id") or GROUP
    options.setdefault("client.id", GROUP)
    return options


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--topic", "topic to read", required=True),
        Option("--group", f"share group to join (default: group.id, or {GROUP})"),
        Option("--max-messages N", "stop after N records; -1: no limit (the default)", limit),
        Option(
            "--timeout-ms MS",
            "stop if no record arrives for this time in milliseconds; -1: wait without end (the default)",
            limit,
        ),
        OneOf(
            Flag("--release", "release records after they are printed, so that they can be delivered again"),
            Flag(
                "--reject", "reject records after they are printed, so that they are never delivered to the group again"
            ),
            required=False,
        ),
        Flag("--reject-message-on-error", "reject a record that cannot be decoded, instead of stopping"),
        *OPTIONS,
        Repeatable(
            "--consumer-property, --command-property NAME=VALUE", "a consumer config, such as max.poll.records=100"
        ),
        Option("--consumer-config FILE", "same as --command-config", dest="command_config"),
    ),
)
