"""Start one broker, as kafka-server-start.sh does.

Without arguments it is a standalone broker on 127.0.0.1:9092 with its data in ./ottla-data. Stop it with Ctrl+C or
SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import sys
import time

from ottla.broker.main import BrokerNode
from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Option, Repeatable
from ottla.cli.framework.signals import heeded_signals
from ottla.config import properties
from ottla.config.broker import BrokerConfig
from ottla.errors import KafkaError

LOG_LEVELS = ("debug", "info", "warning", "error")


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; returns 1 if the broker cannot start."""
    started = time.perf_counter()
    _allow_files()
    logging.basicConfig(level=args.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        configs = properties.load(args.properties) if args.properties else {}
        configs.update(properties.override(text) for text in args.override)
        node = BrokerNode(BrokerConfig.from_kafka(configs))
        return asyncio.run(_serve(node, started))
    except KafkaError as error:
        print(f"ottla broker: {error}", file=sys.stderr)
        return 1


def _allow_files() -> None:
    """Raise the limit of open files to its maximum, as a JVM does: the usual 1,024 are few for a broker."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve(node: BrokerNode, started: float) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in heeded_signals():
        loop.add_signal_handler(number, stopping.set)
    await node.start()
    took = (time.perf_counter() - started) * 1000
    addresses = ", ".join(map(str, node.endpoints))
    data = ", ".join(node.config.data_dirs)
    print(
        f"ottla broker {node.broker_id} is ready: {addresses}, data in {data}, {took:.0f} ms",
        file=sys.stderr,
        flush=True,
    )
    ends = [asyncio.ensure_future(event.wait()) for event in (stopping, node.failed)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    failed = node.failed.is_set()
    for end in ends:
        end.cancel()
    await node.stop()
    if failed:
        print(f"ottla broker: {node.failure}; the broker has stopped", file=sys.stderr)
    return int(failed)


COMMAND = Command(
    run=run,
    options=(
        Option("properties server.properties", "properties file with broker configs", nargs="?"),
        Repeatable("--override NAME=VALUE", "broker config that overrides the file"),
        Option("--log-level", "lowest level that is logged (warning)", choices=LOG_LEVELS, default="warning"),
    ),
)
