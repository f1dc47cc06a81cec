"""Host names: their addresses, and the canonical names of those."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any


def is_known(host: str) -> bool:
    """Return whether a host has an address. Blocks for the DNS lookup."""
    try:
        return bool(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return False


async def addresses_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Return every address of a host. Raises OSError if there is none."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in results]
    # an IP address needs no lookup, and so no thread
    return [(socket.AF_INET if ip.version == 4 else socket.AF_INET6, (host, port))]


async def canonical_names_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    """Return the canonical names of a host's addresses (the address itself if it has none), without duplicates."""
    names: dict[str, None] = {}
    for _, address in await addresses_of(loop, host, port):
        name, _ = await loop.getnameinfo(address)
        names[name] = None
    return list(names)
