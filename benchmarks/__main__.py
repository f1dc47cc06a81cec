"""The benchmarks: one command for all suites.

python -m benchmarks [--quick] [--save]     broker, clients and Spark, one after the other
python -m benchmarks SUITE …                one suite; `python -m benchmarks SUITE --help` has its options
python -m benchmarks --against DIR          this checkout and another one, as the suite broker
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Suite(NamedTuple):
    """A module of this package with `main(argv)`."""

    module: str
    summary: str
    quick: tuple[str, ...] = ()
    """Options of a quick run."""


SUITES: dict[str, Suite] = {
    "broker": Suite("broker", "Ottla and Apache Kafka: start, throughput, latency, backlog, connections", ("--quick",)),
    "clients": Suite("clients", "the clients and their peers, CPU per record", ("--records=200000", "--rounds=1")),
    "spark": Suite(
        "spark",
        "Spark's jobs over Ottla's source and sink and over the connector",
        ("--records=1000000", "--repeats=1", "--warm-ups=1"),
    ),
    "floors": Suite("floors", "the cost of system calls and CRC on this machine, below which no broker gets"),
    "stalls": Suite("stalls", "the latency of a client while others keep the disk busy", ("--quick", "--repeats=1")),
    "cores": Suite("cores", "the throughput of a node over its number of brokers"),
    "cluster": Suite("cluster", "memory, CPU and failover over partitions and brokers"),
    "failover": Suite("failover", "the time without a leader after a fault"),
    "controller": Suite("controller", "the requests of a controller of many partitions"),
    "console": Suite("console", "the time of each page of the console on 10,000 topics"),
    "tables": Suite(
        "tables", "a topic as an Iceberg table: CPU beside a consumer and Spark, freshness, equality after kills"
    ),
    "tiered": Suite("tiered", "reading records in the object store, and the latency of others meanwhile"),
    "report": Suite("report", "docs/performance.md with its charts, from the saved results"),
}
DEFAULT = ("floors", "broker", "clients", "spark")
SAVES = ("floors", "broker", "clients", "spark")


def main(argv: Sequence[str]) -> int:
    """Run a suite, or the usual ones."""
    if argv and argv[0] in SUITES:
        return run(argv[0], argv[1:])
    if any(argument.startswith("--against") for argument in argv):
        return run("broker", argv)
    listed = "\n".join(f"    {name:<12}{suite.summary}" for name, suite in SUITES.items())
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=f"{__doc__}\nsuites:\n\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small loads: minutes")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results and rows of the history")
    args = parser.parse_args(argv)
    code = 0
    for name in DEFAULT:
        print(f"\n== {name}", flush=True)
        options = [*(SUITES[name].quick if args.quick else ()), *(["--save"] if args.save else [])]
        code = run(name, options) or code
    return code


def run(name: str, options: Sequence[str]) -> int:
    """Run one suite."""
    return int(importlib.import_module(f"benchmarks.{SUITES[name].module}").main(list(options)) or 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
