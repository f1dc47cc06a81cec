"""The copy of the records that a cleaner pass retains. Reads only files and the plan, so any process can run it.

Kafka's Cleaner: `buildOffsetMap` and `cleanSegments`. Closed segments do not change, so no lock is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.errors import CorruptMessageError
from ottla.records import any_magic, legacy_message_set
from ottla.records.batch import CODEC_MASK, HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader, write_header
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.records.decoder import Record
from ottla.records.scanner import MAX_RELATIVE_OFFSET
from ottla.storage.compaction.offset_map import OffsetMap
from ottla.storage.files import LogFile
from ottla.storage.producer_state import read_marker
from ottla.storage.scan import headers
from ottla.storage.segment import CLEANED_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, Segment, file_name
from ottla.storage.txn_index import AbortedTransaction, TransactionIndex

Spend = Callable[[int], None]
"""A function that is called with a number of bytes read or written, and waits as log.cleaner.io.max.bytes.per.second
requires. It raises an error if the broker shuts down.
"""


class SourceSegment(NamedTuple):
    """A closed segment that is read: its size in bytes, and the entries of its transaction index.

    `created_ms`: when this broker created it. If it is from before the last start, the modification time of its file;
    if compaction has written it, the time of the last segment that it replaced.
    """

    base_offset: int
    size: int
    created_ms: int
    aborted: list[AbortedTransaction]


class CopyPlan(NamedTuple):
    """Everything that a copy needs to know. It can be pickled."""

    directory: Path
    """The log's directory, in which `.cleaned` files are written."""
    sources: list[SourceSegment]
    first_dirty: int
    """The offset at which the records begin whose keys were not read by an earlier pass."""
    limit: int
    """The offset at which the cleanable range ends."""
    now_ms: int
    map_bytes: int
    """Memory for the keys, in bytes."""
    segment_bytes: int
    index_bytes: int
    """segment.index.bytes: maximum size of an index."""
    index_interval_bytes: int
    delete_retention_ms: int
    old_horizon_ms: int
    """Tombstones of formats 0 and 1 are removed from segments whose `created_ms` is not later than this."""
    last_batches: set[int]
    """The last offset of the last batch of each producer."""
    last_epochs: dict[int, int]
    """The epoch of each producer that has no batch, by producer id."""
    aborted: Mapping[int, list[AbortedTransaction]]
    """The aborted transactions by producer id, in the order of their offsets."""

    @property
    def source_bytes(self) -> int:
        """Size of all sources in bytes."""
        return sum(source.size for source in self.sources)


class CopiedSegments(NamedTuple):
    """The result of a copy."""

    cleaned_to: int
    """The offset up to which the keys of all records were read."""
    groups: list[list[int]]
    """For each new segment, the base offsets of the segments that it replaces. The first is also that of the new one.
    """


