"""Ports on loopback that nobody uses, for servers of tests and benchmarks."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def free_ports() -> int:
    """The first of two ports in a row that are free now: Kafka's controller listens on the second."""
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second, contextlib.suppress(OSError):
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            second.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two free ports in a row")


OUTGOING_FROM = 32_768
"""Linux takes ports from here on for connections that somebody makes."""


def steady_port() -> int:
    """A free port that stays free while its server is down: no connection takes it meanwhile."""
    for _ in range(100):
        port = random.randrange(15_000, OUTGOING_FROM)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no free port")
