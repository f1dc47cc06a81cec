"""Reading one segment in remote storage: batches by offset, offsets by time, aborted transactions, and the leader
epochs and producer state at its end.

Positions are looked up in the segment's indexes, as on disk. Indexes are read as a whole, the log file in chunks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from struct import Struct
from typing import Final, NamedTuple

from ottla.errors import CorruptMessageError
from ottla.model import OffsetAndTimestamp
from ottla.records import any_magic
from ottla.records.batch import BatchHeader
from ottla.remote_log.chunk_cache import ChunkReader
from ottla.remote_log.remote_storage import RemoteFile, RemoteStorageError, object_name
from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.txn_index import AbortedTransaction, entries_in

OFFSET_ENTRY: Final = Struct(">ii")
"""An entry of an offset index: an offset relative to the segment's base offset, and a position in the log file."""
TIME_ENTRY: Final = Struct(">qi")
"""An entry of a time index: a timestamp and a relative offset."""


class RemoteBatches(NamedTuple):
    """Whole batches of a segment. `until`: an upper bound of the offset after them."""

    data: memoryview
    until: int


def _before(batches: RemoteBatches, until: int) -> RemoteBatches:
    """Return the batches that begin before an offset."""
    end = 0
    for header, start, after in any_magic.split(batches.data):
        if header.base_offset >= until:
            return RemoteBatches(batches.data[:start], until)
        end = after
    return RemoteBatches(batches.data[:end], batches.until)


