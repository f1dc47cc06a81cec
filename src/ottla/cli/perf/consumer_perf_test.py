"""Read records as fast as possible, and print the throughput, as kafka-consumer-perf-test.sh does."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import (
    check_positive,
    client_options,
    connection,
    unreachable,
    without_serialization,
)
from ottla.cli.framework.options import Flag, OneOf, Option, Repeatable
from ottla.cli.framework.topic_filter import name_pattern
from ottla.cli.perf.consumer_report import DETAILED_HEADER, HEADER, Progress, RebalanceTimer, Span
from ottla.cli.perf.deprecated import use_new_name
from ottla.cli.perf.java_dates import DateFormat
from ottla.cli.perf.java_format import metric_lines, metrics_as_json
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.clock import now_ms
from ottla.records.consumer_record import ConsumerRecord

CLIENT_ID: Final = "perf-consumer-client"
POLL_MS: Final = 100
FETCH_BYTES: Final = 1024 * 1024
SOCKET_BYTES: Final = 2 * 1024 * 1024
TIMEOUT_MS: Final = 10_000
INTERVAL_MS: Final = 5000
DATES: Final = "yyyy-MM-dd HH:mm:ss:SSS"
OLD_NAMES: Final = (("--messages", "--num-records"), ("--consumer.config", "--command-config"))


def run(args: argparse.Namespace) -> int:
    """Run the test, and print the throughput. If fewer records than requested arrive, print a warning, as Kafka's tool
    does; with `--json`, print none. Raises ConfigurationError for invalid options, and BrokerNotAvailableError if no
    broker could be reached.
    """
    for old, new in OLD_NAMES:
        if use_new_name(args, old, new) and not args.json:
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
        summary = whole.as_json()
        print(json.dumps(summary if metrics is None else {**summary, "metrics": metrics_as_json(metrics)}))
        return 0
    if not args.show_detailed_stats:
        print(whole.line(dates))
    if metrics is not None:
        print("\n".join(metric_lines(metrics)))
    return 0


def _check(args: argparse.Namespace) -> None:
    check_positive(args, "num_records", "fetch_size", "socket_buffer_size", "timeout", "reporting_interval")
    name_pattern("--include", args.include or "")


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the consumer's configs: those of the command line, the file and the profile, and the tool's defaults for
    others.
    """
    options = without_serialization(client_options(args, args.command_property))  # bytes are counted
    for name, value, default in (
        ("client.id", None, CLIENT_ID),
        ("group.id", args.group, f"perf-consumer-{random.randrange(100_000)}"),
        ("max.partition.fetch.bytes", args.fetch_size, FETCH_BYTES),
        ("receive.buffer.bytes", args.socket_buffer_size, SOCKET_BYTES),
        ("auto.offset.reset", "latest" if args.from_latest else None, "earliest"),
        ("check.crcs", None, False),
    ):
        if value is not None or name not in options:
            options[name] = default if value is None else value
    return options


def _read(consumer: KafkaConsumer, args: argparse.Namespace, dates: DateFormat) -> Span:
    """Read until there are enough records, or none has arrived for `--timeout` milliseconds. Return the progress from
    begin to end. Raises BrokerNotAvailableError if there are too few and no broker could be reached.
    """
    rebalances = RebalanceTimer(now_ms)
    begin = reported = latest = Progress(now_ms())
    _subscribe(consumer, args, rebalances)
    last = now = begin.at
    records = size = 0
    while records < args.num_records and now - last <= args.timeout:
        polled = consumer.poll(POLL_MS)
        now = now_ms()
        if not polled:
            continue
        last = now
        for batch in polled.values():
            records += len(batch)
            size += _size(batch)
        latest = Progress(now, records, size, rebalances.ms)
        if now - reported.at >= args.reporting_interval:
            if args.show_detailed_stats and not args.json:
                print(Span(reported, latest).detail(dates), flush=True)
            reported = latest
    if records < args.num_records:
        _warn(consumer, args)
    return Span(begin, latest._replace(at=now_ms(), rebalance_ms=rebalances.ms))


def _subscribe(consumer: KafkaConsumer, args: argparse.Namespace, listener: RebalanceTimer) -> None:
    if args.topic:
        consumer.subscribe([args.topic], listener=listener)
    else:
        consumer.subscribe(pattern=name_pattern("--include", args.include), listener=listener)


def _warn(consumer: KafkaConsumer, args: argparse.Namespace) -> None:
    if not consumer.bootstrap_connected():
        raise unreachable(args, args.timeout)
    if not args.json:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({args.timeout} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )


def _size(records: Iterable[ConsumerRecord]) -> int:
    """Return the total size of keys and values in bytes."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--consumer.config FILE", "same as --command-config (deprecated)"),
        Repeatable("--command-property NAME=VALUE", "a consumer config, such as fetch.max.bytes=65536"),
        OneOf(
            Option("--topic", "topic to read; in place of --include"),
            Option("--include REGEX", "read all topics whose whole names match; in place of --topic"),
        ),
        OneOf(
            Option("--num-records N", "number of records to read, at least 1", int),
            Option("--messages N", "same as --num-records (deprecated)", int),
        ),
        Option("--group ID", "consumer group (default: group.id, or perf-consumer- and a random number)"),
        Flag(
            "--from-latest",
            "start at the latest offset if the group has no committed one (default: at the earliest, unless "
            "auto.offset.reset is set)",
        ),
        Option(
            "--fetch-size BYTES",
            f"max.partition.fetch.bytes: maximum bytes of one partition in a response (default: {FETCH_BYTES})",
            int,
        ),
        Option(
            "--socket-buffer-size BYTES",
            f"receive.buffer.bytes: size of the socket's receive buffer (default: {SOCKET_BYTES})",
            int,
        ),
        Option(
            "--timeout MS",
            "stop if no record arrives for this time in milliseconds",
            int,
            nargs="?",
            default=TIMEOUT_MS,
            const=TIMEOUT_MS,
        ),
        Flag("--show-detailed-stats", "print a line every --reporting-interval, in place of the summary"),
        Option(
            "--reporting-interval MS",
            "with --show-detailed-stats: minimum time in milliseconds between two lines",
            int,
            default=INTERVAL_MS,
        ),
        Option("--date-format PATTERN", "format of times, a pattern of Java's SimpleDateFormat", default=DATES),
        Flag("--hide-header", "do not print the column names"),
        Flag("--print-metrics", "print the consumer's metrics at the end"),
        Flag("--json", "print only the summary, and the metrics with --print-metrics, as JSON"),
    ),
)
