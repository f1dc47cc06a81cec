"""Read as members of a share group as fast as possible, and print the throughput, as kafka-share-consumer-perf-test.sh
does.
"""

from __future__ import annotations

import argparse
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import check_positive, client_options, connection, without_serialization
from ottla.cli.framework.options import JSON, Flag, OneOf, Option, Repeatable
from ottla.cli.perf.consumer_perf_test import DATES, FETCH_BYTES, INTERVAL_MS, OLD_NAMES, POLL_MS, SOCKET_BYTES
from ottla.cli.perf.consumer_perf_test import TIMEOUT_MS as IDLE_MS
from ottla.cli.perf.consumer_report import MIB
from ottla.cli.perf.deprecated import use_new_name
from ottla.cli.perf.java_dates import DateFormat
from ottla.cli.perf.java_format import decimal, metric_lines, metrics_as_json, ratio
from ottla.client.consumer.share.share_consumer import KafkaShareConsumer
from ottla.clock import now_ms

CLIENT_ID: Final = "perf-share-consumer-client"
GROUP: Final = "perf-share-consumer"
RATES: Final = "data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg"
HEADER: Final = f"start.time, end.time, {RATES}, fetch.time.ms"
DETAILED_HEADER: Final = f"time, {RATES}"


class Totals:
    """The totals of all share consumers. `limit` is the number of records to read. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.records = self.size = 0
        self.last = now_ms()
        self._limit = limit
        self._lock = threading.Lock()

    @property
    def is_complete(self) -> bool:
        """Whether at least `limit` records have been read."""
        return self.records >= self._limit

    def add(self, records: int, size: int) -> None:
        """Add the records of a poll: their number, and the size of their keys and values in bytes."""
        with self._lock:
            self.records += records
            self.size += size
            self.last = now_ms()


def run(args: argparse.Namespace) -> int:
    """Run the test, and print the throughput. If fewer records than requested arrive, print a warning; with `--json`,
    print none.
    """
    for old, new in OLD_NAMES:
        if use_new_name(args, old, new) and not args.json:
            print(f"Warning: {old} is deprecated. Use {new} instead.")
    check_positive(args, "num_records", "threads", "fetch_size", "socket_buffer_size", "timeout", "reporting_interval")
    dates = DateFormat(args.date_format, "--date-format")
    if not args.hide_header and not args.json:
        print(DETAILED_HEADER if args.show_detailed_stats else HEADER, flush=True)
    totals, begin = Totals(args.num_records), now_ms()
    with ThreadPoolExecutor(args.threads) as threads:
        members = [threads.submit(_read, args, totals) for _ in range(args.threads)]
        if args.show_detailed_stats and not args.json:
            _report_intervals(members, totals, args, dates)
        metrics = [member.result() for member in members]
    if args.json:
        _report_as_json(args, totals, begin, metrics)
        return 0
    _report(args, totals, begin, dates)
    if args.print_metrics:
        print("\n".join(line for each in metrics for line in metric_lines(each)))
    return 0


def _read(args: argparse.Namespace, totals: Totals) -> dict[Any, Any]:
    """Read with one share consumer until there are enough records, or none has arrived at any consumer for `--timeout`
    milliseconds. Return the consumer's metrics.
    """
    with KafkaShareConsumer(args.topic, _options(args)) as consumer:
        while not totals.is_complete and now_ms() - totals.last <= args.timeout:
            for batch in consumer.poll(POLL_MS).values():
                totals.add(len(batch), sum(len(r.key or b"") + len(r.value or b"") for r in batch))
        consumer.commit()
        return consumer.metrics(raw=True)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options = without_serialization(client_options(args, args.command_property))  # bytes are counted
    options["group.id"] = args.group
    options.setdefault("client.id", CLIENT_ID)
    options.setdefault("max.partition.fetch.bytes", args.fetch_size)
    options.setdefault("receive.buffer.bytes", args.socket_buffer_size)
    options.setdefault("check.crcs", False)
    return options


def _report_intervals(members: list[Any], totals: Totals, args: argparse.Namespace, dates: DateFormat) -> None:
    """Print a line at each interval, until all members have ended."""
    done = threading.Event()

    def ended(_: object) -> None:
        if all(member.done() for member in members):
            done.set()

    for member in members:
        member.add_done_callback(ended)
    at, records, size = now_ms(), 0, 0
    while not done.wait(args.reporting_interval / 1000):
        now, new_records, new_size = now_ms(), totals.records, totals.size
        seconds = (now - at) / 1000
        rates = (decimal((new_size - size) / MIB / seconds, 4), decimal((new_records - records) / seconds, 4))
        print(f"{dates.text(now)}, {decimal(new_size / MIB, 4)}, {rates[0]}, {rates[1]}, {new_records}", flush=True)
        at, records, size = now, new_records, new_size


def _report_as_json(args: argparse.Namespace, totals: Totals, begin: int, metrics: list[dict[Any, Any]]) -> None:
    end = totals.last
    fields: dict[str, Any] = {
        "start_time_ms": begin,
        "end_time_ms": end,
        "records": totals.records,
        "bytes": totals.size,
        "records_per_second": totals.records / (end - begin) * 1000 if end != begin else None,
    }
    if args.print_metrics:
        fields["metrics"] = [metrics_as_json(each) for each in metrics]
    print(json.dumps(fields))


def _report(args: argparse.Namespace, totals: Totals, begin: int, dates: DateFormat) -> None:
    end = totals.last
    seconds = (end - begin) / 1000
    if not totals.is_complete:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({args.timeout} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    if not args.show_detailed_stats:
        size = totals.size / MIB
        rates = f"{decimal(ratio(size, seconds), 4)}, {decimal(ratio(totals.records, seconds), 4)}"
        times = f"{dates.text(begin)}, {dates.text(end)}"
        print(f"{times}, {decimal(size, 4)}, {rates}, {totals.records}, {end - begin}")


COMMAND = Command(
    run=run,
    options=(
        *connection(),
        Option("--consumer.config FILE", "same as --command-config (deprecated)"),
        Repeatable("--command-property NAME=VALUE", "a consumer config, such as max.poll.records=100"),
        Option("--topic", "topic to read", required=True),
        OneOf(
            Option("--num-records N", "number of records to read with all share consumers, at least 1", int),
            Option("--messages N", "same as --num-records (deprecated)", int),
        ),
        Option("--group ID", "share group that the consumers join", default=GROUP),
        Option("--threads N", "number of share consumers, each in a separate thread", int, default=1),
        Option(
            "--fetch-size BYTES",
            "value of max.partition.fetch.bytes; no effect, because share consumers do not use it",
            int,
            default=FETCH_BYTES,
        ),
        Option(
            "--socket-buffer-size BYTES",
            "receive.buffer.bytes: size of the socket's receive buffer, unless a file or --command-property sets it",
            int,
            default=SOCKET_BYTES,
        ),
        Option(
            "--timeout MS",
            "stop if no record arrives at any share consumer for this time in milliseconds",
            int,
            nargs="?",
            default=IDLE_MS,
            const=IDLE_MS,
        ),
        Flag("--show-detailed-stats", "print a line every --reporting-interval, in place of the summary"),
        Option(
            "--reporting-interval MS",
            "with --show-detailed-stats: interval between two lines in milliseconds",
            int,
            default=INTERVAL_MS,
        ),
        Option("--date-format PATTERN", "format of times, a pattern of Java's SimpleDateFormat", default=DATES),
        Flag("--hide-header", "do not print the names of the columns"),
        Flag("--print-metrics", "print the consumers' metrics at the end"),
        JSON,
    ),
)
