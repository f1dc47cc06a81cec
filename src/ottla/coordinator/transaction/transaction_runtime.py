"""The runtime of the transaction coordinator: append decisions, respond, and write markers.

Transactional ids live in the partitions of `__transaction_state` by the hash of the id. The outcome of a transaction
(PrepareCommit, PrepareAbort) is in the log before its first marker is written, so that the partition's next leader
writes the markers again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.image.features import TRANSACTION_VERSION
from ottla.config.broker import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import Producer, to_client_error, wait_committed
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.transaction import transaction_records as records
from ottla.coordinator.transaction import transactions
from ottla.coordinator.transaction.transaction import (
    CLASSIC,
    EPOCH_PER_TRANSACTION,
    PREPARED,
    Transaction,
    TransactionState,
)
from ottla.coordinator.transaction.transaction_completion import TransactionCompleter
from ottla.coordinator.transaction.transaction_markers import Markers
from ottla.model import TRANSACTION_STATE, TopicPartition

log = logging.getLogger("ottla.coordinator")

MAX_TOMBSTONES = 1000
"""Expired ids that are removed with one batch."""
MAX_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction with two-phase commit: another system decides when it ends."""

Decision = Callable[[Transaction | None, int | None], Transaction]
"""Makes the next transaction of the current one, with a new producer id if it needs one."""


