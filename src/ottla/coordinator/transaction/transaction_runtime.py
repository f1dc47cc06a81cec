"""The runtime of the transaction coordinator: appends transaction states, and has markers written.

The hash of a transactional id determines its partition of `__transaction_state`. The outcome of a transaction
(PrepareCommit, PrepareAbort) is in the log before its first marker is written, so that the partition's next leader can
write all markers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator

from ottla import errors
from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.image.features import TRANSACTION_VERSION
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import to_client_error, wait_committed
from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.transaction import transaction_records as records
from ottla.coordinator.transaction import transactions
from ottla.coordinator.transaction.transaction import (
    CLASSIC,
    EPOCH_PER_TRANSACTION,
    NO_TIMEOUT_MS,
    PREPARED,
    Transaction,
    TransactionState,
)
from ottla.coordinator.transaction.transaction_completion import TransactionCompleter
from ottla.coordinator.transaction.transaction_markers import Markers
from ottla.logs import listed
from ottla.model import TRANSACTION_STATE, ProducerIdAndEpoch, TopicPartition

log = logging.getLogger("ottla.coordinator")

MAX_TOMBSTONES = 1000
"""Maximum number of expired ids that are removed with one batch."""

Decision = Callable[[Transaction | None, int | None], Transaction]
"""Returns the next state of a transaction, from the current one (None if the id is new) and a new producer id.

Raises NeedsProducerId if that is required but None.
"""


class TransactionRuntime(CoordinatorRuntime):
    """The transactional ids that this broker coordinates."""

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
        """Stop coordinating. The next leader completes the prepared transactions."""
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
        """Complete the prepared transactions of a partition."""
        for transaction in self.by_id.values_in(index):
            if transaction.state in PREPARED:
                # It waits until the record is committed, because this replica may be the only one that has it.
                self.completer.start(transaction, self.shards.partition(index))

    def on_unloaded(self, index: int) -> None:
        """Drop the transactional ids of a partition. Its new leader completes the prepared transactions."""
        for transactional_id in self.by_id.drop(index):
            self.completer.stop(transactional_id)

    @property
    def producer_ids(self) -> list[int]:
        """The current producer ids of the transactional ids in memory."""
        return [transaction.producer_id for transaction in self.by_id.values()]

    def coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id, according to the cluster image; NO_LEADER if
        there is none. Raises NotCoordinatorError if `__transaction_state` does not exist yet.
        """
        return self._log.leader(transactional_id)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of an id; None if the id is unknown.

        Raises NotCoordinatorError or CoordinatorLoadInProgressError.
        """
        self.check(transactional_id)
        return self.by_id.get(transactional_id)

    def is_ongoing(self, transactional_id: str) -> bool:
        """Return whether this coordinator has an open transaction of a transactional id."""
        transaction = self.by_id.get(transactional_id)
        return transaction is not None and transaction.state is TransactionState.ONGOING

    async def init_producer(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> ProducerIdAndEpoch:
        """Handle InitProducerId: return the producer id and epoch for the producer to use.

        Producers with older epochs are fenced. Raises ConcurrentTransactionsError while an earlier transaction is being
        completed or aborted, ProducerFencedError if `expected` is fenced, InvalidTransactionTimeoutError if the timeout
        is out of range, TransactionalIdAuthorizationFailedError if `two_phase` is disabled, UnsupportedVersionError for
        `keep_prepared`, and the errors of `_execute`.
        """
        timeout_ms = self._timeout(timeout_ms, two_phase, keep_prepared)
        request = transactions.InitProducerIdRequestData(transactional_id, timeout_ms, expected)
        now, version = self._clock.now_ms(), self._version()
        after = await self._execute(
            transactional_id,
            lambda current, new_id: transactions.init_producer(current, request, now, version, new_id),
        )
        if after.state is TransactionState.PREPARE_ABORT:
            # The open transaction is being aborted; the producer retries until that is done.
            raise errors.ConcurrentTransactionsError
        return ProducerIdAndEpoch(after.producer_id, after.producer_epoch)

    def _timeout(self, timeout_ms: int, two_phase: bool, keep_prepared: bool) -> int:
        if two_phase and not self._config.transaction_two_phase_commit_enable:
            raise errors.TransactionalIdAuthorizationFailedError("transaction.two.phase.commit.enable is false")
        if keep_prepared:
            raise errors.UnsupportedVersionError("keepPreparedTxn is not supported (KIP-939)")
        if two_phase:
            return NO_TIMEOUT_MS
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise errors.InvalidTransactionTimeoutError
        return timeout_ms

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        version: int = CLASSIC,
    ) -> None:
        """Add partitions to the producer's transaction. The first ones start the transaction.

        Raises the errors of `transactions.add_partitions` and `_execute`.
        """
        now = self._clock.now_ms()
        await self._execute(
            transactional_id,
            lambda current, _: transactions.add_partitions(current, producer, partitions, now, version),
        )

    async def wait_completed(self, transactional_id: str, timeout_ms: int) -> None:
        """Wait until this coordinator has stopped completing a transaction of the id, but at most `timeout_ms`."""
        await self.completer.wait(transactional_id, timeout_ms / 1000)

    def missing(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Return the partitions that are not in the producer's open transaction.

        Raises the errors of `get`, and an error if the transactional id is empty or unknown, if it has another producer
        id or epoch, or if its transaction is being completed.
        """
        _check_id(transactional_id)
        return transactions.missing(self.get(transactional_id), producer, partitions)

    async def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, version: int = CLASSIC
    ) -> ProducerIdAndEpoch:
        """Commit or abort a transaction.

        Return the producer id and epoch for the next one, once the outcome is committed to the log. Raises the errors
        of `_execute`, and those of `transactions.end_and_bump` with transaction version 2, else of `transactions.end`.
        """
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
                log.warning(
                    "Cannot abort the timed-out transaction of transactional_id=%s; retrying in %g s: %s",
                    transaction.id,
                    self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000,
                    error.__cause__ or error,  # the cause is the error of the append
                )
            else:
                log.info(
                    "Aborting the transaction of transactional_id=%s, which was open for longer than its timeout of "
                    "%d ms",
                    transaction.id,
                    transaction.timeout_ms,
                )

    def remove_expired(self) -> None:
        """Remove the ids in an IDLE state that have not been used for `transactional.id.expiration.ms`."""
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
            log.warning(
                "Cannot remove expired transactional ids (%s); retrying in %g s: %s",
                listed(ids),
                self._config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000,
                error,
            )
            return
        for transactional_id in ids:
            del self.by_id[transactional_id]

    async def _execute(self, transactional_id: str, decide: Decision) -> Transaction:
        """Compute the next transaction, append it if it has changed, and wait until it is committed.

        There is no await between computing and appending, so no other request comes in between. Raises
        InvalidRequestError if the id is empty, the errors of `get`, `decide` (except NeedsProducerId) and the
        allocation of a producer id, and the error of `to_client_error` if the transaction cannot be written.
        """
        _check_id(transactional_id)
        new_id: int | None = None
        while True:
            current = self.get(transactional_id)
            try:
                after = decide(current, new_id)
                break
            except transactions.NeedsProducerId:
                new_id = await self._new_producer_id()
        # A repeated request changes nothing, but the record of the first one may not be committed yet.
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
