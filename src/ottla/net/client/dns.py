"""Host names: the addresses behind one, and the names behind those."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any


def is_known(host: str) -> bool:
    """Whether a host has an address. Waits for the name service; for who has nothing else to do."""
    try:
        return bool(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except OSError:
        return False


async def addresses_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Every address of a host. OSError when it has none."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in results]
    # No look-up, and so no thread, for what is an address already.
    return [(socket.AF_INET if ip.version == 4 else socket.AF_INET6, (host, port))]


async def canonical_names_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    """The name of each address of a host (the address itself where it has none), each once."""
    names: dict[str, None] = {}
    for _, address in await addresses_of(loop, host, port):
        name, _ = await loop.getnameinfo(address)
        names[name] = None
    return list(names)
