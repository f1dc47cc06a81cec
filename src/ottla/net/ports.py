"""Free ports on localhost for servers that need a fixed port: local clusters, demos, tests.

A port that the kernel chooses (bind to 0) is in the range of outgoing connections. Any outgoing connection may take it
before the server binds it, or while the server restarts. Ports below that range are taken only by explicit binds.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

LOWEST = 15_000
"""The lowest port that `free_port` chooses, unless the kernel chooses. Most well-known servers use lower ones."""
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_FROM = 32_768
"""The first port of outgoing connections by default in Linux. On macOS and Windows it is higher."""
TRIES = 1000

_returned: set[int] = set()
_chance = random.SystemRandom()  # not the shared generator: with a seed all processes would choose the same ports


def free_port(in_a_row: int = 1) -> int:
    """Return the first of `in_a_row` consecutive ports that are free now. Raises OSError if TRIES tries find none.

    A port that was returned before is avoided as far as possible, because its server may not have bound it yet.
    """
    for attempt in range(TRIES):
        first = _candidate(in_a_row)
        with suppress(OSError), ExitStack() as held:
            port = _bind(held, first)
            ports = range(port, port + in_a_row)
            if attempt < TRIES // 2 and not _returned.isdisjoint(ports):
                continue
            for further in ports[1:]:
                _bind(held, further)
            _returned.update(ports)
            return port
    raise OSError(f"no {in_a_row} free ports in a row on 127.0.0.1 in {TRIES} tries")


def _candidate(in_a_row: int) -> int:
    """Return a random port to try; 0 (the kernel chooses) if the range of outgoing connections leaves none."""
    end = outgoing_from(OUTGOING) - in_a_row
    return _chance.randrange(LOWEST, end) if end > LOWEST else 0


@cache
def outgoing_from(path: Path) -> int:
    """Return the first port of the range of outgoing connections, which a file in /proc has; OUTGOING_FROM if the file
    cannot be read or is malformed.
    """
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return OUTGOING_FROM


def _bind(held: ExitStack, port: int) -> int:
    sock = held.enter_context(socket.socket())
    sock.bind(("127.0.0.1", port))
    bound: int = sock.getsockname()[1]
    return bound
