"""The state of idempotent and transactional producers in a log: sequence numbers, epochs, open transactions.

It is rebuilt from a snapshot and the batches after it, so that a leader recognizes duplicate batches after a restart.
`check` validates a batch and changes nothing; `update` records an appended batch. Not thread-safe: event loop only.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from ottla import errors
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from ottla.records.crc import crc32c
from ottla.records.decoder import Record
from ottla.storage.files import replace_file
from ottla.storage.segment import SNAPSHOT_SUFFIX, file_name

BATCHES_KEPT = 5
"""Number of batches per producer among which duplicates are detected: the maximum number in flight."""
MAX_SEQUENCE = 0x7FFFFFFF
NO_TRANSACTION = -1

ABORT = 0
COMMIT = 1
"""ABORT and COMMIT: the type in the key of a transaction marker."""

SNAPSHOT_VERSION = 1
_SNAPSHOT_HEAD = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_EARLIER_BATCH = Struct(">qiqiq")
"""A batch before the last one of its producer: producer id, last sequence, last offset, offset delta, timestamp.

Kafka's snapshots contain only the last batch of each producer. If a producer repeats an earlier one after a restart of
Kafka, Kafka does not recognize it as a duplicate, and rejects it with OUT_OF_ORDER_SEQUENCE_NUMBER. In Ottla's
snapshots, the earlier batches follow Kafka's entries, where Kafka ignores them.
"""
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


class AppendedBatch(NamedTuple):
    """A batch of a producer in the log.

    `offset_delta`: last minus first offset. `timestamp`: the batch's highest one, or that of a later marker if the
    batch was loaded from a snapshot.
    """

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class Marker(NamedTuple):
    """The content of a transaction marker: ABORT or COMMIT, and the epoch of the coordinator that wrote it."""

    type: int
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction whose marker was appended. `last_offset`: the offset of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerState:
    """One producer's state in one log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_txn_offset", "id", "last_timestamp")

    def __init__(self, producer_id: int) -> None:
        self.id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_KEPT)
        self.coordinator_epoch = -1
        self.first_txn_offset = NO_TRANSACTION
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the producer's last record; -1 if no batch of its epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """The sequence number that the producer's next batch of this epoch must have."""
        return (self.last_sequence + 1) & MAX_SEQUENCE

    def batch_like(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the batch in the log with the same epoch and sequence numbers as `header`; None if there is none among
        the last ones.
        """
        if header.producer_epoch != self.epoch:
            return None
        for batch in self.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def has_ended(self, batch: AppendedBatch) -> bool:
        """Return whether the transaction of a batch has ended, so that its marker is in the log."""
        return self.first_txn_offset == NO_TRANSACTION or batch.first_offset < self.first_txn_offset


def read_marker(record: Record) -> Marker | None:
    """Return the marker in a control batch's record; None for control records that do not end transactions.

    Raises CorruptMessageError if the record is damaged.
    """
    try:
        version, kind = _MARKER_KEY.unpack_from(record.key or b"")
        if version < 0:
            raise errors.CorruptMessageError(f"unsupported version {version} of a control record")
        if kind not in (ABORT, COMMIT):
            return None
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except StructError:
        raise errors.CorruptMessageError(f"the control record at offset {record.offset} is damaged") from None
    return Marker(kind, coordinator_epoch)


