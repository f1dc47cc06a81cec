"""IP addresses in one canonical form, so that ACLs and quotas can compare them as strings. It is the form of Java's
`InetAddress.getHostAddress`.

The address of an IPv4 client on an IPv6 socket becomes the IPv4 address (10.0.0.1, not ::ffff:10.0.0.1). An IPv6
address has eight groups without `::` (0:0:0:0:0:0:0:1, not ::1).
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

IPV4_MAPPED: Final = bytes(10) + b"\xff\xff"


def canonical(text: str) -> str | None:
    """Return the canonical form of an IPv4 or IPv6 address, which may be in brackets; an IPv6 address may have a scope
    (`%eth0`). Return None if the text is not an IP address.
    """
    text = text.strip().removeprefix("[").removesuffix("]")
    address, percent, scope = text.partition("%")
    try:
        if ":" not in address:
            return socket.inet_ntoa(socket.inet_pton(socket.AF_INET, text))
        packed = socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return None
    if packed.startswith(IPV4_MAPPED):
        return socket.inet_ntoa(packed[12:])
    return ":".join(f"{group:x}" for group in struct.unpack(">8H", packed)) + percent + scope


def host_and_port(host: str, port: int) -> str:
    """Return `host:port`, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or localhost."""
    address = canonical(host)
    return host == "localhost" if address is None else address.startswith("127.") or address == "0:0:0:0:0:0:0:1"


def canonical_or_same(text: str) -> str:
    """Return the canonical form of an IP address; return any other text (such as `*` or a host name) unchanged."""
    return canonical(text) or text


def of_peer(address: tuple[Any, ...]) -> str:
    """Return the canonical IP address of a socket address, such as `accept()` returns."""
    host = str(address[0])
    scope = address[3] if len(address) > 3 else 0
    return canonical_or_same(host.partition("%")[0] + (f"%{scope}" if scope else ""))


def resolved(text: str) -> str:
    """Return the canonical form of an IP address, or the first IP address of a host name. Raises ValueError if the name
    cannot be resolved.
    """
    address = canonical(text)
    if address is not None:
        return address
    try:
        return of_peer(socket.getaddrinfo(text.strip(), None, type=socket.SOCK_STREAM)[0][4])
    except OSError as error:
        raise ValueError(
            f"{text!r} is not an IP address, and cannot be resolved as a host name ({error.strerror})"
        ) from None