class SegmentCopier:
    """Reads the keys of a plan's sources, and writes `.cleaned` segments with the records to retain."""

    def __init__(self, plan: CopyPlan, spend: Spend) -> None:
        self._plan = plan
        self._spend = spend
        self._keys = OffsetMap(plan.map_bytes)
        self._end = plan.first_dirty
        self._with_retained_data: set[int] = set()
        """The ids of the producers whose current transaction, in the order of the log, has retained batches."""

    def copy(self) -> CopiedSegments:
        """Write the new segments, and wait until they are on disk.

        Raises OSError, CorruptMessageError, and the error of `spend`. Some of the new segments may then remain.
        """
        end = self._end = self._read_keys()
        sources = [source for source in self._plan.sources if source.base_offset < end]
        copied: list[list[int]] = []
        for group in _groups(sources, self._plan.segment_bytes, end):
            self._copy_group(group)
            copied.append([source.base_offset for source in group])
        return CopiedSegments(end, copied)

    def _read_keys(self) -> int:
        """Add the keys of the dirty range to the map.

        Return the offset up to which the keys of all batches are in it. If the map becomes full, this is the start of
        the first batch whose keys may not fit, and the log from there on is not changed.
        """
        for source in self._plan.sources:
            full_at = self._read_segment(source)
            if full_at is not None:
                return full_at
        return self._plan.limit

    def _read_segment(self, source: SourceSegment) -> int | None:
        """Add a segment's keys to the map.

        Return the base offset of the first batch whose keys may not fit, or the start of the dirty range if that is
        higher; None if all fit.
        """
        for header, _, records in self._records(source, self._plan.first_dirty):
            if header.base_offset >= self._plan.limit:
                return None
            if header.is_control or self._is_aborted(header):
                continue
            if len(self._keys) + len(records) > self._keys.max_keys:
                return max(header.base_offset, self._plan.first_dirty)
            for record in records:
                if record.key is not None:
                    self._keys.put(record.key, record.offset)
        return None

    def _records(self, source: SourceSegment, from_offset: int) -> Iterator[tuple[BatchHeader, bytes, list[Record]]]:
        """Yield (header, bytes, records from `from_offset` on) of a segment's batches that end at `from_offset` or
        later.
        """
        file = LogFile(self._plan.directory / file_name(source.base_offset, LOG_SUFFIX), writable=False)
        for position, header in headers(file, 0, source.size):
            if header.last_offset >= from_offset:
                self._spend(header.size_in_bytes)
                batch = file.read(position, header.size_in_bytes)
                yield header, batch, any_magic.decode_records(batch, 0, header, from_offset)

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        aborted = self._plan.aborted.get(header.producer_id, [])
        i = bisect_left(aborted, header.base_offset, key=lambda a: a.last_offset)
        return i < len(aborted) and aborted[i].first_offset <= header.base_offset

    def _copy_group(self, group: list[SourceSegment]) -> None:
        target = cleaned_segment(self._plan, group[0].base_offset)
        target.create(group[-1].created_ms)
        try:
            for source in group:
                old_tombstones_go = source.created_ms <= self._plan.old_horizon_ms
                for header, batch, records in self._records(source, 0):
                    rewritten = self._filter(header, batch, records, old_tombstones_go=old_tombstones_go)
                    if rewritten is None:
                        continue
                    self._spend(len(rewritten))
                    target.append(rewritten, [(any_magic.read_header(rewritten), 0, len(rewritten))])
            self._copy_transaction_index(group, target)
            target.finish()
            target.set_modification_time()
            target.sync()
        finally:
            target.close()

    def _copy_transaction_index(self, group: list[SourceSegment], target: Segment) -> None:
        """Copy the index entries of the aborted transactions whose markers are after the cleaned range, because some of
        their records may remain.
        """
        index = TransactionIndex(target.path(TXN_INDEX_SUFFIX))
        for source in group:
            for aborted in source.aborted:
                if aborted.last_offset >= self._end:
                    index.append(aborted)

    def _filter(
        self,
        header: BatchHeader,
        batch: bytes,
        records: list[Record],
        *,
        old_tombstones_go: bool,
    ) -> bytes | memoryview | None:
        """Return the batch to write: unchanged, or rewritten with fewer records, without records or with a delete
        horizon; None to remove the batch.
        """
        if header.base_offset >= self._end:
            return batch
        if header.magic < MAGIC:
            retained = [r for r in records if self._keeps(r, expired=old_tombstones_go)]
            if len(retained) == len(records):
                return batch
            return legacy_message_set.encode_set(retained, header.attributes, header.magic) if retained else None
        horizon = header.base_timestamp if header.has_delete_horizon else None
        expired = horizon is not None and horizon <= self._plan.now_ms
        if header.is_control:
            if records and self._still_has_data(header, records[0]):
                return batch
            retained = [] if expired else records
            needs_horizon = bool(retained)
        else:
            aborted = self._is_aborted(header)
            retained = [] if aborted else [r for r in records if self._keeps(r, expired=expired)]
            needs_horizon = any(r.value is None for r in retained)
            if retained:
                self._on_batch_retained(header)
        if needs_horizon and horizon is None:
            horizon = self._plan.now_ms + self._plan.delete_retention_ms
            return _rewrite(header, retained, horizon)
        if retained:
            return batch if len(retained) == len(records) else _rewrite(header, retained, horizon)
        if header.is_control:
            return batch if self._plan.last_epochs.get(header.producer_id) == header.producer_epoch else None
        if header.last_offset not in self._plan.last_batches:
            return None
        # without its marker, the batch would start a transaction that never ends
        self._on_batch_retained(header)
        return _without_records(header)

    def _keeps(self, record: Record, *, expired: bool) -> bool:
        """Return whether to retain a record: it has a key, the map has no later offset for the key, and the record is
        not an expired tombstone.
        """
        if record.key is None:
            return False
        if self._keys.get(record.key) > record.offset:
            return False
        return record.value is not None or not expired

    def _on_batch_retained(self, header: BatchHeader) -> None:
        """Record that a batch of its producer's current transaction is retained, if the batch is transactional."""
        if header.is_transactional:
            self._with_retained_data.add(header.producer_id)

    def _still_has_data(self, header: BatchHeader, record: Record) -> bool:
        """Return whether the transaction that a marker ends has retained batches.

        Also forget the transaction, because the producer's next one starts after the marker. Return True for a record
        that is not a marker.
        """
        marker = read_marker(record)
        had = header.producer_id in self._with_retained_data
        self._with_retained_data.discard(header.producer_id)
        return marker is None or had