def marker_record(kind: int, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return key and value of the control record of a transaction marker. `kind`: ABORT or COMMIT."""
    return _MARKER_KEY.pack(0, kind), _MARKER_VALUE.pack(0, coordinator_epoch)


class VerificationGuard:
    """Represents the verification of a transaction by its coordinator.

    It becomes invalid when the next batch or marker of its producer is appended, when a guard for a newer epoch is
    created, when the log is truncated, or if it is unused for long (see `ProducerStates.remove_expired`).
    """

    __slots__ = ("epoch", "unused")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.unused = False
        """Whether the guard has not been used since the last check for expired producers."""


class ProducerStates:
    """The state of all producers of one log."""

    def __init__(self, directory: Path, expiration_ms: int = 86_400_000) -> None:
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerState] = {}
        self.ongoing: dict[int, int] = {}
        """The producer ids of open transactions by first offset, in the order of the offsets."""
        self._unreplicated: dict[int, int] = {}
        """The offsets of the markers that `forget_replicated` has not found below the high watermark yet, by the first
        offset of their transactions.
        """
        self._lowest: dict[int, tuple[int, int]] = {}
        """By producer id: epoch and lowest sequence number seen of producers whose transactions have no batch in the
        log yet.
        """
        self._guards: dict[int, VerificationGuard] = {}
        """By producer id: the valid guards."""
        self.end_offset = 0
        """The offset up to which the log's batches are included in the state."""

    # Before an append

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has an open transaction in this log, in this epoch."""
        producer = self.producers.get(producer_id)
        return producer is not None and producer.epoch == epoch and producer.first_txn_offset != NO_TRANSACTION

    def expect(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Record the sequence number of a batch of a transaction that has no batch in the log yet, if it is the lowest
        of its epoch.

        If the first of several batches in flight is rejected, those after it must not count as the start of the
        transaction.
        """
        seen = self._lowest.get(producer_id)
        if seen is None or seen[0] != epoch or sequence < seen[1]:
            self._lowest[producer_id] = epoch, sequence

    def has_appended(self, producer_id: int, epoch: int, sequence: int) -> bool:
        """Return whether the log has a batch of the producer with this or a later sequence number in this epoch, or a
        newer epoch of the producer.
        """
        producer = self.producers.get(producer_id)
        if producer is None or producer.epoch < epoch:
            return False
        if producer.epoch > epoch:
            return True
        last = producer.last_sequence
        return last != NO_SEQUENCE and (last - sequence) & MAX_SEQUENCE <= MAX_SEQUENCE // 2

    def guard(self, producer_id: int, epoch: int) -> VerificationGuard:
        """Return a guard for a producer's transaction that is about to be verified by its coordinator (KIP-890).

        When the batch is appended, `is_guarded` returns whether the verification is still valid.
        """
        existing = self._guards.get(producer_id)
        if existing is not None and existing.epoch == epoch:
            existing.unused = False
            return existing
        guard = VerificationGuard(epoch)
        if existing is None or existing.epoch < epoch:
            self._guards[producer_id] = guard
        return guard

    def is_guarded(self, producer_id: int, guard: VerificationGuard) -> bool:
        """Return whether the guard is still valid (see `VerificationGuard`)."""
        return self._guards.get(producer_id) is guard

    def check_bumped(self, producer_id: int, epoch: int) -> None:
        """Raise InvalidProducerEpochError for a late marker: one whose epoch is not newer than the producer's.

        With transaction.version 2, each marker bumps the epoch (KIP-890). A repetition of the marker that ended the
        last transaction is allowed.
        """
        producer = self.producers.get(producer_id)
        if producer is None or epoch > producer.epoch:
            return
        if epoch < producer.epoch or producer.first_txn_offset != NO_TRANSACTION:
            raise errors.InvalidProducerEpochError(
                f"a marker of producer {producer_id} has epoch {epoch}, the log has seen {producer.epoch}"
            )

    def duplicate_of(self, header: BatchHeader) -> AppendedBatch | None:
        """Return the batch in the log that `header` repeats, if it is among the last five batches of the producer's
        current epoch; else None.

        Batches of completed transactions are not compared: their producer has received the response, or has given up
        the batch. librdkafka then reuses those sequence numbers for other records (see `check`).
        """
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return None
        batch = producer.batch_like(header)
        return None if batch is None or (header.is_transactional and producer.has_ended(batch)) else batch

    def check(self, header: BatchHeader) -> None:
        """Raise an error unless the batch may be appended as the next batch of its producer.

        Duplicates are not recognized here, but by `duplicate_of`.

        Raises InvalidProducerEpochError, OutOfOrderSequenceNumberError, InvalidTxnStateError, or UnknownProducerIdError
        for sequence numbers that an earlier transaction has used.
        """
        self._check_beginning(header)
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return
        epoch = header.producer_epoch
        if epoch < producer.epoch:
            raise errors.InvalidProducerEpochError(
                f"producer {header.producer_id} has epoch {epoch}, the log has seen {producer.epoch}"
            )
        if producer.first_txn_offset != NO_TRANSACTION and not header.is_transactional:
            raise errors.InvalidTxnStateError(f"producer {producer.id} may only write in its open transaction")
        if header.base_sequence == NO_SEQUENCE:
            return
        if epoch != producer.epoch:
            if header.base_sequence != 0 and producer.epoch != NO_PRODUCER_EPOCH:
                raise errors.OutOfOrderSequenceNumberError(
                    f"producer {header.producer_id} begins its epoch {epoch} with sequence {header.base_sequence}"
                )
            return
        expected = producer.next_sequence
        if header.base_sequence != expected:
            if header.is_transactional and producer.batch_like(header) is not None:
                # Kafka regards the batch as a duplicate, so its records are missing in a transaction that is then
                # committed.
                # With this error producers abort and start a new epoch (KIP-360).
                raise errors.UnknownProducerIdError(
                    f"producer {producer.id} sent sequence {header.base_sequence} again, in another transaction"
                )
            raise errors.OutOfOrderSequenceNumberError(
                f"producer {header.producer_id} sent sequence {header.base_sequence} instead of {expected}"
            )

    def _check_beginning(self, header: BatchHeader) -> None:
        """Raise OutOfOrderSequenceNumberError for a batch that has overtaken the first batch of its transaction."""
        epoch, lowest = self._lowest.get(header.producer_id, (NO_PRODUCER_EPOCH, MAX_SEQUENCE))
        if epoch == header.producer_epoch and header.base_sequence > lowest:
            raise errors.OutOfOrderSequenceNumberError(
                f"producer {header.producer_id} sent sequence {header.base_sequence}, but {lowest} was seen before"
            )

    def check_marker(self, header: BatchHeader, marker: Marker) -> None:
        """Raise TransactionCoordinatorFencedError for a transaction marker of an older coordinator epoch,
        InvalidProducerEpochError for one of an older producer epoch.
        """
        producer = self.producers.get(header.producer_id)
        if producer is None:
            return
        if header.producer_epoch < producer.epoch:
            raise errors.InvalidProducerEpochError(
                f"a marker of producer {header.producer_id} has epoch {header.producer_epoch}, "
                f"the log has seen {producer.epoch}"
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise errors.TransactionCoordinatorFencedError(
                f"a marker of coordinator epoch {marker.coordinator_epoch} after one of {producer.coordinator_epoch}"
            )

    # After an append

    def update(self, header: BatchHeader, marker: Marker | None = None) -> CompletedTransaction | None:
        """Apply a batch that is in the log. Return the transaction that it completes; None if it completes none."""
        self.end_offset = header.next_offset
        if not header.has_producer_id:
            return None
        producer = self.producers.get(header.producer_id)
        if producer is None:
            producer = self.producers[header.producer_id] = ProducerState(header.producer_id)
        self._begin_epoch(producer, header.producer_epoch)
        producer.last_timestamp = header.max_timestamp
        self._guards.pop(producer.id, None)
        if header.is_control:
            return None if marker is None else self._complete(producer, header, marker)
        producer.batches.append(
            AppendedBatch(
                header.base_sequence,
                header.last_sequence,
                header.last_offset,
                header.last_offset_delta,
                header.max_timestamp,
            )
        )
        if header.is_transactional and producer.first_txn_offset == NO_TRANSACTION:
            self._lowest.pop(producer.id, None)
            producer.first_txn_offset = header.base_offset
            self.ongoing[header.base_offset] = producer.id
        return None

    @staticmethod
    def _begin_epoch(producer: ProducerState, epoch: int) -> None:
        if producer.epoch != epoch:
            producer.batches.clear()
            producer.epoch = epoch

    def _complete(self, producer: ProducerState, header: BatchHeader, marker: Marker) -> CompletedTransaction | None:
        producer.coordinator_epoch = marker.coordinator_epoch
        first = producer.first_txn_offset
        producer.first_txn_offset = NO_TRANSACTION
        if first == NO_TRANSACTION:
            return None
        self.ongoing.pop(first, None)
        self._unreplicated[first] = header.last_offset
        return CompletedTransaction(producer.id, first, header.last_offset, marker.type == ABORT)

    @property
    def has_transactions(self) -> bool:
        """Whether a transaction is open, or has a marker that `forget_replicated` has not found below the high
        watermark yet.
        """
        return bool(self.ongoing or self._unreplicated)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the oldest transaction that is open, or whose marker is not below the high
        watermark; None if there is none.
        """
        self.forget_replicated(high_watermark)
        first_ongoing = next(iter(self.ongoing), None)
        firsts = [*self._unreplicated, *([] if first_ongoing is None else [first_ongoing])]
        return min(firsts, default=None)

    def forget_replicated(self, high_watermark: int) -> None:
        """Forget ended transactions whose markers are below the high watermark."""
        for first in [first for first, last in self._unreplicated.items() if last < high_watermark]:
            del self._unreplicated[first]

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset after a transaction has completed, for its index entry."""
        return next(iter(self.ongoing), completed.last_offset + 1)

    def remove_expired(self, now_ms: int) -> None:
        """Remove producers without an open transaction whose last batch or marker is older than
        producer.id.expiration.ms.

        Also remove guards that were not used since the last call, and the sequence numbers recorded by `expect` for
        producers that have no state.
        """
        horizon = now_ms - self.expiration_ms
        expired = [p.id for p in self.producers.values() if p.first_txn_offset < 0 and p.last_timestamp < horizon]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id in self._lowest.keys() - self.producers.keys():
            del self._lowest[producer_id]
        for producer_id, guard in list(self._guards.items()):
            if guard.unused:
                del self._guards[producer_id]
            guard.unused = True

    def clear(self, end_offset: int = 0) -> None:
        """Remove all state, and continue at `end_offset`."""
        self.producers.clear()
        self.ongoing.clear()
        self._unreplicated.clear()
        self._lowest.clear()
        self._guards.clear()
        self.end_offset = end_offset

    # Snapshots

    def write_snapshot(self, *, sync: bool = False) -> None:
        """Write the state to the `.snapshot` file of `end_offset`. `sync`: wait until it is on disk."""
        entries = b"".join(_pack(p) for p in self.producers.values())
        entries += b"".join(_pack_earlier(p) for p in self.producers.values())
        body = len(self.producers).to_bytes(4, "big") + entries
        head = _SNAPSHOT_HEAD.pack(SNAPSHOT_VERSION, crc32c(body, 0), len(self.producers))
        replace_file(self.directory / file_name(self.end_offset, SNAPSHOT_SUFFIX), head + entries, sync=sync)

    def load_snapshot(self, path: Path) -> None:
        """Replace the state with that of a snapshot. Raises KafkaStorageError if the snapshot is damaged or has another
        version, and OSError.
        """
        content = path.read_bytes()
        try:
            version, crc, count = _SNAPSHOT_HEAD.unpack_from(content)
            sound = (
                version == SNAPSHOT_VERSION
                and count >= 0
                and len(content) >= (end := _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size)
                and (len(content) - end) % _EARLIER_BATCH.size == 0
                and crc == crc32c(memoryview(content)[6:], 0)
            )
        except StructError:
            sound = False
        if not sound:
            raise errors.KafkaStorageError(
                f"{path} is not a producer snapshot of version {SNAPSHOT_VERSION}, or it is damaged"
            )
        self.clear(int(path.name.removesuffix(SNAPSHOT_SUFFIX)))
        for fields in _SNAPSHOT_ENTRY.iter_unpack(content[_SNAPSHOT_HEAD.size : end]):
            self._add(_unpack(fields))
        # each is put before those that are there: the last one, and what was written after this one
        for producer_id, *batch in reversed(list(_EARLIER_BATCH.iter_unpack(content[end:]))):
            self.producers[producer_id].batches.appendleft(_batch(*batch))
        self.ongoing = dict(sorted(self.ongoing.items()))

    def _add(self, producer: ProducerState) -> None:
        self.producers[producer.id] = producer
        if producer.first_txn_offset != NO_TRANSACTION:
            self.ongoing[producer.first_txn_offset] = producer.id


def _pack(producer: ProducerState) -> bytes:
    last = producer.batches[-1] if producer.batches else AppendedBatch(-1, NO_SEQUENCE, -1, 0, -1)
    return _SNAPSHOT_ENTRY.pack(
        producer.id,
        producer.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.first_txn_offset,
    )


def _unpack(fields: tuple[int, ...]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_txn = fields
    producer = ProducerState(producer_id)
    producer.epoch = epoch
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.first_txn_offset = first_txn
    if last_offset >= 0:
        producer.batches.append(_batch(last_sequence, last_offset, offset_delta, timestamp))
    return producer


def _pack_earlier(producer: ProducerState) -> bytes:
    return b"".join(
        _EARLIER_BATCH.pack(producer.id, batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp)
        for batch in list(producer.batches)[:-1]
    )


def _batch(last_sequence: int, last_offset: int, offset_delta: int, timestamp: int) -> AppendedBatch:
    first_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE
    return AppendedBatch(first_sequence, last_sequence, last_offset, offset_delta, timestamp)


def snapshots_in(directory: Path) -> list[tuple[int, Path]]:
    """Return offset and path of all producer snapshots in a log's directory, the oldest first."""
    snapshots = []
    for path in directory.glob(f"*{SNAPSHOT_SUFFIX}"):
        name = path.name.removesuffix(SNAPSHOT_SUFFIX)
        if name.isdigit():
            snapshots.append((int(name), path))
    return sorted(snapshots)
