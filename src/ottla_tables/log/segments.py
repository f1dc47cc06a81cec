"""Committed records of a partition as columns, decoded from the memory-mapped segments of a broker on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from ottla.errors import CorruptBatchError, KafkaError, KafkaStorageError
from ottla.model import TopicPartition
from ottla.records import any_magic
from ottla.records.column_decoder import ColumnDecoder
from ottla.records.columns import Columns
from ottla.storage.batch_columns import add_batch
from ottla.storage.log_reader import ReadOnlyLog
from ottla_tables.log.transactions import TransactionOutcomes

CHUNK_ROWS: Final = 30_000
"""Target number of rows per chunk, so that a chunk fits the CPU's caches."""
CHUNK_BYTES: Final = 4 << 20


class Chunk(NamedTuple):
    """Records as columns, possibly none, and the next offset to read."""

    columns: Columns
    next_offset: int


class SegmentReader:
    """Reads one partition in the order of its offsets. Control records and aborted transactions are left out."""

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp
        self._outcomes = TransactionOutcomes()

    def read(self, directory: Path, start: int, high_watermark: int) -> Iterator[Chunk]:
        """Yield chunks of the committed records from an offset on, up to the high watermark or the first open
        transaction.

        Raises OffsetOutOfRangeError if the first records were deleted, CorruptMessageError for a damaged log, or its
        subclass CorruptBatchError if a batch cannot be decoded, and KafkaStorageError if the directory does not exist
        or segments disappear.
        """
        if not directory.is_dir():
            raise KafkaStorageError(f"{directory} does not exist: the replica has moved, or is on another machine")
        log = ReadOnlyLog(directory, start, high_watermark)
        decoder, reached = ColumnDecoder(headers=True), start
        self._outcomes.forget(start)
        for batch in log.batches(start, high_watermark):
            header = batch.header
            is_hidden = header.is_control
            if header.is_transactional and not is_hidden:
                aborted = self._outcomes.is_aborted(header, log, high_watermark)
                if aborted is None:
                    break
                is_hidden = aborted
            if not is_hidden:
                try:
                    any_magic.verify(batch.data, batch.position, header)
                    has_room = add_batch(decoder, batch, start, high_watermark)
                except KafkaError as error:
                    raise self._corrupt(directory, header.base_offset, header.next_offset, error) from error
                if not has_room:
                    yield Chunk(decoder.drain(), reached)
                    assert add_batch(decoder, batch, start, high_watermark), "an empty decoder has room for any batch"
            reached = min(header.next_offset, high_watermark)
            if decoder.row_count >= CHUNK_ROWS or decoder.nbytes >= CHUNK_BYTES:
                yield Chunk(decoder.drain(), reached)
        if reached > start:
            yield Chunk(decoder.drain(), reached)

    def _corrupt(self, directory: Path, first: int, end: int, error: KafkaError) -> CorruptBatchError:
        return CorruptBatchError(
            f"{self._tp}, offset {first}: the batch in {directory} cannot be decoded: {error}", self._tp, first, end
        )
