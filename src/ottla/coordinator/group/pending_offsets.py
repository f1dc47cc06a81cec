"""Offsets that were committed in open transactions (TxnOffsetCommit).

A COMMIT marker makes them visible, an ABORT marker drops them.

If two committed transactions have an offset of the same group and partition, the offset later in the log wins, in
whatever order the transactions end, because compaction keeps only the later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.records import CommittedOffset


class OpenTransaction(NamedTuple):
    """The open transaction of a producer in one partition of `__consumer_offsets`."""

    partition: int
    producer_id: int


class OffsetKey(NamedTuple):
    """The group and the partition that an offset was committed for."""

    group_id: str
    tp: TopicPartition


class PendingOffsets:
    """The pending offsets of one coordinator, by transaction."""

    def __init__(self) -> None:
        self._by_transaction: dict[OpenTransaction, dict[OffsetKey, CommittedOffset | None]] = {}
        self._by_group: dict[str, dict[TopicPartition, list[OpenTransaction]]] = {}
        """The transactions with a pending offset of each group and partition, in the order of the log."""

    def __len__(self) -> int:
        """Return the number of open transactions in which offsets were committed."""
        return len(self._by_transaction)

    def add(self, transaction: OpenTransaction, key: OffsetKey, committed: CommittedOffset | None) -> None:
        self._by_transaction.setdefault(transaction, {})[key] = committed
        waiting = self._by_group.setdefault(key.group_id, {}).setdefault(key.tp, [])
        if transaction in waiting:
            waiting.remove(transaction)
        waiting.append(transaction)

    def end(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """End a transaction, and return its offsets that no later commit or deletion has superseded."""
        ended = self._by_transaction.pop(transaction, {})
        for key in ended:
            self._remove(transaction, key)
        return ended

    def commit(self, transaction: OpenTransaction) -> dict[OffsetKey, CommittedOffset | None]:
        """End a transaction by a commit, and return its offsets like `end`.

        They supersede the pending offsets of the same keys that are before them in the log.
        """
        for key in self._by_transaction.get(transaction, ()):
            earlier = self._by_group[key.group_id][key.tp]
            for beaten in earlier[: earlier.index(transaction)]:
                self._drop(beaten, key)
        return self.end(transaction)

    def supersede(self, key: OffsetKey) -> None:
        """Drop all pending offsets of a key, because its offset was committed or deleted outside a transaction."""
        for transaction in list(self._by_group.get(key.group_id, {}).get(key.tp, ())):
            self._drop(transaction, key)

    def drop(self, partition: int) -> None:
        for transaction in [t for t in self._by_transaction if t.partition == partition]:
            self.end(transaction)

    def has(self, group_id: str, tp: TopicPartition) -> bool:
        """Return whether there is a pending offset, which may replace the committed one when its transaction ends."""
        return tp in self._by_group.get(group_id, ())

    def of_group(self, group_id: str) -> Iterator[TopicPartition]:
        """Yield the partitions for which a group has pending offsets."""
        return iter(self._by_group.get(group_id, ()))

    def _drop(self, transaction: OpenTransaction, key: OffsetKey) -> None:
        del self._by_transaction[transaction][key]
        self._remove(transaction, key)

    def _remove(self, transaction: OpenTransaction, key: OffsetKey) -> None:
        partitions = self._by_group[key.group_id]
        partitions[key.tp].remove(transaction)
        if not partitions[key.tp]:
            del partitions[key.tp]
        if not partitions:
            del self._by_group[key.group_id]
