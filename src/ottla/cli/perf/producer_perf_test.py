"""Send records as fast as possible or at a limited rate, and print throughput and latency, as
kafka-producer-perf-test.sh does.

Transactions are used with --transactional-id, --transaction-duration-ms or the config transactional.id.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import check_positive, client_options, connection
from ottla.cli.framework.options import Flag, OneOf, Option
from ottla.cli.perf import payloads
from ottla.cli.perf.deprecated import deprecation, use_new_name
from ottla.cli.perf.java_format import metric_lines, metrics_as_json
from ottla.cli.perf.producer_load import Load
from ottla.cli.perf.producer_report import Printer, Report
from ottla.client.producer.producer import KafkaProducer
from ottla.clock import now_ms
from ottla.errors import ConfigurationError

CLIENT_ID: Final = "perf-producer-client"
PREFIX: Final = "performance-producer-"
"""The prefix of generated transactional ids."""
TRANSACTION_MS: Final = 3000
OLD_NAMES: Final = (("--producer-props", "--command-property"), ("--producer.config", "--command-config"))


def run(args: argparse.Namespace) -> int:
    """Run the test, and print throughput and latency. Return 1 if a record failed, otherwise 0."""
    _check(args)
    printer = _ignore if args.json else _print
    source = _payloads(args, printer)
    options = _options(args, printer)
    producer = KafkaProducer(options)
    try:
        failed = _send(producer, args, source, printer, transactional="transactional.id" in options)
    except BaseException:
        producer.close(timeout=0)  # pending records are no longer needed
        raise
    producer.close()
    return 1 if failed else 0


def _send(
    producer: KafkaProducer, args: argparse.Namespace, source: Iterator[bytes], printer: Printer, *, transactional: bool
) -> int:
    """Send all records and print the report. Return the number of failed records."""
    if transactional:
        producer.init_transactions()
    transaction_ms = (args.transaction_duration_ms or TRANSACTION_MS) if transactional else None
    warm_up = max(0, args.warmup_records)
    if warm_up:
        printer(f"Warmup first {warm_up} records. Steady state results will print after the complete test summary.")
    reports = [Report(now_ms(), args.reporting_interval, printer)]
    load = Load(producer, args.topic, source, args.throughput, transaction_ms)
    if warm_up:
        load.send(warm_up, *reports)
        reports[0].mute()
        reports.append(Report(now_ms(), args.reporting_interval, printer, steady=True))
    load.send(args.num_records - warm_up, *reports)
    load.finish(args.reporting_interval)
    _print_summary(producer, args, reports)
    if load.failed:
        print(
            f"ottla producer-perf-test: {args.topic}: {load.failed} of {args.num_records} records failed",
            file=sys.stderr,
        )
    return load.failed


def _print_summary(producer: KafkaProducer, args: argparse.Namespace, reports: list[Report]) -> None:
    now = now_ms()
    metrics = producer.metrics(raw=True) if args.print_metrics else None
    if args.json:
        summary = dict(zip(("total", "steady_state"), (report.as_json(now) for report in reports), strict=False))
        print(json.dumps(summary if metrics is None else {**summary, "metrics": metrics_as_json(metrics)}))
        return
    lines = [report.line(now) for report in reports]
    print("\n".join(lines if metrics is None else [*lines, *metric_lines(metrics)]))


def _check(args: argparse.Namespace) -> None:
    """Raise ConfigurationError for numbers that are out of range, and for a throughput of 0."""
    check_positive(args, "num_records", "record_size", "transaction_duration_ms", "reporting_interval")
    if math.isnan(args.throughput) or args.throughput == 0:
        raise ConfigurationError(f"--throughput {args.throughput:g}: nothing would be sent; use -1 for no limit")
    if args.warmup_records >= args.num_records:
        raise ConfigurationError(
            f"--warmup-records {args.warmup_records} must be fewer than --num-records {args.num_records}"
        )


def _options(args: argparse.Namespace, printer: Printer) -> dict[str, Any]:
    for old, new in OLD_NAMES:
        if use_new_name(args, old, new):
            printer(deprecation(old, new))
    options = {"client.id": CLIENT_ID, **client_options(args, args.command_property or [])}
    if "bootstrap.servers" not in options:
        raise ConfigurationError("--bootstrap-server is missing, or bootstrap.servers with --command-config")
    if args.transactional_id:
        options["transactional.id"] = args.transactional_id
    elif args.transaction_duration_ms:
        options.setdefault("transactional.id", f"{PREFIX}{uuid4()}")
    return options


def _payloads(args: argparse.Namespace, printer: Printer) -> Iterator[bytes]:
    if args.record_size:
        return payloads.letters(args.record_size)
    if args.payload_monotonic:
        return payloads.numbers()
    printer(f"Reading payloads from: {Path(args.payload_file).absolute()}")
    parts = payloads.read(args.payload_file, args.payload_delimiter)
    printer(f"Number of records read: {len(parts)}")
    return payloads.choices(parts)


def _print(line: str) -> None:
    print(line, flush=True)


def _ignore(line: str) -> None:
    """Print nothing. Used with --json, where only the summary is printed."""
    del line


COMMAND = Command(
    run=run,
    options=(
        *connection(required=False),
        Option("--producer.config FILE", "same as --command-config (deprecated)"),
        Option(
            "--command-property NAME=VALUE",
            "producer configs, such as linger.ms=10 batch.size=32768",
            nargs="+",
            action="extend",
        ),
        Option("--producer-props NAME=VALUE", "same as --command-property (deprecated)", nargs="+", action="extend"),
        Option("--topic", "topic to send records to", required=True),
        Option("--num-records N", "number of records to send, including those of --warmup-records", int, required=True),
        Option("--throughput N", "approximate limit of records per second; negative: none", float, required=True),
        OneOf(
            Option(
                "--record-size BYTES", "size in bytes of each record's value, which consists of random letters", int
            ),
            Option(
                "--payload-file FILE",
                "text file (UTF-8) whose lines, or parts (--payload-delimiter), are sent in random order",
            ),
            Flag("--payload-monotonic", "send the numbers 0, 1, 2… as values"),
        ),
        Option(
            "--payload-delimiter REGEX", "regular expression that separates the parts of --payload-file", default="\\n"
        ),
        Option(
            "--transactional-id ID",
            f"use transactions with this id (default for transactions: transactional.id, or {PREFIX} and a random id)",
        ),
        Option(
            "--transaction-duration-ms MS",
            f"use transactions, and commit each after this time in milliseconds (default: {TRANSACTION_MS})",
            int,
        ),
        Option(
            "--warmup-records N",
            "print a second summary that leaves out the first N records (default: 0, no second summary)",
            int,
            default=0,
        ),
        Option(
            "--reporting-interval MS", "minimum time in milliseconds between two progress reports", int, default=5000
        ),
        Flag("--print-metrics", "print the producer's metrics at the end"),
        Flag("--json", "print only the summary, and the metrics with --print-metrics, as JSON"),
    ),
)
