"""Partitioners choose the partition of a message that has a key; an own one has `partition(key, num_partitions)`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Protocol

_MASK = 0xFFFF_FFFF


class Partitioner(Protocol):
    """What partitioner.class names. The class is called with the options, or with nothing."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """A number from 0 to num_partitions - 1."""
        ...


class DefaultPartitioner:
    """The key's hash, as Java has it, modulo the number of partitions."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """The partition of a key."""
        return java_abs(java_hash(key)) % num_partitions


class ByteArrayPartitioner:
    """The same for keys that are bytes."""

    def partition(self, key: Any, num_partitions: int) -> int:
        """The partition of a key; TypeError for what is no bytes."""
        return java_abs(array_hash(bytes(memoryview(key)))) % num_partitions


PARTITIONERS: Mapping[str, type[Any]] = {
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "kafka.producer.ByteArrayPartitioner": ByteArrayPartitioner,
}
"""Scala's names."""


def java_hash(key: Any) -> int:
    """Java's `hashCode` of texts, numbers and bytes; an object of another class has its own `__hash__`.

    Bytes hash by their content: Java's arrays hash by identity, so that a key would have no partition of its own.
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
    """Java's `Arrays.hashCode(byte[])`."""
    return _polynomial((byte - 256 if byte > 127 else byte for byte in data), 1)


def java_abs(number: int) -> int:
    """Kafka's `Utils.abs`: the smallest int has no positive twin and becomes 0."""
    return 0 if number == -0x8000_0000 else abs(number)


def _polynomial(parts: Any, start: int) -> int:
    result = start
    for part in parts:
        result = (31 * result + part) & _MASK
    return _signed(result)


def _signed(number: int) -> int:
    number &= _MASK
    return number - 0x1_0000_0000 if number > 0x7FFF_FFFF else number
