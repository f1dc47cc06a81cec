"""The transaction coordinator at work: append what was decided, then answer; write the markers of what has ended.

Transactional ids live in the partitions of `__transaction_state` by the hash of the id, and in memory is what the log
says. A transaction whose end is decided (PrepareCommit, PrepareAbort) is in the log before its first marker is written,
so that whoever leads the partition next writes them again. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.image.features import TRANSACTION_VERSION
from ottla.config.broker import BrokerConfig
from ottla.coordinator.runtime.coordinator_log import CoordinatorLog, Producer, told, until_safe
from ottla.coordinator.runtime.loader import ShardedMap
from ottla.coordinator.transaction import transaction_records as records
from ottla.coordinator.transaction import transactions
from ottla.coordinator.transaction.transaction import CLASSIC, EPOCH_PER_TRANSACTION, PREPARED, State, Transaction
from ottla.coordinator.transaction.transaction_completion import TransactionCompleter
from ottla.coordinator.transaction.transaction_markers import Markers
from ottla.errors import (
    ConcurrentTransactionsError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedVersionError,
)
from ottla.model import TRANSACTION_STATE, TopicPartition
from ottla.records.batch import BatchHeader

log = logging.getLogger("ottla.coordinator")

TOMBSTONES = 1000
"""The most ids that are forgotten with one batch."""
MAX_TIMEOUT_MS = 2**31 - 1
"""The timeout of a transaction that somebody else decides about (two-phase commit)."""

Decision = Callable[[Transaction | None, int | None], Transaction]


class TransactionRuntime:
    """The transactional ids of this broker, with their log."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        new_producer_id: Callable[[], Awaitable[int]],
        markers: Markers,
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._log = CoordinatorLog(TRANSACTION_STATE, clock, image, self)
        self.shards = self._log.shards
        """Told which partitions this broker leads."""
        self._new_producer_id = new_producer_id
        self.endings = TransactionCompleter(markers, image, self._complete)
        self.by_id: ShardedMap[str, Transaction] = ShardedMap(self._log.kept_in)

    async def start(self) -> None:
        """Wait until everything is read that is led by now."""
        await self.shards.all_loaded()

    def read(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Take a batch of a partition over that is being read."""
        return 1 if header.is_control else self._log.read_batch(index, data, self._replay)

    def loaded(self, index: int) -> None:
        """A partition is in memory: go on with its transactions whose end was decided."""
        for transaction in self.by_id.of(index):
            if transaction.state in PREPARED:
                # once that is safe: what the last leader has written may have reached this replica only
                self.endings.begin(transaction, self.shards.partition(index))

    def unload(self, index: int) -> None:
        """Another broker coordinates the transactions of a partition, and finishes those that were ended here."""
        for transactional_id in self.by_id.drop(index):
            self.endings.stop(transactional_id)

    def close(self) -> None:
        """Answer no more; what is not finished is finished by the next leader."""
        self._log.close()
        self.endings.close()

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id that a transactional id has; -1 without any."""
        return max((transaction.producer_id for transaction in self.by_id.values()), default=-1)

    def coordinator(self, transactional_id: str) -> int:
        """The broker that coordinates an id, as far as this one knows."""
        return self._log.leader(transactional_id)

    def get(self, transactional_id: str) -> Transaction | None:
        """The transaction of an id. Raises where this broker is not its coordinator."""
        self._log.partition(transactional_id)
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
        """The id and epoch that a producer writes with from now on."""
        wish = transactions.Wish(transactional_id, self._timeout(timeout_ms, two_phase, keep_prepared), expected)
        now, version = self._clock.now_ms(), self._version()
        after = await self._carry_out(
            transactional_id, lambda known, fresh: transactions.init_producer(known, wish, now, version, fresh)
        )
        if after.state is State.PREPARE_ABORT:
            raise ConcurrentTransactionsError  # the producer asks again when the open transaction is gone
        return Producer(after.producer_id, after.producer_epoch)

    def _timeout(self, timeout_ms: int, two_phase: bool, keep_prepared: bool) -> int:
        if two_phase and not self._config.transaction_two_phase_commit_enable:
            raise TransactionalIdAuthorizationFailedError("transaction.two.phase.commit.enable is false")
        if keep_prepared:
            raise UnsupportedVersionError("prepared transactions cannot be kept")
        if two_phase:
            return MAX_TIMEOUT_MS
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise InvalidTransactionTimeoutError
        return timeout_ms

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], version: int = CLASSIC
    ) -> None:
        """Take partitions into the producer's transaction, which begins with the first."""
        now = self._clock.now_ms()
        await self._carry_out(
            transactional_id,
            lambda known, _: transactions.add_partitions(known, producer, partitions, now, version),
        )

    async def finished(self, transactional_id: str, timeout_ms: int) -> None:
        """Wait until the markers of the id's last transaction are written, but no longer than the time limit."""
        await self.endings.wait(transactional_id, timeout_ms / 1000)

    def missing(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Those of the partitions that are not in the producer's open transaction."""
        return transactions.missing(self.get(_checked(transactional_id)), producer, partitions)

    async def end(self, transactional_id: str, producer: Producer, commit: bool, version: int = CLASSIC) -> Producer:
        """Commit or abort; returns when that is sure, with what the producer goes on with. Markers come after."""
        now = self._clock.now_ms()
        bumps = version >= EPOCH_PER_TRANSACTION

        def decide(known: Transaction | None, fresh: int | None) -> Transaction:
            if bumps:
                return transactions.end_and_bump(known, producer, commit, now, fresh)
            return transactions.end(known, producer, commit, now)

        return transactions.next_producer(await self._carry_out(transactional_id, decide))

    def abort_late(self) -> None:
        """Abort the transactions that are open for longer than their timeout."""
        now = self._clock.now_ms()
        for known in [t for t in self._loaded() if transactions.is_late(t, now)]:
            try:
                self._append(transactions.fence(known, now, self._version()))
            except KafkaError as error:
                log.warning("transactional id %s timed out and cannot be aborted now: %s", known.id, error)
            else:
                log.info("transactional id %s: aborted after its timeout, %d ms", known.id, known.timeout_ms)

    def forget_expired(self) -> None:
        """Remove the ids that nobody used for `transactional.id.expiration.ms`."""
        now, expiration = self._clock.now_ms(), self._config.transactional_id_expiration_ms
        for index in self.shards.indexes:
            ids = [known.id for known in self.by_id.of(index) if transactions.is_expired(known, now, expiration)]
            for begin in range(0, len(ids), TOMBSTONES):
                self._forget(ids[begin : begin + TOMBSTONES])

    def _loaded(self) -> Iterator[Transaction]:
        return (known for index in self.shards.indexes for known in self.by_id.of(index))

    def _forget(self, ids: list[str]) -> None:
        try:
            self._log.append(ids[0], [records.tombstone(transactional_id) for transactional_id in ids])
        except KafkaError as error:
            log.warning("%d expired transactional ids stay: %s", len(ids), error)
            return
        for transactional_id in ids:
            del self.by_id[transactional_id]

    async def _carry_out(self, transactional_id: str, decide: Decision) -> Transaction:
        """Decide, append, and wait until that is safe. Between decision and append nothing else happens."""
        _checked(transactional_id)
        fresh: int | None = None
        while True:
            known = self.get(transactional_id)
            try:
                after = decide(known, fresh)
                break
            except transactions.NeedsProducerId:
                fresh = await self._new_producer_id()
        # a repeated request changes nothing, but what it found may still be on its way to the disk
        safe = self._log.safe(transactional_id) if after is known else self._append(after)
        if safe is not None:
            await until_safe(safe, self._config.request_timeout_ms / 1000)
        return after

    def _append(self, after: Transaction) -> asyncio.Future[None] | None:
        try:
            version = records.VALUE_VERSION if self._version() else records.OLD_VALUE_VERSION
            safe = self._log.append(after.id, [records.transaction_record(after, version)])
        except KafkaError as error:
            raise told(error) from error
        self.by_id[after.id] = after
        if after.state in PREPARED:
            self.endings.begin(after, self._log.partition(after.id))
        return safe

    def _complete(self, prepared: Transaction) -> None:
        """All markers of a transaction are written."""
        self._append(transactions.complete(prepared, self._clock.now_ms()))

    def _version(self) -> int:
        """The transaction version of the cluster."""
        return self._image().features.get(TRANSACTION_VERSION, CLASSIC)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        transactional_id = records.read_key(key)
        if transactional_id is None:
            return
        if value is not None:
            self.by_id[transactional_id] = records.read_transaction(transactional_id, value)
        elif transactional_id in self.by_id:
            del self.by_id[transactional_id]


def _checked(transactional_id: str) -> str:
    if not transactional_id:
        raise InvalidRequestError("a transactional id is needed")
    return transactional_id
