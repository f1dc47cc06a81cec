"""Copy topics between clusters, with configs, ACLs and offsets of groups: connect-mirror-maker.sh, without Connect.

The properties file is that of MirrorMaker 2:

    clusters = A, B
    A.bootstrap.servers = a1:9092
    B.bootstrap.servers = b1:9092
    A->B.enabled = true
    A->B.topics = visits, orders.*

By default, records are copied exactly once if the target supports transactions. After SIGTERM or Ctrl+C, the command
completes the transaction that it is writing, and ends. docs/mirroring.md describes the options.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, Final

from ottla import log_output
from ottla.cli.framework.command import Command
from ottla.cli.framework.options import JSON, Option
from ottla.cli.framework.signals import stopping
from ottla.config import properties
from ottla.config.options import number

if TYPE_CHECKING:
    from ottla.mirror.mirror_maker import MirrorMaker

LOG_LEVELS: Final = ("debug", "info", "warning", "error")


def run(args: argparse.Namespace) -> int:
    """Mirror until a signal arrives, and return 128 plus its number. Raises ConfigurationError for invalid properties
    or clusters, or the error of the first flow that fails.
    """
    from ottla.mirror.flow_config import MirrorProperties

    log_output.configure(log_output.LogOptions(args.log_level, "json" if args.json else "text"))
    try:
        return asyncio.run(_run(MirrorProperties(properties.load(args.properties)), args))
    finally:
        log_output.close()


async def _run(mirror_properties: Any, args: argparse.Namespace) -> int:
    from ottla.mirror.mirror_maker import MirrorMaker

    maker = MirrorMaker(mirror_properties, args.clusters)
    loop = asyncio.get_running_loop()
    reports = asyncio.create_task(_report(maker, args))

    def end() -> None:
        loop.call_soon_threadsafe(maker.stop)

    with stopping(end) as stop:
        try:
            await maker.run()
        finally:
            reports.cancel()
    return stop.exit_code


async def _report(maker: MirrorMaker, args: argparse.Namespace) -> None:
    """Print the progress of each enabled flow every `--report-interval` seconds, until the task is cancelled."""
    flows = [flow for flow in maker.flows if flow.flow.config.enabled]
    before = [(0, 0)] * len(flows)
    last = time.monotonic()
    while True:
        await asyncio.sleep(args.report_interval)
        seconds, last = time.monotonic() - last, time.monotonic()
        for i, flow in enumerate(flows):
            progress = flow.progress
            fields = {
                "flow": str(flow.flow.name),
                "records_per_second": round((progress.records - before[i][0]) / seconds, 1),
                "bytes_per_second": round((progress.bytes - before[i][1]) / seconds, 1),
                "lag": progress.lag,
                "records": progress.records,
                "partitions": len(flow.topics.partitions),
            }
            before[i] = progress.records, progress.bytes
            print(json.dumps(fields) if args.json else _line(fields), flush=True)


def _line(fields: dict[str, Any]) -> str:
    lag = "-" if fields["lag"] is None else f"{fields['lag']:,}"
    megabytes = fields["bytes_per_second"] / 1_000_000
    return (
        f"{fields['flow']}: {fields['records_per_second']:,.0f} records/s, {megabytes:,.2f} MB/s, lag {lag}, "
        f"{fields['records']:,} records of {fields['partitions']} partitions"
    )


COMMAND = Command(
    options=(
        Option("properties FILE", "properties file of MirrorMaker 2"),
        Option(
            "--clusters ALIAS",
            "aliases of the clusters to copy to (default: all targets in the file)",
            nargs="+",
            default=[],
        ),
        Option(
            "--report-interval SECONDS",
            "interval in seconds between progress reports, at least 0.1",
            number(0.1),
            default=5.0,
        ),
        Option(
            "--log-level",
            "least severe level that is logged: debug, info, warning or error",
            choices=LOG_LEVELS,
            default="info",
        ),
        JSON,
    ),
    run=run,
)
