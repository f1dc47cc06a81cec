"""Ports on loopback for servers that are started by name: local clusters, demos, tests.

A port that the kernel chooses (bind to 0) comes from the range that it also takes for outgoing connections, so that
between choosing it and the server's bind, or while the server restarts, any connection may be given it. Ports below
that range are taken only by who asks for them.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

LOWEST = 15_000
"""Below are the ports of well-known servers."""
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_FROM = 32_768
"""Where Linux begins unless told otherwise; macOS, Windows and the BSDs begin higher."""
TRIES = 1000

_chance = random.SystemRandom()  # not the shared generator: a seed would make all processes choose the same


def free_port(in_a_row: int = 1) -> int:
    """The first of so many ports in a row that nobody listens on now. OSError where none is found."""
    for _ in range(TRIES):
        first = _candidate(in_a_row)
        with suppress(OSError), ExitStack() as held:
            port = _bind(held, first)
            for further in range(port + 1, port + in_a_row):
                _bind(held, further)
            return port
    raise OSError(f"no {in_a_row} free ports in a row on 127.0.0.1 in {TRIES} tries")


def _candidate(in_a_row: int) -> int:
    """0, the kernel's choice, where it takes outgoing ports from nearly everywhere."""
    end = outgoing_from(OUTGOING) - in_a_row
    return _chance.randrange(LOWEST, end) if end > LOWEST else 0


@cache
def outgoing_from(path: Path) -> int:
    """The first port that the kernel may take for an outgoing connection."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return OUTGOING_FROM


def _bind(held: ExitStack, port: int) -> int:
    sock = held.enter_context(socket.socket())
    sock.bind(("127.0.0.1", port))
    bound: int = sock.getsockname()[1]
    return bound
