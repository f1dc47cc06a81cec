"""The transaction coordinator at work: append what was decided, then answer; write the markers of what has ended.

Transactional ids live in the partitions of `__transaction_state` by the hash of the id, and in memory is what the log
says. A transaction whose end is decided (PrepareCommit, PrepareAbort) is in the log before its first marker is written,
so that a broker that dies in between writes them again at its next start. Loop thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Collection

from ottla.clock import Clock
from ottla.cluster.features import TRANSACTION_VERSION
from ottla.cluster.metadata import TRANSACTION_STATE, ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator import transaction_records as records
from ottla.coordinator import transactions
from ottla.coordinator.state_log import Producer, StateLog
from ottla.coordinator.transaction import CLASSIC, EPOCH_PER_TRANSACTION, PREPARED, State, Transaction
from ottla.coordinator.transaction_markers import Ending, Markers
from ottla.errors import (
    ConcurrentTransactionsError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    InvalidRequestError,
    InvalidTransactionTimeoutError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    TransactionalIdAuthorizationFailedError,
    TransactionCoordinatorFencedError,
    UnknownServerError,
    UnsupportedVersionError,
)
from ottla.model import TopicPartition
from ottla.replication.partitions import Partitions

log = logging.getLogger("ottla.coordinator")

RETRY_SECONDS = 0.5
"""Pause before a marker, or the record of a completion, that could not be written is tried again; it doubles."""
MAX_RETRY_SECONDS = 30.0
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
        partitions: Partitions,
        image: Callable[[], ClusterImage],
        new_producer_id: Callable[[], Awaitable[int]],
        markers: Markers,
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._log = StateLog(TRANSACTION_STATE, clock, partitions, image)
        self._new_producer_id = new_producer_id
        self._markers = markers
        self._finishing: dict[str, asyncio.Task[None]] = {}
        """By transactional id, what writes its markers."""
        self.by_id: dict[str, Transaction] = {}

    def start(self) -> None:
        """Read what the log holds, and go on with the transactions whose end was decided."""
        for partition in self._log.led():
            count = 0
            for _, data in partition.log.batches_from(partition.log.log_start_offset):
                count += self._log.read_batch(data, self._replay)
            if count:
                log.info("%s: %d records of transactions read", partition.topic_partition, count)
        for transaction in self.by_id.values():
            if transaction.state in PREPARED:
                self._finish_soon(transaction, None)

    def close(self) -> None:
        """Answer no more; what is not finished is finished after the next start."""
        self._log.close()
        for task in self._finishing.values():
            task.cancel()

    @property
    def highest_producer_id(self) -> int:
        """The highest producer id that a transactional id has; -1 without any."""
        return max((transaction.producer_id for transaction in self.by_id.values()), default=-1)

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
        task = self._finishing.get(transactional_id)
        if task is not None:
            await asyncio.wait([task], timeout=timeout_ms / 1000)

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
        for known in [t for t in self.by_id.values() if transactions.is_late(t, now)]:
            try:
                self._append(transactions.fence(known, now, self._version()))
            except KafkaError as error:
                log.warning("transactional id %s timed out and cannot be aborted now: %s", known.id, error)
            else:
                log.info("transactional id %s: aborted after its timeout, %d ms", known.id, known.timeout_ms)

    def forget_expired(self) -> None:
        """Remove the ids that nobody used for `transactional.id.expiration.ms`."""
        now, expiration = self._clock.now_ms(), self._config.transactional_id_expiration_ms
        by_partition: dict[int, list[str]] = {}
        for known in self.by_id.values():
            if transactions.is_expired(known, now, expiration):
                by_partition.setdefault(self._log.index(known.id), []).append(known.id)
        for ids in by_partition.values():
            for begin in range(0, len(ids), TOMBSTONES):
                self._forget(ids[begin : begin + TOMBSTONES])

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
            await _until(safe)
        return after

    def _append(self, after: Transaction) -> asyncio.Future[None] | None:
        try:
            version = records.VALUE_VERSION if self._version() else records.OLD_VALUE_VERSION
            safe = self._log.append(after.id, [records.transaction_record(after, version)])
        except KafkaError as error:
            raise _told(error) from error
        self.by_id[after.id] = after
        if after.state in PREPARED:
            self._finish_soon(after, safe)
        return safe

    def _version(self) -> int:
        """The transaction version of the cluster."""
        return self._image().features.get(TRANSACTION_VERSION, CLASSIC)

    def _replay(self, key: bytes, value: bytes | None) -> None:
        transactional_id = records.read_key(key)
        if transactional_id is None:
            return
        if value is None:
            self.by_id.pop(transactional_id, None)
        else:
            self.by_id[transactional_id] = records.read_transaction(transactional_id, value)

    # Ending

    def _finish_soon(self, prepared: Transaction, safe: asyncio.Future[None] | None) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(prepared, safe))
        self._finishing[prepared.id] = task
        task.add_done_callback(functools.partial(self._finished, prepared.id))

    def _finished(self, transactional_id: str, task: asyncio.Task[None]) -> None:
        if self._finishing.get(transactional_id) is task:
            del self._finishing[transactional_id]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotCoordinatorError):
            log.error("transactional id %s stays unfinished until the next start", transactional_id, exc_info=error)

    async def _finish(self, prepared: Transaction, safe: asyncio.Future[None] | None) -> None:
        """Write the markers until all are there, then that the transaction is complete."""
        if safe is not None:
            await _until(safe)
        left: Collection[TopicPartition] = prepared.partitions
        complete, pause = False, RETRY_SECONDS
        while not complete:
            left = await self._write_markers(prepared, left)
            complete = not left and self._try_complete(prepared)
            if not complete:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _write_markers(
        self, prepared: Transaction, partitions: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Write markers; those of the partitions that have to be tried again."""
        epoch = self._log.partition(prepared.id).image.leader_epoch
        producer = Producer(prepared.producer_id, prepared.producer_epoch)
        ending = Ending(producer, prepared.committing, epoch, prepared.version)
        left = []
        for tp, error in (await self._markers.write(ending, partitions)).items():
            if error is None:
                continue
            if isinstance(error, TransactionCoordinatorFencedError):
                raise error  # another broker finishes it
            log.warning("transactional id %s: no marker in %s: %s", prepared.id, tp, error)
            # a partition that has seen a later epoch had its marker before; one that is gone needs none
            if not isinstance(error, InvalidProducerEpochError) and self._image().partition(tp) is not None:
                left.append(tp)
        return left

    def _try_complete(self, prepared: Transaction) -> bool:
        try:
            self._append(transactions.complete(prepared, self._clock.now_ms()))
        except KafkaError as error:
            log.warning("transactional id %s cannot be completed now: %s", prepared.id, error)
            return False
        return True


def _checked(transactional_id: str) -> str:
    if not transactional_id:
        raise InvalidRequestError("a transactional id is needed")
    return transactional_id


async def _until(safe: asyncio.Future[None]) -> None:
    try:
        await asyncio.shield(safe)  # request and markers wait for the same; one that is given up must not end both
    except KafkaError as error:
        raise _told(error) from error


def _told(error: KafkaError) -> KafkaError:
    """What a producer is told when the state could not be written."""
    if isinstance(error, NotLeaderOrFollowerError | KafkaStorageError | NotCoordinatorError):
        return NotCoordinatorError()
    if isinstance(error, MessageTooLargeError | RecordListTooLargeError):
        return UnknownServerError(error.message)
    return CoordinatorNotAvailableError()
