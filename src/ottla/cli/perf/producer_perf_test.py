"""Send records as quickly as possible, or at a given rate, and tell how long they took: kafka-producer-perf-test.sh.

Transactions are used where --transactional-id or --transaction-duration-ms says so.
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

from ottla.cli.framework import payloads
from ottla.cli.framework.connection import add_connection, check_positive, client_options
from ottla.cli.framework.deprecated import deprecation, take_over
from ottla.cli.framework.java_format import metric_lines, metrics_as_json
from ottla.cli.perf.producer_load import Load
from ottla.cli.perf.producer_report import Report, Say
from ottla.client.producer.producer import KafkaProducer
from ottla.clock import now_ms
from ottla.errors import ConfigurationError

CLIENT_ID: Final = "perf-producer-client"
PREFIX: Final = "performance-producer-"
"""Of transactional ids that are made up."""
TRANSACTION_MS: Final = 3000
OLD_NAMES: Final = (("--producer-props", "--command-property"), ("--producer.config", "--command-config"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla producer-perf-test`."""
    add_connection(parser, required=False)
    parser.add_argument("--producer.config", metavar="FILE", help="as --command-config")
    properties: dict[str, Any] = {"nargs": "+", "action": "extend", "metavar": "NAME=VALUE"}
    parser.add_argument("--command-property", **properties, help="producer options: linger.ms=10 batch.size=32768")
    parser.add_argument("--producer-props", **properties, help="as --command-property")
    parser.add_argument("--topic", required=True, help="where the records go")
    parser.add_argument("--num-records", type=int, required=True, metavar="N", help="how many records")
    parser.add_argument(
        "--throughput", type=float, required=True, metavar="N", help="most records per second, about; -1: no limit"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--record-size", type=int, metavar="BYTES", help="records of so many letters, by chance")
    what.add_argument("--payload-file", metavar="FILE", help="records are parts of this text (UTF-8), by chance")
    what.add_argument("--payload-monotonic", action="store_true", help="records are 0, 1, 2…")
    parser.add_argument(
        "--payload-delimiter", default="\\n", metavar="REGEX", help="what is between the parts of --payload-file: \\n"
    )
    parser.add_argument("--transactional-id", metavar="ID", help=f"for transactions: {PREFIX}… and a random number")
    parser.add_argument(
        "--transaction-duration-ms", type=int, metavar="MS", help=f"commit after so long: {TRANSACTION_MS}"
    )
    parser.add_argument(
        "--warmup-records", type=int, default=0, metavar="N", help="these first ones are left out of a second summary"
    )
    parser.add_argument("--reporting-interval", type=int, default=5000, metavar="MS", help="tell how it goes: 5000")
    parser.add_argument("--print-metrics", action="store_true", help="print the producer's metrics at the end")
    parser.add_argument("--json", action="store_true", help="only the summary, in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 where records were refused."""
    _check(args)
    say = _nothing if args.json else _say
    source = _payloads(args, say)
    options = _options(args, say)
    producer = KafkaProducer(options)
    try:
        failed = _send(producer, args, source, say, transactional="transactional.id" in options)
    except BaseException:
        producer.close(timeout=0)  # what waits in it is of no use any more
        raise
    producer.close()
    return 1 if failed else 0


def _send(
    producer: KafkaProducer, args: argparse.Namespace, source: Iterator[bytes], say: Say, *, transactional: bool
) -> int:
    """Send and tell all of it; the number of records that were refused."""
    if transactional:
        producer.init_transactions()
    transaction_ms = (args.transaction_duration_ms or TRANSACTION_MS) if transactional else None
    warm_up = max(0, args.warmup_records)
    if warm_up:
        say(f"Warmup first {warm_up} records. Steady state results will print after the complete test summary.")
    reports = [Report(now_ms(), args.reporting_interval, say)]
    load = Load(producer, args.topic, source, args.throughput, transaction_ms)
    if warm_up:
        load.send(warm_up, *reports)
        reports[0].hush()
        reports.append(Report(now_ms(), args.reporting_interval, say, steady=True))
    load.send(args.num_records - warm_up, *reports)
    load.finish(args.reporting_interval)
    _tell(producer, args, reports)
    if load.failed:
        print(f"ottla: {args.topic}: {load.failed} of {args.num_records} records were refused", file=sys.stderr)
    return load.failed


def _tell(producer: KafkaProducer, args: argparse.Namespace, reports: list[Report]) -> None:
    now = now_ms()
    metrics = producer.metrics(raw=True) if args.print_metrics else None
    if args.json:
        told = dict(zip(("total", "steady_state"), (report.as_json(now) for report in reports), strict=False))
        print(json.dumps(told if metrics is None else {**told, "metrics": metrics_as_json(metrics)}))
        return
    lines = [report.line(now) for report in reports]
    print("\n".join(lines if metrics is None else [*lines, *metric_lines(metrics)]))


def _check(args: argparse.Namespace) -> None:
    """ConfigurationError for what makes no sense, or cannot go together."""
    check_positive(args, "num_records", "record_size", "transaction_duration_ms", "reporting_interval")
    if math.isnan(args.throughput) or args.throughput == 0:
        raise ConfigurationError(f"--throughput {args.throughput:g}: nothing would be sent; -1 is without a limit")
    if args.warmup_records >= args.num_records:
        raise ConfigurationError(
            f"--warmup-records {args.warmup_records} must be fewer than --num-records {args.num_records}"
        )


def _options(args: argparse.Namespace, say: Say) -> dict[str, Any]:
    """Options of the producer, by Kafka's names."""
    for old, new in OLD_NAMES:
        if take_over(args, old, new):
            say(deprecation(old, new))
    options = {"client.id": CLIENT_ID, **client_options(args, args.command_property or [])}
    if "bootstrap.servers" not in options:
        raise ConfigurationError("--bootstrap-server is missing, or bootstrap.servers with --command-config")
    if args.transactional_id:
        options["transactional.id"] = args.transactional_id
    elif args.transaction_duration_ms:
        options.setdefault("transactional.id", f"{PREFIX}{uuid4()}")
    return options


def _payloads(args: argparse.Namespace, say: Say) -> Iterator[bytes]:
    if args.record_size:
        return payloads.letters(args.record_size)
    if args.payload_monotonic:
        return payloads.numbers()
    say(f"Reading payloads from: {Path(args.payload_file).absolute()}")
    found = payloads.read(args.payload_file, args.payload_delimiter)
    say(f"Number of records read: {len(found)}")
    return payloads.choices(found)


def _say(line: str) -> None:
    print(line, flush=True)


def _nothing(line: str) -> None:
    """With --json all is told at the end."""
    del line
