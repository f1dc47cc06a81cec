"""Reads JKS key stores, the default format before Java 9, without a library. For PKCS12 see `contexts`.

A store is a list of entries (a private key with its certificates, or a trusted certificate), followed by a digest of
the entries and the store's password. Keys are encrypted as by the JDK's `KeyProtector`: XOR with a stream of digests.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"
_KEY: Final = 1
_CERTIFICATE: Final = 2
_DIGEST_BYTES: Final = 20
MAX_ENTRIES: Final = 10_000
"""Maximum number of entries. A larger number means that the file is damaged."""


class JavaKeyStore(NamedTuple):
    """The content of a store in DER: encrypted private keys with their certificate chains, and trusted certificates."""

    keys: list[tuple[bytes, list[bytes]]]
    trusted: list[bytes]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store.

    `password`: None to skip the check of the digest. Raises ValueError if the digest does not match, because the store
    is damaged or the password is wrong, or if the store is malformed.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None and hashlib.sha1(_utf16(password) + _WHITENER + body).digest() != digest:
        raise ValueError("the password is wrong, or the file is damaged")
    store = JavaKeyStore([], [])
    try:
        for kind, key, certificates in _entries(memoryview(body)):
            if kind == _KEY:
                store.keys.append((key, certificates))
            else:
                store.trusted.extend(certificates)
    except (struct.error, IndexError):
        raise ValueError("the file ends too early") from None
    return store


def reveal_key(hidden: bytes, password: str) -> bytes:
    """Decrypt a private key, and return it as PKCS#8 in DER.

    Raises ValueError if the password is wrong or the key is damaged.
    """
    try:
        length, start = _der_length(hidden, _algorithm_end(hidden) + 1)
    except IndexError:
        raise ValueError("the key ends too early") from None
    protected = hidden[start : start + length]
    salt, secret, check = protected[:20], protected[20:-20], protected[-20:]
    secret_password = _utf16(password)
    stream, block = b"", salt
    while len(stream) < len(secret):
        block = hashlib.sha1(secret_password + block).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(secret, stream, strict=False))
    if hashlib.sha1(secret_password + plain).digest() != check:
        raise ValueError("the password of the key is wrong")
    return plain


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _algorithm_end(hidden: bytes) -> int:
    """Return the position where the AlgorithmIdentifier of an EncryptedPrivateKeyInfo ends."""
    _, inner = _der_length(hidden, 1)
    length, start = _der_length(hidden, inner + 1)
    return start + length


def _der_length(data: bytes, at: int) -> tuple[int, int]:
    """Return the length of a DER element, and the position at which its content starts."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    size = first & 0x7F
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def _entries(body: memoryview) -> Iterator[tuple[int, bytes, list[bytes]]]:
    version, count = struct.unpack_from(">II", body, 4)
    if version not in (1, 2) or count > MAX_ENTRIES:
        raise ValueError("this is not a JKS key store")
    at = 12
    for _ in range(count):
        (kind,) = struct.unpack_from(">I", body, at)
        _, at = _counted(body, at + 4, ">H")  # the alias
        at += 8  # the creation time
        key = b""
        chain = 1
        if kind == _KEY:
            key, at = _counted(body, at, ">I")
            (chain,) = struct.unpack_from(">I", body, at)
            at += 4
        elif kind != _CERTIFICATE:
            raise ValueError(f"unknown entry type {kind}")
        certificates = []
        for _ in range(min(chain, MAX_ENTRIES)):
            if version == 2:
                _, at = _counted(body, at, ">H")  # X.509
            certificate, at = _counted(body, at, ">I")
            certificates.append(certificate)
        yield kind, key, certificates


def _counted(body: memoryview, at: int, layout: str) -> tuple[bytes, int]:
    """Return length-prefixed bytes, and the position after them. `layout`: struct format of the length."""
    (size,) = struct.unpack_from(layout, body, at)
    start = at + struct.calcsize(layout)
    if start + size > len(body):
        raise ValueError("the file ends too early")
    return bytes(body[start : start + size]), start + size
