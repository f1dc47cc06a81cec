"""Read records as quickly as possible, and tell how long that took: kafka-consumer-perf-test.sh."""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.framework.connection import (
    add_connection,
    check_positive,
    client_options,
    not_reached,
    without_serialization,
)
from ottla.cli.framework.deprecated import take_over
from ottla.cli.framework.java_dates import DateFormat
from ottla.cli.framework.java_format import metric_lines, metrics_as_json
from ottla.cli.perf.consumer_report import DETAILED_HEADER, HEADER, Joining, Read, Span
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.client.consumer.records import ConsumerRecord
from ottla.clock import now_ms
from ottla.errors import ConfigurationError

CLIENT_ID: Final = "perf-consumer-client"
POLL_MS: Final = 100
FETCH_BYTES: Final = 1024 * 1024
SOCKET_BYTES: Final = 2 * 1024 * 1024
TIMEOUT_MS: Final = 10_000
INTERVAL_MS: Final = 5000
DATES: Final = "yyyy-MM-dd HH:mm:ss:SSS"
OLD_NAMES: Final = (("--messages", "--num-records"), ("--consumer.config", "--command-config"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla consumer-perf-test`."""
    add_connection(parser)
    parser.add_argument("--consumer.config", metavar="FILE", help="as --command-config")
    parser.add_argument(
        "--command-property", action="append", default=[], metavar="NAME=VALUE", help="a consumer option; repeatable"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topic", help="what to read")
    what.add_argument("--include", metavar="REGEX", help="read all topics that match")
    count = parser.add_mutually_exclusive_group(required=True)
    count.add_argument("--num-records", type=int, metavar="N", help="how many records")
    count.add_argument("--messages", type=int, metavar="N", help="as --num-records")
    parser.add_argument("--group", metavar="ID", help="the consumer group: perf-consumer- and a number by chance")
    parser.add_argument("--from-latest", action="store_true", help="begin at the end, where the group has no offset")
    parser.add_argument(
        "--fetch-size", type=int, metavar="BYTES", help=f"most bytes of a partition in a request: {FETCH_BYTES}"
    )
    parser.add_argument("--socket-buffer-size", type=int, metavar="BYTES", help=f"receive.buffer.bytes: {SOCKET_BYTES}")
    parser.add_argument(
        "--timeout",
        type=int,
        nargs="?",
        default=TIMEOUT_MS,
        const=TIMEOUT_MS,
        metavar="MS",
        help=f"end when so long nothing came: {TIMEOUT_MS}",
    )
    parser.add_argument("--show-detailed-stats", action="store_true", help="a line each --reporting-interval")
    parser.add_argument("--reporting-interval", type=int, default=INTERVAL_MS, metavar="MS", help=f"{INTERVAL_MS}")
    parser.add_argument("--date-format", default=DATES, metavar="PATTERN", help="as Java's SimpleDateFormat: " + DATES)
    parser.add_argument("--hide-header", action="store_true", help="no line with the names of the columns")
    parser.add_argument("--print-metrics", action="store_true", help="print the consumer's metrics at the end")
    parser.add_argument("--json", action="store_true", help="only the whole run, in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it. Who gets fewer records than wanted is warned, as by Kafka's tool."""
    for old, new in OLD_NAMES:
        if take_over(args, old, new) and not args.json:
            print(f"Warning: {old} is deprecated. Use {new} instead.")
    _check(args)
    dates = DateFormat(args.date_format, "--date-format")
    options = _options(args)
    if not (args.hide_header or args.json):
        print(DETAILED_HEADER if args.show_detailed_stats else HEADER, flush=True)
    with KafkaConsumer(options) as consumer:
        whole = _read(consumer, args, dates)
        metrics = consumer.metrics(raw=True) if args.print_metrics else None
    if args.json:
        told = whole.as_json()
        print(json.dumps(told if metrics is None else {**told, "metrics": metrics_as_json(metrics)}))
        return 0
    if not args.show_detailed_stats:
        print(whole.line(dates))
    if metrics is not None:
        print("\n".join(metric_lines(metrics)))
    return 0


def _check(args: argparse.Namespace) -> None:
    """ConfigurationError for numbers that make no sense, and for what is no expression."""
    check_positive(args, "num_records", "fetch_size", "socket_buffer_size", "timeout", "reporting_interval")
    try:
        re.compile(args.include or "")
    except re.error as error:
        raise ConfigurationError(f"--include {args.include!r} is no regular expression: {error}") from None


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Options of the consumer, by Kafka's names; defaults are the tool's, where nothing was given."""
    options = without_serialization(client_options(args, args.command_property))  # bytes are counted
    for name, given, default in (
        ("client.id", None, CLIENT_ID),
        ("group.id", args.group, f"perf-consumer-{random.randrange(100_000)}"),
        ("max.partition.fetch.bytes", args.fetch_size, FETCH_BYTES),
        ("receive.buffer.bytes", args.socket_buffer_size, SOCKET_BYTES),
        ("auto.offset.reset", "latest" if args.from_latest else None, "earliest"),
        ("check.crcs", None, False),
    ):
        if given is not None or name not in options:
            options[name] = default if given is None else given
    return options


def _read(consumer: KafkaConsumer, args: argparse.Namespace, dates: DateFormat) -> Span:
    """Read until there are enough, or nothing comes any more."""
    joining = Joining(now_ms)
    begin = told = seen = Read(now_ms())
    _subscribe(consumer, args, joining)
    last = now = begin.at
    records = size = 0
    while records < args.num_records and now - last <= args.timeout:
        polled = consumer.poll(POLL_MS)
        now = now_ms()
        if not polled:
            continue
        last = now
        for some in polled.values():
            records += len(some)
            size += _size(some)
        seen = Read(now, records, size, joining.ms)
        if now - told.at >= args.reporting_interval:
            if args.show_detailed_stats and not args.json:
                print(Span(told, seen).detail(dates), flush=True)
            told = seen
    if records < args.num_records:
        _warn(consumer, args)
    return Span(begin, seen._replace(at=now_ms(), joining=joining.ms))


def _subscribe(consumer: KafkaConsumer, args: argparse.Namespace, listener: Joining) -> None:
    if args.topic:
        consumer.subscribe([args.topic], listener=listener)
    else:
        # As in Java, the whole name matches.
        consumer.subscribe(pattern=re.compile(rf"^(?:{args.include})$"), listener=listener)


def _warn(consumer: KafkaConsumer, args: argparse.Namespace) -> None:
    if not consumer.bootstrap_connected():
        raise not_reached(args, args.timeout)
    if not args.json:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({args.timeout} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )


def _size(records: Iterable[ConsumerRecord]) -> int:
    """Bytes of keys and values."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)
