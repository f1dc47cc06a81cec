"""Offsets committed in open transactions: they become visible with the COMMIT marker, or never.

A commit that is later in the log wins over an earlier one, in whatever order their transactions end: compaction would
leave only the later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.records import CommittedOffset


class OpenTransaction(NamedTuple):
    """One producer's transaction in one partition of `__consumer_offsets`."""

    partition: int
    producer_id: int


class OffsetKey(NamedTuple):
    """The group and partition of an offset."""

    group_id: str
    tp: TopicPartition


class PendingOffsets:
    """The pending offsets of one coordinator. Bounded, as a timeout ends each transaction."""

    def __init__(self) -> None:
        self._by_transaction: dict[OpenTransaction, dict[OffsetKey, CommittedOffset | None]] = {}
        self._by_key: dict[OffsetKey, list[OpenTransaction]] = {}
        """Transactions with an offset for the key, in the order of the log."""

    def add(self, transaction: OpenTransaction, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self._by_transaction.setdefault(transaction, {})[key] = committed
        waiting = self._by_key.setdefault(key, [])
        if transaction in waiting:
            waiting.remove(transaction)
        waiting.append(transaction)

    def end(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """End a transaction. Return its offsets, without those that a later commit has superseded."""
        ended = self._by_transaction.pop(transaction, {})
        for key in ended:
            self._by_key[key].remove(transaction)
            if not self._by_key[key]:
                del self._by_key[key]
        return ended

    def commit(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """End a transaction that is committed; pending offsets before it in the log are superseded."""
        for key in self._by_transaction.get(transaction, ()):
            earlier = self._by_key[key]
            for beaten in earlier[: earlier.index(transaction)]:
                self._drop(beaten, key)
        return self.end(transaction)

    def supersede(self, key: OffsetKey) -> None:
        """Drop pending offsets of a key that was committed or deleted outside of transactions."""
        for transaction in list(self._by_key.get(key, ())):
            self._drop(transaction, key)

    def drop(self, partition: int) -> None:
        for transaction in [t for t in self._by_transaction if t.partition == partition]:
            self.end(transaction)

    def has(self, group_id: str, tp: TopicPartition) -> bool:
        """Return whether an offset may change when a transaction ends."""
        return OffsetKey(group_id, tp) in self._by_key

    def of_group(self, group_id: str) -> Iterator[TopicPartition]:
        """Return the partitions for which a group has pending offsets."""
        return (key.tp for key in self._by_key if key.group_id == group_id)

    def _drop(self, transaction: OpenTransaction, key: OffsetKey) -> None:
        del self._by_transaction[transaction][key]
        self._by_key[key].remove(transaction)
        if not self._by_key[key]:
            del self._by_key[key]
