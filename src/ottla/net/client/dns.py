"""DNS lookups: the addresses of hosts, and the canonical names of addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any


def is_known(host: str) -> bool:
    """Return whether a host can be resolved to an address. Blocks during the DNS lookup."""
    try:
        return bool(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, ValueError):
        return False


async def addresses_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[socket.AddressFamily, Any]]:
    """Return all addresses of a host, with their families. Raises OSError if it has none, or the port is invalid."""
    if not 0 <= port < 1 << 16:
        raise OSError(f"{port} is not a port number")
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        try:
            results = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except ValueError:  # for example, an empty part between two dots
            raise socket.gaierror(socket.EAI_NONAME, "the host name is malformed") from None
        return [(family, address) for family, _, _, _, address in results]
    # an IP address needs no lookup, and so no thread
    return [(socket.AF_INET if ip.version == 4 else socket.AF_INET6, (host, port))]


async def canonical_names_of(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    """Return the canonical names of a host's addresses, without duplicates; an address itself if it has no name.

    Raises OSError if the host has no address.
    """
    names: dict[str, None] = {}
    for _, address in await addresses_of(loop, host, port):
        name, _ = await loop.getnameinfo(address)
        names[name] = None
    return list(names)
