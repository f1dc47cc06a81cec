"""Offsets committed in transactions that are still open: they count with the marker that commits, or not at all.

A commit that lies later in the log beats one before it, whatever order their transactions end in: so it does when
compaction has left only the later one.
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
    """Whose offset of what."""

    group_id: str
    tp: TopicPartition


class PendingOffsets:
    """The pending offsets of one coordinator. Bounded by what is open: a transaction's timeout ends it."""

    def __init__(self) -> None:
        self._by_transaction: dict[OpenTransaction, dict[OffsetKey, CommittedOffset | None]] = {}
        self._by_key: dict[OffsetKey, list[OpenTransaction]] = {}
        """Transactions with an offset for the key, in the order of the log."""

    def add(self, transaction: OpenTransaction, key: OffsetKey, committed: CommittedOffset | None) -> None:
        """A transactional commit is in the log."""
        self._by_transaction.setdefault(transaction, {})[key] = committed
        waiting = self._by_key.setdefault(key, [])
        if transaction in waiting:
            waiting.remove(transaction)
        waiting.append(transaction)

    def end(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """A transaction has its marker: its offsets, those left out that a later commit beats. They pend no more."""
        ended = self._by_transaction.pop(transaction, {})
        for key in ended:
            self._by_key[key].remove(transaction)
            if not self._by_key[key]:
                del self._by_key[key]
        return ended

    def commit(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """`end` for one that is committed: what lies before its offsets in the log counts no more."""
        for key in self._by_transaction.get(transaction, ()):
            earlier = self._by_key[key]
            for beaten in earlier[: earlier.index(transaction)]:
                self._drop(beaten, key)
        return self.end(transaction)

    def supersede(self, key: OffsetKey) -> None:
        """An offset was committed, or taken back, outside of transactions: those that pend lie before it."""
        for transaction in list(self._by_key.get(key, ())):
            self._drop(transaction, key)

    def drop(self, partition: int) -> None:
        """The partition is coordinated elsewhere."""
        for transaction in [t for t in self._by_transaction if t.partition == partition]:
            self.end(transaction)

    def has(self, group_id: str, tp: TopicPartition) -> bool:
        """Whether an offset may still change with the end of a transaction."""
        return OffsetKey(group_id, tp) in self._by_key

    def of_group(self, group_id: str) -> Iterator[TopicPartition]:
        """The partitions that a group has pending offsets of."""
        return (key.tp for key in self._by_key if key.group_id == group_id)

    def _drop(self, transaction: OpenTransaction, key: OffsetKey) -> None:
        del self._by_transaction[transaction][key]
        self._by_key[key].remove(transaction)
        if not self._by_key[key]:
            del self._by_key[key]
