"""Which partition a record goes to. Kafka's `BuiltInPartitioner` and `RoundRobinPartitioner`.

A key goes where its hash says, as in Java. Without a key, records stay with one partition until a batch's worth of
bytes has gone there (KIP-480); then another one is chosen, and those with a longer queue less often (KIP-794), so that
a slow broker gets less.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.records.murmur2 import murmur2

CustomPartitioner = Callable[[bytes | None, list[int], list[int]], int]
"""kafka-python's: (serialized key, all partitions, those with a leader) -> partition."""
MAX_COMPARED: Final = 16
"""Partitions whose queues are compared when one of them is chosen."""


def partition_for_key(key: bytes, count: int) -> int:
    """The partition of a key among `count`."""
    return (murmur2(key) & 0x7FFFFFFF) % count


class StickyPartition:
    """The partition of one topic where records without a key go at present."""

    __slots__ = ("partition", "produced", "stick_bytes")

    def __init__(self, stick_bytes: int) -> None:
        self.partition = -1
        self.produced = 0
        self.stick_bytes = max(1, stick_bytes)

    def next(self, size: int, choose: Callable[[], int]) -> int:
        """The partition for a record of `size` bytes; `choose` picks another one when it is time."""
        if self.partition < 0 or self.produced >= self.stick_bytes:
            self.partition = choose()
            self.produced = 0
        self.produced += size
        return self.partition


def choose_partition(available: Sequence[int], queued: Callable[[int], int] | None) -> int:
    """One of the available partitions by chance; with `queued`, a queue's length, shorter ones more often.

    Of many partitions only some are compared: a topic's width must not cost time for every batch.
    """
    if queued is None:
        return random.choice(available)
    compared = available if len(available) <= MAX_COMPARED else random.choices(available, k=MAX_COMPARED)
    lengths = [queued(partition) for partition in compared]
    most = max(lengths)
    return random.choices(compared, [most + 1 - length for length in lengths])[0]


class RoundRobin:
    """Every topic's partitions in turn, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, available: Sequence[int]) -> int:
        """The next one."""
        turn = self._next.get(topic, -1) + 1
        self._next[topic] = turn
        return available[turn % len(available)]


def ask_custom(partitioner: Any, topic: str, key: bytes | None, partitions: list[int], available: list[int]) -> int:
    """A user's partitioner: Java's `partition(topic, key, partitions)` method or kafka-python's function."""
    method = getattr(partitioner, "partition", None)
    chosen = method(topic, key, partitions) if method is not None else partitioner(key, partitions, available)
    if isinstance(chosen, bool) or not isinstance(chosen, int) or chosen not in partitions:
        raise ValueError(f"the partitioner chose {chosen!r}, topic {topic} has partitions 0 to {len(partitions) - 1}")
    return chosen
