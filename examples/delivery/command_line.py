"""What the examples have in common: their arguments, and an orderly end at SIGTERM."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any, NoReturn


def parser(description: str | None) -> argparse.ArgumentParser:
    """Where to read from, and as whom."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--bootstrap-server", default="localhost:9092", help="default: localhost:9092")
    made.add_argument("--topic", required=True, help="the topic to read")
    made.add_argument("--group", default="delivery", help="the consumer group; default: delivery")
    made.add_argument("--session-timeout-ms", type=int, default=45_000, help="after which a dead member is dropped")
    return made


def group_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a consumer that every example sets."""
    return {
        "bootstrap_servers": arguments.bootstrap_server,
        "group_id": arguments.group,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": arguments.session_timeout_ms,
        "heartbeat_interval_ms": min(3000, arguments.session_timeout_ms // 3),
    }


def end_at_sigterm() -> None:
    """SIGTERM ends the program as Ctrl+C does: `with` blocks close what they have opened."""

    def leave(number: int, frame: object) -> NoReturn:
        sys.exit(0)

    signal.signal(signal.SIGTERM, leave)
