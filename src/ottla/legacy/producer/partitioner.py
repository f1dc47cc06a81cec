"""Partitioners choose the partitions of messages with a key. A custom one needs the method `partition(key,
num_partitions)`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

_MASK = 0xFFFF_FFFF


class Partitioner(Protocol):
    """The protocol of partitioners for partitioner.class: objects, or classes whose constructors take the configs, or
    no argument.
    """

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition for a key: a number from 0 to num_partitions - 1."""
        ...


class DefaultPartitioner:
    """A partitioner that uses the Java hash of the key modulo the number of partitions."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition for a key."""
        return java_abs(java_hash(key)) % num_partitions


class ByteArrayPartitioner:
    """A partitioner for keys of bytes, which uses Java's hash of their content."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the partition for a key. Raises TypeError if it is not bytes-like."""
        return java_abs(array_hash(bytes(memoryview(key)))) % num_partitions


PARTITIONERS: Mapping[str, type[Any]] = {
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "kafka.producer.ByteArrayPartitioner": ByteArrayPartitioner,
}
"""The built-in partitioners by their class names in Scala."""


def java_hash(key: Any) -> int:
    """Return a key's hash as in Java: `hashCode` of String, Boolean, Integer or Long, and Double for str, bool, int and
    float, and `Arrays.hashCode` for bytes, bytearray and memoryview. For other objects, return the lower 32 bits of
    their `hash`, as a signed number.

    In Java, `hashCode` of an array depends on its identity, so that equal keys would be sent to different partitions.
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
    """Return the absolute value like Kafka's `Utils.abs`, which returns 0 for the smallest int, because its absolute
    value is not an int.
    """
    return 0 if number == -0x8000_0000 else abs(number)


def _polynomial(parts: Any, start: int) -> int:
    result = start
    for part in parts:
        result = (31 * result + part) & _MASK
    return _signed(result)


def _signed(number: int) -> int:
    number &= _MASK
    return number - 0x1_0000_0000 if number > 0x7FFF_FFFF else number
