"""Partitioners. Kafka's `BuiltInPartitioner` and `RoundRobinPartitioner`.

The partition of a key follows from its hash, as in Java. Records without a key are sent to one partition until
batch.size bytes have been sent to it. Then a random one is chosen; with partitioner.adaptive.partitioning.enable, the
longer a partition's queue, the less likely it is, so that slow brokers get fewer records (KIP-794).
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.records.murmur2 import murmur2

MAX_COMPARED: Final = 16
"""Maximum number of partitions whose queue lengths are compared."""


def partition_for_key(key: bytes, count: int) -> int:
    """Return the partition of a key in a topic of `count` partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def choose_partition(available: Sequence[int], queued: Callable[[int], int] | None) -> int:
    """Return a random partition. `queued` returns the length of a partition's queue, which makes partitions with
    shorter queues more likely; None: all are equally likely.

    If there are many partitions, only a sample is compared, so that the cost per batch does not grow with the topic.
    """
    if queued is None:
        return random.choice(available)
    compared = available if len(available) <= MAX_COMPARED else random.choices(available, k=MAX_COMPARED)
    lengths = [queued(partition) for partition in compared]
    most = max(lengths)
    return random.choices(compared, [most + 1 - length for length in lengths])[0]


class RoundRobin:
    """Selects the partitions of a topic in turn, regardless of the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, available: Sequence[int]) -> int:
        """Return the next of the available partitions of a topic."""
        turn = self._next.get(topic, -1) + 1
        self._next[topic] = turn
        return available[turn % len(available)]


class PartitionRequest(NamedTuple):
    """A record whose partition the application chooses, before and after serialization, and the topic's partitions."""

    topic: str
    key: Any
    key_bytes: bytes | None
    value: Any
    value_bytes: bytes | None
    partitions: Sequence[int]
    available: Sequence[int]
    """The partitions that have a leader; all partitions if none has one."""
    cluster: Any


class UserPartitioner:
    """A partitioner of the application. It has one of three forms: a function `(key, partitions, available)` as in
    kafka-python, a method `partition(topic, key, partitions)`, or Java's `partition(topic, key, key_bytes, value,
    value_bytes, cluster)`.

    The methods `configure`, `close` and `on_new_batch(topic, cluster, previous_partition)` (Java's before Kafka 4) are
    optional.
    """

    def __init__(self, partitioner: Any, configs: Mapping[str, Any]) -> None:
        self._partitioner = partitioner() if isinstance(partitioner, type) else partitioner
        self._method = getattr(self._partitioner, "partition", None)
        self._is_javas = self._method is not None and _parameters(self._method) >= JAVAS_PARAMETERS
        self._on_new_batch = getattr(self._partitioner, "on_new_batch", None)
        self._call("configure", configs)

    def partition(self, request: PartitionRequest) -> int:
        """Return the partition of a record. Raises ValueError if the partitioner returns one that does not exist."""
        if self._method is None:
            chosen = self._partitioner(request.key_bytes, request.partitions, request.available)
        elif self._is_javas:
            chosen = self._method(
                request.topic, request.key, request.key_bytes, request.value, request.value_bytes, request.cluster
            )
        else:
            chosen = self._method(request.topic, request.key_bytes, request.partitions)
        if isinstance(chosen, bool) or not isinstance(chosen, int) or chosen not in request.partitions:
            last = len(request.partitions) - 1
            raise ValueError(f"the partitioner returned {chosen!r}, topic {request.topic} has partitions 0 to {last}")
        return chosen

    def partition_for_new_batch(self, request: PartitionRequest, previous: int) -> int:
        """Return the partition of a record if a new batch would be needed in `previous`: `on_new_batch` lets the
        partitioner choose again.
        """
        if self._on_new_batch is None:
            return previous
        self._on_new_batch(request.topic, request.cluster, previous)
        return self.partition(request)

    def close(self) -> None:
        """Call the partitioner's close(), if it has one."""
        self._call("close")

    def _call(self, method: str, *args: Any) -> None:
        function = getattr(self._partitioner, method, None)
        if function is not None:
            function(*args)


JAVAS_PARAMETERS: Final = 6


def _parameters(method: Any) -> int:
    try:
        return len(inspect.signature(method).parameters)
    except (TypeError, ValueError):  # not written in Python
        return 0