class _Index:
    """The content of an index file: entries of two numbers, both of which ascend from entry to entry."""

    def __init__(self, content: bytes, entry: Struct) -> None:
        self._content = content
        self._entry = entry
        count = len(content) // entry.size
        empty = bytes(entry.size)
        while count > 1 and content[(count - 1) * entry.size : count * entry.size] == empty:
            count -= 1  # Kafka preallocates indexes
        self.count = count

    def __getitem__(self, i: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(self._content, i * self._entry.size)
        return first, second

    def floor(self, value: int, of: Callable[[tuple[int, int]], int]) -> tuple[int, int] | None:
        """Return the last entry whose number is at most `value`; None if there is none. `of` selects one of an entry's
        two numbers.
        """
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if of(self[middle]) <= value:
                low = middle + 1
            else:
                high = middle
        return self[low - 1] if low else None


def _first(entry: tuple[int, int]) -> int:
    return entry[0]


def _second(entry: tuple[int, int]) -> int:
    return entry[1]


class RemoteSegment:
    """A segment in remote storage. Not thread-safe: event loop only.

    Methods raise RemoteStorageError, TooManyRemoteReadsError, or KafkaStorageError or CorruptMessageError for damage.
    """

    def __init__(self, segment: RemoteLogSegmentMetadata, chunks: ChunkReader) -> None:
        self.metadata = segment
        self._chunks = chunks
        self._log = object_name(segment, RemoteFile.LOG)

    async def _offset_index(self) -> _Index:
        return _Index(await self._chunks.read_whole(object_name(self.metadata, RemoteFile.OFFSET_INDEX)), OFFSET_ENTRY)

    async def read(self, offset: int, max_bytes: int, until: int, *, at_least_one: bool) -> RemoteBatches | None:
        """Return whole batches that begin before `until`, from the one that contains `offset` on.

        They have at most `max_bytes`, and usually end within one chunk; a first batch that extends over several chunks
        is returned alone. If the first batch is larger than `max_bytes`, return only this batch with `at_least_one`,
        else no bytes. Return None if there is no batch at `offset` or later that begins before `until`.
        """
        index = await self._offset_index()
        async for position, header, data in self._batches(self._position(index, offset)):
            if header.base_offset >= until:
                return None
            if header.last_offset >= offset:
                batches = await self._from(position, header, data, index, max_bytes, at_least_one=at_least_one)
                return batches if until >= self.metadata.next_offset else _before(batches, until)
        return None

    def _position(self, index: _Index, offset: int) -> int:
        entry = index.floor(offset - self.metadata.start_offset, _first)
        return 0 if entry is None else entry[1]

    async def _from(
        self, position: int, first: BatchHeader, data: memoryview, index: _Index, max_bytes: int, *, at_least_one: bool
    ) -> RemoteBatches:
        """Return the batches that begin with `first`. `data` contains the bytes read from there on."""
        if first.size_in_bytes > max_bytes:
            if not at_least_one:
                return RemoteBatches(memoryview(b""), first.base_offset)
            return RemoteBatches(await self._whole(position, first, data), first.next_offset)
        if first.size_in_bytes > len(data):
            return RemoteBatches(await self._whole(position, first, data), first.next_offset)
        limit = min(max_bytes, len(data))
        # the batches before an indexed one need not be looked at
        entry = index.floor(position + limit, _second)
        end, until = first.size_in_bytes, first.next_offset
        if entry is not None and entry[1] - position > end:
            end, until = entry[1] - position, self.metadata.start_offset + entry[0] + 1
        while any_magic.begins_in(data, end, len(data) - end):
            header = self._header(data, end, position + end)
            if end + header.size_in_bytes > limit:
                break
            end, until = end + header.size_in_bytes, max(until, header.next_offset)
        self._read_ahead(position + end)
        return RemoteBatches(data[:end], until)

    def _read_ahead(self, position: int) -> None:
        """Start to read the next chunk if the second half of this one is reached, as most consumers read on."""
        number, within = divmod(position, self._chunks.chunk_bytes)
        if 2 * within >= self._chunks.chunk_bytes and (number + 1) * self._chunks.chunk_bytes < self.metadata.size:
            self._chunks.read_ahead(self._log, number + 1)

    async def _whole(self, position: int, header: BatchHeader, data: memoryview) -> memoryview:
        """Return a whole batch, which may extend over several chunks."""
        parts, missing = [data[: header.size_in_bytes]], header.size_in_bytes - len(data)
        number = (position + len(data)) // self._chunks.chunk_bytes  # `data` ends where this chunk begins
        while missing > 0:
            chunk = memoryview(await self._chunk(number))
            parts.append(chunk[:missing])
            missing -= len(chunk)
            number += 1
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    async def _chunk(self, number: int) -> bytes:
        data = await self._chunks.read_chunk(self._log, number)
        expected = min(self._chunks.chunk_bytes, self.metadata.size - number * self._chunks.chunk_bytes)
        if len(data) != expected:
            raise RemoteStorageError(f"{self._log} has {len(data)} bytes in chunk {number} instead of {expected}")
        return data

    def _header(self, data: memoryview, at: int, position: int) -> BatchHeader:
        try:
            header = any_magic.read_header(data, at)
        except CorruptMessageError as error:
            raise RemoteStorageError(f"{self._log} is damaged at byte {position}: {error}") from None
        if position + header.size_in_bytes > self.metadata.size:
            raise RemoteStorageError(f"{self._log} is damaged at byte {position}: a batch ends beyond the segment")
        return header

    async def _batches(self, position: int) -> AsyncIterator[tuple[int, BatchHeader, memoryview]]:
        """Yield position and header of each batch from a position on, and the bytes read from there on."""
        size = self._chunks.chunk_bytes
        data, start = memoryview(b""), position
        while position < self.metadata.size:
            at = position - start
            if not any_magic.begins_in(data, at, len(data) - at):
                # the next chunk, and the rest of the one before if a header extends over both
                rest = bytes(data[at:])
                start = position
                number, skipped = divmod(position + len(rest), size)
                data = memoryview(rest + (await self._chunk(number))[skipped:])
                if not any_magic.begins_in(data, 0, len(data)):
                    if (number + 1) * size >= self.metadata.size:
                        raise RemoteStorageError(f"{self._log} is damaged at byte {position}: it ends in a batch")
                    continue
                at = 0
            header = self._header(data, at, position)
            yield position, header, data[at:]
            position += header.size_in_bytes
            if position - start > len(data):
                start, data = position, memoryview(b"")

    async def find_timestamp(self, timestamp: int, from_offset: int) -> OffsetAndTimestamp | None:
        """Return offset, timestamp and leader epoch of the first record from `from_offset` on with this timestamp or a
        later one; None if there is none.
        """
        times = _Index(await self._chunks.read_whole(object_name(self.metadata, RemoteFile.TIME_INDEX)), TIME_ENTRY)
        entry = times.floor(timestamp, _first)
        offset = self.metadata.start_offset + (0 if entry is None else entry[1])
        index = await self._offset_index()
        async for position, header, data in self._batches(self._position(index, max(offset, from_offset))):
            if header.max_timestamp < timestamp or header.last_offset < from_offset:
                continue
            batch = await self._whole(position, header, data)
            for record in any_magic.decode_records(batch, 0, header, from_offset):
                if record.timestamp >= timestamp:
                    return OffsetAndTimestamp(record.offset, record.timestamp, header.leader_epoch)
        return None

    async def aborted_transactions(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers are in the segment, in the order of the markers."""
        if self.metadata.txn_index_empty:
            return []
        name = object_name(self.metadata, RemoteFile.TRANSACTION_INDEX)
        return entries_in(await self._chunks.read_whole(name), name)

    async def leader_epochs(self) -> bytes:
        """Return the content of the leader epoch checkpoint that covers the log up to the segment's end."""
        return await self._chunks.read_whole(object_name(self.metadata, RemoteFile.LEADER_EPOCHS))

    async def producer_snapshot(self) -> bytes:
        """Return the content of the producer snapshot at the segment's end."""
        return await self._chunks.read_whole(object_name(self.metadata, RemoteFile.PRODUCER_SNAPSHOT))
