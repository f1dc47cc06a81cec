"""The fetched batches of one partition, and the position up to which their records have been returned. Kafka's
`CompletedFetch`.

poll() decodes records batch by batch, in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla import errors
from ottla.client.consumer.fetch.fetch_metrics import ResponseTotals
from ottla.client.consumer.subscription import PartitionState
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import AbortedTransaction
from ottla.records.batch import BatchHeader, split, verify
from ottla.records.compression import MAX_DECOMPRESSED_BYTES, DecompressedTooLargeError
from ottla.records.consumer_record import ConsumerRecord, decode_consumer_records
from ottla.records.conversion import up_converted
from ottla.records.decoder import decode_records

Convert = Callable[[str, Any, Any], Any]
"""A deserializer: called with topic, bytes and headers, it returns the key or value."""

ABORT_MARKER = 0


class CompletedFetch:
    """The data of one partition from one fetch response. Used by one thread at a time."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_batches",
        "_check_crc",
        "_row",
        "_rows",
        "_taken_from",
        "data",
        "end_offset",
        "epoch",
        "generation",
        "last_epoch",
        "max_decompressed_bytes",
        "nbytes",
        "position",
        "returned",
        "state",
        "totals",
        "tp",
    )

    def __init__(
        self,
        state: PartitionState,
        data: memoryview,
        position: int,
        *,
        limit: int,
        check_crc: bool,
        aborted: list[AbortedTransaction] | None,
        max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self.tp: TopicPartition = state.tp
        self.state = state
        self.generation = state.generation
        self.nbytes = data.nbytes
        self.totals: ResponseTotals | None = None
        """The byte and record counts of the response that contained the data, which the fetcher sets; None without
        metrics.
        """
        self.returned = 0
        """The number of records that have been returned."""
        self.data = data = up_converted(data, max_decompressed_bytes)
        self.position = position
        """The offset of the next record to return."""
        self._check_crc = check_crc
        self.max_decompressed_bytes = max_decompressed_bytes
        self._batches = _whole_batches(data)
        if not self._batches and self.nbytes >= limit:
            # Brokers since 0.10.1 (KIP-74) send the whole first batch; older ones truncate it.
            raise errors.MessageTooLargeError(
                f"the next record is larger than max.partition.fetch.bytes ({limit}); increase it"
            )
        self._batches.reverse()
        self.end_offset = self._batches[0][0].next_offset if self._batches else position
        """The offset after the last batch; the fetch position if there is no whole batch."""
        self.epoch = state.fetch_epoch
        """The leader epoch of the last record that `next_records` returned; before the first, that of the record before
        this data. After all records, the leader epoch of the last batch, which may be a control batch.
        """
        self.last_epoch = self._batches[0][0].leader_epoch if self._batches else state.fetch_epoch
        """The leader epoch of the last batch; that of the fetch position if there is no whole batch."""
        self._rows: list[ConsumerRecord] = []
        self._row = 0
        self._taken_from: tuple[BatchHeader, int, int] | None = None
        """The header, start and end of the batch that `_rows` were decoded from."""
        self._aborted = sorted(aborted or (), key=lambda a: a.first_offset, reverse=True)
        self._aborted_producers: set[int] | None = None if aborted is None else set()

    @property
    def is_current(self) -> bool:
        """Whether the data is still needed: no seek or reset has happened since the fetch, and the partition is still
        assigned.
        """
        return self.generation == self.state.generation

    def next_records(self, at_most: int, key: Convert | None, value: Convert | None) -> list[ConsumerRecord]:
        """Return up to `at_most` further records of one batch, or an empty list if all have been returned.

        Raises CorruptBatchError for a batch that cannot be decoded, RecordDeserializationError for a record that cannot
        be deserialized. After an error, the position is unchanged.
        """
        while self._row >= len(self._rows):
            if not self._batches:
                return []
            self._next_batch()
        rows = self._rows[self._row : self._row + at_most] if self._row or at_most < len(self._rows) else self._rows
        if key is not None or value is not None:
            rows = self._converted(rows, key, value)
        self._row += len(rows)
        self.returned += len(rows)
        self.position = rows[-1].offset + 1
        self.epoch = rows[-1].leader_epoch
        if self._row >= len(self._rows):
            # The list belongs to the caller now.
            self._rows, self._row = [], 0
            if not self._batches:
                self.position = self.end_offset
                self.epoch = self.last_epoch
        return rows

    def next_header(self) -> tuple[BatchHeader, int] | None:
        """Return the header and the start of the next batch that has records to return; None if no such batch is left.

        Repeated calls return the same batch until `decoded` or `skip_batch` is called. Raises CorruptBatchError for a
        batch that fails a check.
        """
        if self._rows and self._taken_from is not None:
            # Rows of a batch that next_records() has not returned are decoded again, from `position` on.
            self._rows, self._row = [], 0
            self._batches.append(self._taken_from)
        while self._batches:
            header, start, _ = self._batches[-1]
            try:
                is_requested = self._has_records_to_return(header, start)
            except errors.KafkaError as error:
                raise self.unreadable(header, error) from error
            if is_requested:
                return header, start
            self._batches.pop()
        return None

    def decoded(self) -> None:
        """Advance past the batch that `next_header` has returned."""
        self._taken_from = self._batches.pop()

    def skip_batch(self) -> BatchHeader:
        """Advance past the next batch, which cannot be decoded, and return its header."""
        self._taken_from = None
        return self._batches.pop()[0]

    def unreadable(self, header: BatchHeader, error: Exception) -> errors.CorruptBatchError:
        """Return the error for a batch that cannot be decoded."""
        reason = str(error)
        if isinstance(error, DecompressedTooLargeError):
            reason = f"it decompresses to more than max.decompressed.batch.bytes={error.max_bytes}"
        offset, after = max(header.base_offset, self.position), header.next_offset
        message = (
            f"{self.tp}, offset {offset}: the batch of offsets {header.base_offset} to {header.last_offset} "
            f"cannot be decoded: {reason}; to skip it: seek(topic_partition, {after})"
        )
        return errors.CorruptBatchError(message, self.tp, offset, after)

    def move(self, position: int, epoch: int) -> None:
        """Set the position after columns were read. `epoch` is the leader epoch of the record before it."""
        self.position = self.state.position = position
        self.state.epoch = epoch

    def _next_batch(self) -> None:
        batch = self.next_header()
        if batch is None:
            self._rows, self._row = [], 0
            self.position = self.end_offset
            self.epoch = self.last_epoch
            return
        header, start = batch
        topic, partition = self.tp
        try:
            rows = decode_consumer_records(
                self.data, start, header, self.position, topic, partition, self.max_decompressed_bytes
            )
        except errors.KafkaError as error:
            raise self.unreadable(header, error) from error
        self.decoded()
        self._rows, self._row = rows, 0

    def _has_records_to_return(self, header: BatchHeader, start: int) -> bool:
        """Return whether a batch has records to return: it is not a control batch, not completely before the position
        and, with read_committed, not part of an aborted transaction.
        """
        if self._check_crc:
            verify(self.data, start, header)
        if self._aborted_producers is not None:
            while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
                self._aborted_producers.add(self._aborted.pop().producer_id)
            if header.is_control:
                if self._is_abort(header, start):
                    self._aborted_producers.discard(header.producer_id)
            elif header.is_transactional and header.producer_id in self._aborted_producers:
                return False
        return not header.is_control and header.last_offset >= self.position

    def _is_abort(self, header: BatchHeader, start: int) -> bool:
        for record in decode_records(self.data, start, header):
            key = record.key or b""
            return len(key) >= 4 and int.from_bytes(key[2:4], "big") == ABORT_MARKER
        return False

    def _converted(
        self, rows: list[ConsumerRecord], key: Convert | None, value: Convert | None
    ) -> list[ConsumerRecord]:
        """Return rows with deserialized keys and values. If a deserializer raises a KafkaError, return the rows before;
        if there are none, raise RecordDeserializationError.
        """
        out: list[ConsumerRecord] = []
        topic = self.tp.topic
        for row in rows:
            new_key, new_value = row.key, row.value
            is_key = True
            try:
                if key is not None:
                    new_key = key(topic, row.key, row.headers)
                is_key = False
                if value is not None:
                    new_value = value(topic, row.value, row.headers)
            except errors.KafkaError as error:
                if out:
                    return out
                raise errors.RecordDeserializationError(
                    f"{self.tp}, offset {row.offset}: {error}", self.tp, row.offset, is_key=is_key, record=row
                ) from error
            out.append(row.with_data(new_key, new_value))
        return out


def _whole_batches(data: memoryview) -> list[tuple[BatchHeader, int, int]]:
    """Return (header, start, end) of each complete batch. Malformed bytes raise an error only if no batch precedes
    them; otherwise the next fetch starts with them, and raises.
    """
    batches = []
    try:
        for batch in split(data):
            batches.append(batch)
    except errors.CorruptMessageError:
        if not batches:
            raise
    return batches