def copy_segments(plan: CopyPlan, spend: Spend) -> CopiedSegments:
    """Run a copy in this thread."""
    return SegmentCopier(plan, spend).copy()


def cleaned_segment(plan: CopyPlan, base_offset: int) -> Segment:
    """Return the new segment with this base offset, whose files end with `.cleaned`. No files are opened or created."""
    return Segment(
        plan.directory,
        base_offset,
        index_bytes=plan.index_bytes,
        index_interval_bytes=plan.index_interval_bytes,
        ending=CLEANED_SUFFIX,
    )


def _groups(segments: list[SourceSegment], max_bytes: int, end: int) -> Iterator[list[SourceSegment]]:
    """Yield the segments in groups of neighbours, each to be copied into one segment, so that the number of small
    segments does not grow.
    """
    group: list[SourceSegment] = []
    for i, segment in enumerate(segments):
        following = segments[i + 1].base_offset if i + 1 < len(segments) else end
        too_large = sum(s.size for s in group) + segment.size > max_bytes
        if group and (too_large or following - group[0].base_offset > MAX_RELATIVE_OFFSET):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _rewrite(header: BatchHeader, records: list[Record], horizon: int | None) -> memoryview:
    """Return the batch with only these records. Producer id, epoch and the range of offsets stay the same."""
    size = sum(record_size_upper_bound(len(r.key or b""), len(r.value or b""), r.headers) for r in records)
    builder = BatchBuilder(
        bytearray(HEADER_BYTES + size), header.codec, base_offset=header.base_offset, delete_horizon_ms=horizon
    )
    for record in records:
        try:
            fits = builder.append_at(record.offset, record.timestamp, record.key, record.value, record.headers)
        except ValueError as error:  # offsets that do not increase
            raise CorruptMessageError(f"the batch at offset {header.base_offset} is damaged: {error}") from None
        assert fits, "the buffer was made large enough"
    return builder.close(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        transactional=header.is_transactional,
        control=header.is_control,
        leader_epoch=header.leader_epoch,
        append_time_ms=header.max_timestamp if header.timestamp_type else None,
        last_offset_delta=header.last_offset_delta,
    )


def _without_records(header: BatchHeader) -> bytes:
    """Return the batch without records, which keeps the sequence number.

    It has no codec, because compressing no bytes yields some bytes.
    """
    out = bytearray(HEADER_BYTES)
    attributes = header.attributes & ~CODEC_MASK
    write_header(out, 0, header._replace(length=HEADER_BYTES - LOG_OVERHEAD, attributes=attributes, count=0))
    return bytes(out)