class TransactionRuntime(CoordinatorRuntime):
    """The transactional ids of this broker."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        new_producer_id: Callable[[], Awaitable[int]],
        markers: Markers,
    ) -> None:
        super().__init__(TRANSACTION_STATE, config, clock, image)
        self._new_producer_id = new_producer_id
        self.completer = TransactionCompleter(markers, image, self._complete)
        self.by_id: ShardedMap[str, Transaction] = ShardedMap(self._log.partition_for)

    def close(self) -> None:
        """Stop coordinating; the next leader completes the transactions that have ended."""
        super().close()
        self.completer.close()

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of a partition that is being loaded."""
        transactional_id = records.read_key(key)
        if transactional_id is None:
            return
        if value is not None:
            self.by_id[transactional_id] = records.read_transaction(transactional_id, value)
        elif transactional_id in self.by_id:
            del self.by_id[transactional_id]

    def on_loaded(self, index: int) -> None:
        """Complete the transactions of a partition that have ended."""
        for transaction in self.by_id.values_in(index):
            if transaction.state in PREPARED:
                # once the record is committed: what the last leader has written may have reached this replica only
                self.completer.start(transaction, self.shards.partition(index))

    def on_unloaded(self, index: int) -> None:
        """Drop the ids of a partition; its new leader completes the transactions that have ended."""
        for transactional_id in self.by_id.drop(index):
            self.completer.stop(transactional_id)

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id of a transactional id, or -1."""
        return max((transaction.producer_id for transaction in self.by_id.values()), default=-1)

    def coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id, according to the cluster image."""
        return self._log.leader(transactional_id)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id. Raises NotCoordinatorError or CoordinatorLoadInProgressError."""
        self.check(transactional_id)
        return self.by_id.get(transactional_id)

    async def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> Producer:
        """Return the producer id and epoch that a producer uses from now on; older ones are fenced."""
        timeout_ms = self._timeout(timeout_ms, two_phase, keep_prepared)
        request = transactions.InitProducerIdRequestData(transactional_id, timeout_ms, expected)
        now, version = self._clock.now_ms(), self._version()
        after = await self._execute(
            transactional_id,
            lambda current, new_id: transactions.init_producer(current, request, now, version, new_id),
        )
        if after.state is TransactionState.PREPARE_ABORT:
            raise errors.ConcurrentTransactionsError  # the producer retries until the open transaction is aborted
        return Producer(after.producer_id, after.producer_epoch)

    def _timeout(self, timeout_ms: int, two_phase: bool, keep_prepared: bool) -> int:
        if two_phase and not self._config.transaction_two_phase_commit_enable:
            raise errors.TransactionalIdAuthorizationFailedError("transaction.two.phase.commit.enable is false")
        if keep_prepared:
            raise errors.UnsupportedVersionError("keepPreparedTxn is not supported (KIP-939)")
        if two_phase:
            return MAX_TIMEOUT_MS
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise errors.InvalidTransactionTimeoutError
        return timeout_ms

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], version: int = CLASSIC
    ) -> None:
        """Add partitions to the producer's transaction, which begins with the first one."""
        now = self._clock.now_ms()
        await self._execute(
            transactional_id,
            lambda current, _: transactions.add_partitions(current, producer, partitions, now, version),
        )

    async def wait_completed(self, transactional_id: str, timeout_ms: int) -> None:
        """Wait until the markers of the id's last transaction are written, but not longer than the timeout."""
        await self.completer.wait(transactional_id, timeout_ms / 1000)

    def missing(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Return the partitions that are not in the producer's open transaction."""
        _check_id(transactional_id)
        return transactions.missing(self.get(transactional_id), producer, partitions)

    async def end(self, transactional_id: str, producer: Producer, commit: bool, version: int = CLASSIC) -> Producer:
        """Commit or abort. Return, once that is committed to the log, the producer id and epoch to continue with."""
        now = self._clock.now_ms()
        bumps = version >= EPOCH_PER_TRANSACTION

        def decide(current: Transaction | None, new_id: int | None) -> Transaction:
            if bumps:
                return transactions.end_and_bump(current, producer, commit, now, new_id)
            return transactions.end(current, producer, commit, now)

        return transactions.next_producer(await self._execute(transactional_id, decide))

    def abort_timed_out(self) -> None:
        """Abort the transactions that have been open for longer than their timeout."""
        now = self._clock.now_ms()
        for transaction in [t for t in self._loaded() if transactions.is_timed_out(t, now)]:
            try:
                self._append(transactions.fence(transaction, now, self._version()))
            except errors.KafkaError as error:
                log.warning("Cannot abort timed-out transaction of transactional_id=%s yet: %s", transaction.id, error)
            else:
                log.info(
                    "Aborted transaction of transactional_id=%s after timeout_ms=%d",
                    transaction.id,
                    transaction.timeout_ms,
                )

    def remove_expired(self) -> None:
        """Remove the ids that were not used for `transactional.id.expiration.ms`."""
        now, expiration = self._clock.now_ms(), self._config.transactional_id_expiration_ms
        for index in self.shards.indexes:
            ids = [t.id for t in self.by_id.values_in(index) if transactions.is_expired(t, now, expiration)]
            for begin in range(0, len(ids), MAX_TOMBSTONES):
                self._remove(ids[begin : begin + MAX_TOMBSTONES])

    def _loaded(self) -> Iterator[Transaction]:
        return (transaction for index in self.shards.indexes for transaction in self.by_id.values_in(index))

    def _remove(self, ids: list[str]) -> None:
        try:
            self._log.append(ids[0], [records.tombstone(transactional_id) for transactional_id in ids])
        except errors.KafkaError as error:
            log.warning("Cannot remove %d expired transactional ids yet: %s", len(ids), error)
            return
        for transactional_id in ids:
            del self.by_id[transactional_id]

    async def _execute(self, transactional_id: str, decide: Decision) -> Transaction:
        """Decide, append, and wait until the append is committed. Decision and append are one step of the loop."""
        _check_id(transactional_id)
        new_id: int | None = None
        while True:
            current = self.get(transactional_id)
            try:
                after = decide(current, new_id)
                break
            except transactions.NeedsProducerId:
                new_id = await self._new_producer_id()
        # a repeated request changes nothing, but the records that it relies on may not be committed yet
        committed = self._log.when_committed(transactional_id) if after is current else self._append(after)
        if committed is not None:
            await wait_committed(committed, self._config.request_timeout_ms / 1000)
        return after

    def _append(self, after: Transaction) -> asyncio.Future[None] | None:
        try:
            version = records.VALUE_VERSION if self._version() else records.OLD_VALUE_VERSION
            committed = self._log.append(after.id, [records.transaction_record(after, version)])
        except errors.KafkaError as error:
            raise to_client_error(error) from error
        self.by_id[after.id] = after
        if after.state in PREPARED:
            self.completer.start(after, self._log.partition(after.id))
        return committed

    def _complete(self, prepared: Transaction) -> None:
        self._append(transactions.complete(prepared, self._clock.now_ms()))

    def _version(self) -> int:
        return self._image().features.get(TRANSACTION_VERSION, CLASSIC)


def _check_id(transactional_id: str) -> None:
    if not transactional_id:
        raise errors.InvalidRequestError("the transactional id is empty")
