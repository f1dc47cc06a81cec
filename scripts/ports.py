"""Ports on loopback that nobody uses, for servers of tests and benchmarks."""

from __future__ import annotations

import contextlib
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
