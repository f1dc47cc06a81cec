"""Print records, as kafka-console-consumer.sh does; with --zookeeper as in Kafka 0.8."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import closing
from itertools import islice

from ottla.cli.console.record_format import OPTIONS, formatter
from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options, connection
from ottla.cli.framework.options import Flag, OneOf, Option, Repeatable, flag_name, is_set, limit
from ottla.cli.framework.signals import stopping
from ottla.cli.framework.topic_filter import name_pattern
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.errors import ConfigurationError, WakeupError
from ottla.model import TopicPartition
from ottla.records.consumer_record import ConsumerRecord

POLL_MS = 500
LEVELS = ("read_committed", "read_uncommitted")


def run(args: argparse.Namespace) -> int:
    """Print records until the limit of `--max-messages` or `--timeout-ms` is reached or a signal arrives. Return 0, or
    after a signal 128 plus its number, as Kafka's tool does; with `--zookeeper`, return 1 if the group has offsets that
    forbid `--from-beginning`.
    """
    _check(args)
    if args.zookeeper:
        from ottla.cli.console import zookeeper_console_consumer

        return zookeeper_console_consumer.run(args)
    record_format = formatter(args)
    count = 0
    with KafkaConsumer(_options(args)) as consumer, stopping(consumer.wakeup) as stop:
        try:
            _subscribe(consumer, args)
            with closing(_records(consumer, args)) as records:
                for record in islice(records, args.max_messages):
                    sys.stdout.buffer.write(record_format.line(record))
                    count += 1
                    if sys.stdout.isatty():
                        sys.stdout.buffer.flush()  # a pipe is flushed once per poll
        except WakeupError:
            pass  # a signal is the usual end of this tool
        sys.stdout.buffer.flush()
        consumer.close()  # before a second signal can end the process: commits, and leaves the group
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return stop.exit_code


def _check(args: argparse.Namespace) -> None:
    """Raise ConfigurationError for options that would have no effect, lack another option, contradict each other or
    have a wrong value.
    """
    old, new = ("blacklist", "delete_consumer_offsets", "skip_message_on_error"), ("isolation_level", "partition")
    needed = "--bootstrap-server" if args.zookeeper else "--zookeeper"
    for option in new if args.zookeeper else old:
        if is_set(args, option):
            raise ConfigurationError(f"{flag_name(option)} needs {needed}")
    if args.include and not args.zookeeper:
        name_pattern("--include", args.include)
    if args.partition is not None and not args.topic:
        raise ConfigurationError("--partition needs --topic")
    if args.offset is None:
        return
    if args.partition is None:
        raise ConfigurationError("--offset needs --partition")
    if args.from_beginning:
        raise ConfigurationError("--offset and --from-beginning cannot be used together")
    if not (args.offset.lower() in ("earliest", "latest") or args.offset.isdecimal()):
        raise ConfigurationError(f"--offset: {args.offset!r} is not allowed: expected a number, earliest or latest")


def _records(consumer: KafkaConsumer, args: argparse.Namespace) -> Generator[ConsumerRecord, None, None]:
    """Yield records until none has arrived for --timeout-ms; without that option, without end.

    When the generator is closed, it moves the positions back to the first records that were not yielded, so that these
    are not committed, like Kafka's ConsoleConsumer.ConsumerWrapper.resetUnconsumedOffsets.
    """
    last = time.monotonic()
    following: dict[TopicPartition, int] = {}
    try:
        while True:
            polled = consumer.poll(POLL_MS if args.timeout_ms is None else min(POLL_MS, args.timeout_ms))
            following = {tp: records[0].offset for tp, records in polled.items()}
            for tp, records in polled.items():
                for record in records:
                    following[tp] = record.offset + 1
                    yield record
                del following[tp]
            sys.stdout.buffer.flush()
            now = time.monotonic()
            if polled:
                last = now
            elif args.timeout_ms is not None and (now - last) * 1000 >= args.timeout_ms:
                print(f"No record arrived for {args.timeout_ms} ms", file=sys.stderr)
                return
    finally:
        for tp in following.keys() & consumer.assignment():
            consumer.seek(tp, following[tp])


def _subscribe(consumer: KafkaConsumer, args: argparse.Namespace) -> None:
    if args.partition is None:
        if args.include:
            consumer.subscribe(pattern=name_pattern("--include", args.include))
        else:
            consumer.subscribe([args.topic])
        return
    partition = TopicPartition(args.topic, args.partition)
    consumer.assign([partition])
    offset = (args.offset or ("earliest" if args.from_beginning else "latest")).lower()
    if offset == "earliest":
        consumer.seek_to_beginning(partition)
    elif offset == "latest":
        consumer.seek_to_end(partition)
    else:
        consumer.seek(partition, int(offset))


def _options(args: argparse.Namespace) -> dict[str, object]:
    options = client_options(args, args.consumer_property)
    if args.partition is not None and (args.group or "group.id" in options):
        raise ConfigurationError(
            "--partition cannot be used with a group (--group, group.id), whose partitions are assigned to its members"
        )
    if args.isolation_level:
        options["isolation.level"] = args.isolation_level
    if args.from_beginning:
        options["auto.offset.reset"] = "earliest"
    if args.group:
        options["group.id"] = args.group
    elif "group.id" not in options:
        # The offsets of this group are of no use to anyone.
        options["group.id"] = f"console-consumer-{uuid.uuid4().int % 100_000}"
        options.setdefault("enable.auto.commit", False)
    return options


COMMAND = Command(
    run=run,
    options=(
        *connection(zookeeper=True),
        OneOf(
            Option("--topic", "topic to read; --topic or --include is required, or --blacklist with --zookeeper"),
            Option(
                "--include, --whitelist REGEX",
                "read all topics whose whole names match the regular expression",
            ),
            Option("--blacklist REGEX", "with --zookeeper: read all topics except those whose whole names match"),
        ),
        Flag(
            "--from-beginning",
            "start at the earliest record instead of the end, unless the group has committed offsets",
        ),
        Option("--partition", "number of the only partition of --topic to read (default: all)", int),
        Option(
            "--offset",
            "with --partition: offset to start at, earliest, or latest (the default without --from-beginning)",
        ),
        Option(
            "--group",
            "consumer group (default: group.id, or a new group, whose offsets are not kept unless enable.auto.commit "
            "is set)",
        ),
        Option("--max-messages N", "stop after N records; -1: no limit (the default)", limit),
        Option(
            "--timeout-ms MS",
            "stop if no record arrives for this time in milliseconds; -1: wait without end (the default)",
            limit,
        ),
        Flag(
            "--delete-consumer-offsets",
            "with --zookeeper: first delete the znodes of the group, which contain its offsets",
        ),
        Flag("--skip-message-on-error", "with --zookeeper: skip messages that cannot be read or printed"),
        Option(
            "--isolation-level",
            "read_committed skips aborted transactions and stops before open ones (default: read_uncommitted)",
            choices=LEVELS,
        ),
        *OPTIONS,
        Repeatable(
            "--consumer-property, --command-property NAME=VALUE", "a consumer config, such as fetch.max.bytes=65536"
        ),
        Option("--consumer.config FILE", "same as --command-config (deprecated)", dest="command_config"),
    ),
)
