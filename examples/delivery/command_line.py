"""Shared by the examples: command-line arguments, and a clean end at SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any, NoReturn


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return the parser of the arguments: brokers, topic and consumer group."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--bootstrap-server", default="localhost:9092", help="default: localhost:9092")
    result.add_argument("--topic", required=True, help="the topic to read")
    result.add_argument("--group", default="delivery", help="the consumer group; default: delivery")
    result.add_argument("--session-timeout-ms", type=int, default=45_000, help="session.timeout.ms of the member")
    return result


def group_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the consumer options that all examples set."""
    return {
        "bootstrap_servers": arguments.bootstrap_server,
        "group_id": arguments.group,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": arguments.session_timeout_ms,
        "heartbeat_interval_ms": min(3000, arguments.session_timeout_ms // 3),
    }


def end_at_sigterm() -> None:
    """End the program at SIGTERM as at Ctrl+C: `with` blocks close their clients."""

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
