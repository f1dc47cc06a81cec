"""Partitioners choose the partition of a message with a key; a custom one has `partition(key, num_partitions)`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

_MASK = 0xFFFF_FFFF


class Partitioner(Protocol):
    """Protocol of what partitioner.class names. A class is called with the configs, or without arguments."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return a number from 0 to num_partitions - 1."""
        ...


class DefaultPartitioner:
    """Partitions by the key's Java hash modulo the number of partitions."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition of a key."""
        return java_abs(java_hash(key)) % num_partitions


class ByteArrayPartitioner:
    """Partitions by the key's bytes."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition of a key; raise TypeError unless it is bytes."""
        return java_abs(array_hash(bytes(memoryview(key)))) % num_partitions


PARTITIONERS: Mapping[str, type[Any]] = {
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "kafka.producer.ByteArrayPartitioner": ByteArrayPartitioner,
}
"""Built-in partitioners by their names in Scala."""


def java_hash(key: Any) -> int:
    """Return Java's `hashCode` of a text, number or bytes; other objects have their own `__hash__`.

    Bytes hash by their content. Java's arrays hash by identity, so equal keys would not go to the same partition.
    """
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        return _polynomial((units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)), 0)
    if isinstance(key, (bytes, bytearray, memoryview)):
        return array_hash(bytes(key))
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int):
        return _signed(key if -0x8000_0000 <= key <= 0x7FFF_FFFF else key ^ ((key & 0xFFFF_FFFF_FFFF_FFFF) >> 32))
    if isinstance(key, float):
        (bits,) = struct.unpack(">q", struct.pack(">d", key))
        return _signed(bits ^ ((bits & 0xFFFF_FFFF_FFFF_FFFF) >> 32))
    return _signed(hash(key))


def array_hash(data: bytes) -> int:
    """Return Java's `Arrays.hashCode(byte[])`."""
    return _polynomial((byte - 256 if byte > 127 else byte for byte in data), 1)


def java_abs(number: int) -> int:
    """Return Kafka's `Utils.abs`: the smallest int, which has no positive counterpart, becomes 0."""
    return 0 if number == -0x8000_0000 else abs(number)


def _polynomial(parts: Any, start: int) -> int:
    result = start
    for part in parts:
        result = (31 * result + part) & _MASK
    return _signed(result)


def _signed(number: int) -> int:
    number &= _MASK
    return number - 0x1_0000_0000 if number > 0x7FFF_FFFF else number
