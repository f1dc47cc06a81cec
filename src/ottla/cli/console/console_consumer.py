"""Print records, as kafka-console-consumer.sh does; with --zookeeper as in Kafka 0.8."""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from ottla.cli.framework.connection import add_connection, as_typed, client_options, escaped, flag, is_given
from ottla.cli.framework.signals import stopping
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.client.consumer.records import ConsumerRecord
from ottla.config import properties
from ottla.errors import ConfigurationError, WakeupError
from ottla.model import LOG_APPEND_TIME, TopicPartition

POLL_MS = 500
LEVELS = ("read_committed", "read_uncommitted")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla console-consumer`."""
    add_connection(parser, zookeeper=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", help="the topic to read")
    what.add_argument("--include", "--whitelist", metavar="PATTERN", help="a regular expression of topics to read")
    what.add_argument("--blacklist", metavar="PATTERN", help="with --zookeeper: topics not to read")
    parser.add_argument("--from-beginning", action="store_true", help="begin with the first record, not the next one")
    parser.add_argument("--partition", type=int, help="read this partition only")
    parser.add_argument("--offset", help="with --partition: a number, earliest or latest (the default)")
    parser.add_argument("--group", help="the consumer group; by default one of its own")
    parser.add_argument("--max-messages", type=int, metavar="N", help="stop after N records")
    parser.add_argument("--timeout-ms", type=int, metavar="MS", help="stop when nothing comes for so long")
    parser.add_argument(
        "--delete-consumer-offsets", action="store_true", help="with --zookeeper: forget the group's offsets first"
    )
    parser.add_argument(
        "--skip-message-on-error", action="store_true", help="with --zookeeper: go on behind a message that fails"
    )
    parser.add_argument("--isolation-level", choices=LEVELS, help="of transactions; read_uncommitted is the default")
    parser.add_argument(
        "--property",
        "--formatter-property",
        action="append",
        default=[],
        metavar="name=value",
        help="what is printed: print.timestamp, print.key, print.offset, print.partition, print.headers, print.value, "
        "key.separator, line.separator, headers.separator, null.literal",
    )
    parser.add_argument(
        "--consumer-property",
        "--command-property",
        action="append",
        default=[],
        metavar="name=value",
        help="a consumer option; repeatable",
    )
    parser.add_argument("--consumer.config", dest="command_config", metavar="FILE", help="as --command-config")


class Format(NamedTuple):
    """What of a record is printed, and how."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True
    separator: bytes = b"\t"
    line_end: bytes = b"\n"
    headers_separator: bytes = b","
    null: bytes = b"null"

    @classmethod
    def of(cls, given: dict[str, str]) -> Format:
        """From the `--property` values."""
        return cls(
            flag(given.get("print.timestamp")),
            flag(given.get("print.partition")),
            flag(given.get("print.offset")),
            flag(given.get("print.headers")),
            flag(given.get("print.key")),
            flag(given.get("print.value"), default=True),
            escaped(given.get("key.separator", "\t")),
            escaped(given.get("line.separator", "\n")),
            escaped(given.get("headers.separator", ",")),
            given.get("null.literal", "null").encode(),
        )

    def line(self, record: ConsumerRecord) -> bytes:
        """One record."""
        parts = []
        if self.timestamp:
            kind = "LogAppendTime" if record.timestamp_type == LOG_APPEND_TIME else "CreateTime"
            parts.append(f"{kind}:{record.timestamp}".encode() if record.timestamp >= 0 else b"NO_TIMESTAMP")
        if self.partition:
            parts.append(b"Partition:%d" % record.partition)
        if self.offset:
            parts.append(b"Offset:%d" % record.offset)
        if self.headers:
            pairs = [name.encode() + b":" + self._text(value) for name, value in record.headers]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if self.key:
            parts.append(self._text(record.key))
        if self.value:
            parts.append(self._text(record.value))
        return self.separator.join(parts) + self.line_end

    def _text(self, data: bytes | None) -> bytes:
        return self.null if data is None else data


def run(args: argparse.Namespace) -> int:
    """Print until a signal or a limit; the exit code after a signal is that of kafka-console-consumer.sh (143, 130)."""
    _check(args)
    if args.zookeeper:
        from ottla.cli.console import zookeeper_console_consumer

        return zookeeper_console_consumer.run(args)
    shown = Format.of(dict(properties.override(text) for text in args.property))
    count = 0
    with KafkaConsumer(_options(args)) as consumer, stopping(consumer.wakeup) as stop:
        try:
            _choose(consumer, args)
            for record in _records(consumer, args):
                sys.stdout.buffer.write(shown.line(record))
                count += 1
                if args.max_messages is not None and count >= args.max_messages:
                    break
                if sys.stdout.isatty():
                    sys.stdout.buffer.flush()  # a pipe gets whole polls instead
        except WakeupError:
            pass  # by a signal, the usual end of this tool
        sys.stdout.buffer.flush()
        consumer.close()  # before a second signal can end the process: it commits, and leaves the group
    print(f"Processed a total of {count} messages", file=sys.stderr)
    return stop.exit_code


def _check(args: argparse.Namespace) -> None:
    """ConfigurationError for options that would be ignored, as Kafka's ConsoleConsumerOptions has it."""
    old, new = ("blacklist", "delete_consumer_offsets", "skip_message_on_error"), ("isolation_level", "partition")
    needed = "--bootstrap-server" if args.zookeeper else "--zookeeper"
    for option in new if args.zookeeper else old:
        if is_given(args, option):
            raise ConfigurationError(f"{as_typed(option)} needs {needed}")
    if args.partition is not None and not args.topic:
        raise ConfigurationError("--partition needs --topic")
    if args.offset is None:
        return
    if args.partition is None:
        raise ConfigurationError("--offset needs --partition")
    if args.from_beginning:
        raise ConfigurationError("--offset and --from-beginning cannot be used together")
    if not (args.offset.lower() in ("earliest", "latest") or args.offset.isdecimal()):
        raise ConfigurationError(f"--offset: {args.offset!r} is not allowed: a number, earliest or latest is wanted")


def _records(consumer: KafkaConsumer, args: argparse.Namespace) -> Iterator[ConsumerRecord]:
    """Records as they come, until nothing has come for --timeout-ms."""
    last = time.monotonic()
    while True:
        polled = consumer.poll(POLL_MS if args.timeout_ms is None else min(POLL_MS, args.timeout_ms))
        for records in polled.values():
            yield from records
        sys.stdout.buffer.flush()
        now = time.monotonic()
        if polled:
            last = now
        elif args.timeout_ms is not None and (now - last) * 1000 >= args.timeout_ms:
            print(f"No record came for {args.timeout_ms} ms", file=sys.stderr)
            return


def _choose(consumer: KafkaConsumer, args: argparse.Namespace) -> None:
    if args.partition is None:
        if args.include:
            consumer.subscribe(pattern=args.include)
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
        raise ConfigurationError("--partition cannot be used with a group (--group, group.id): its members divide them")
    if args.isolation_level:
        options["isolation.level"] = args.isolation_level
    if args.from_beginning:
        options["auto.offset.reset"] = "earliest"
    if args.group:
        options["group.id"] = args.group
    elif "group.id" not in options:
        # nobody will go on where this one ends
        options["group.id"] = f"console-consumer-{uuid.uuid4().int % 100_000}"
        options.setdefault("enable.auto.commit", False)
    return options
