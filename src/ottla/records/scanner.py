"""Scans the headers of a log's batches: the lookups of each read, and the rebuilding of indexes.

A `Scanner` goes through a segment chunk by chunk, which dominates the start after a crash. It validates the batches and
collects the data to rebuild: index entries, leader epochs, and the batches that determine the producer state. Messages
of formats 0 and 1 count as batches. Compiled with scanner.pxd.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError
from ottla.records.any_magic import MIN_BATCH_BYTES
from ottla.records.batch import (
    CONTROL_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    TRANSACTIONAL_MASK,
)
from ottla.records.crc import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

DELTA_END = 27
"""The number of bytes of a batch of format 2 that a lookup needs: up to the delta of its last offset."""
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
"""The largest relative offset that an index entry can hold."""


def be32(p: memoryview, at: int) -> int:
    """Return the signed 32-bit number at `at`."""
    if cython.compiled:
        return (p[at] << 24) | (p[at + 1] << 16) | (p[at + 2] << 8) | p[at + 3]
    return int.from_bytes(p[at : at + 4], "big", signed=True)


def be64(p: memoryview, at: int) -> int:
    """Return the signed 64-bit number at `at`."""
    if cython.compiled:
        high = be32(p, at)
        return (high << 32) | (be32(p, at + 4) & 0xFFFFFFFF)
    return int.from_bytes(p[at : at + 8], "big", signed=True)


def last_at_most(entries: bytes | bytearray, entry_bytes: int, field_at: int, field_bytes: int, target: int) -> int:
    """Return the index of the last entry whose field is at most `target`; -1 if there is none.

    `entries`: whole entries of `entry_bytes`, sorted by the field, which is a signed number of 4 or 8 bytes at
    `field_at`. Nothing outside of an entry may be read: `field_at` + `field_bytes` must be at most `entry_bytes`.
    """
    assert field_bytes in (4, 8)
    assert 0 <= field_at <= entry_bytes - field_bytes
    # In compiled code a pointer: a view of the bytes takes longer than the search.
    p: Any = entries if cython.compiled else memoryview(entries)
    low, high = -1, len(entries) // entry_bytes
    while high - low > 1:
        middle = (low + high) // 2
        at = middle * entry_bytes + field_at
        value = be32(p, at) if field_bytes == 4 else be64(p, at)
        if value <= target:
            low = middle
        else:
            high = middle
    return low


def skip_batches(chunk: bytes, room: int, offset: int) -> tuple[int, int, int]:
    """Skip the batches of any format at the start of `chunk` that end before `offset` and within `room` bytes.

    `chunk` may end within a batch, or even within its header.

    Return the number of bytes skipped, which may be more than `chunk` has; the offset that follows them, or if none was
    skipped the base offset of the first batch (-1 if `chunk` has too few bytes of it); and the size of the batch that
    ended the search (0 if `chunk` ended before). Raises CorruptMessageError for bytes that cannot be a batch.
    """
    p: Any = chunk if cython.compiled else memoryview(chunk)
    size = len(chunk)
    at = 0
    next_offset = -1
    while size - at >= MIN_BATCH_BYTES:
        magic = p[at + 16]
        nbytes = be32(p, at + 8) + LOG_OVERHEAD
        if magic > MAGIC or nbytes < (HEADER_BYTES if magic == MAGIC else MIN_BATCH_BYTES + 8 * magic):
            raise CorruptMessageError(f"no batch: message format {magic} and {nbytes} bytes")
        if magic == MAGIC and size - at < DELTA_END:
            break
        base_offset = be64(p, at)
        last_offset = base_offset + (be32(p, at + 23) if magic == MAGIC else 0)
        if last_offset >= offset or nbytes > room - at:
            return at, base_offset if next_offset < 0 else next_offset, nbytes
        next_offset = last_offset + 1
        at += nbytes
    return at, next_offset, 0


def _is_sound(batch: memoryview, crc: int, old_crc: int) -> bool:
    """Return whether the CRC in the batch matches its bytes. Its position depends on the message format."""
    if batch[MAGIC_POSITION] == MAGIC:
        return crc32c(batch[CRC_START:], 0) == crc & 0xFFFFFFFF
    return zlib.crc32(batch[MAGIC_POSITION:]) == old_crc & 0xFFFFFFFF


class Scanner:
    """A scan of a segment from the batch at `position` on.

    Call `feed` repeatedly with the file's bytes from `position` on; it skips whole batches. The scan ends, and
    `damaged` is set, at bytes that are not a batch, at offsets that do not increase (or, in format 2 from
    `contiguous_from` on, are not consecutive), at a batch that ends beyond `max_offset`, or, with `check_crc`, at
    a wrong CRC.
    """

    __slots__ = (
        "_check_crc",
        "_contiguous_from",
        "_epoch",
        "_interval",
        "_keep",
        "_max_offset",
        "_recent",
        "_since_entry",
        "damaged",
        "entries",
        "epochs",
        "max_timestamp",
        "needed",
        "next_offset",
        "offset_of_max_timestamp",
        "position",
        "replay",
    )

    def __init__(
        self,
        position: int,
        next_offset: int,
        *,
        check_crc: bool,
        contiguous_from: int = (1 << 63) - 1,
        max_offset: int = (1 << 63) - 1,
        index_interval_bytes: int = 4096,
        batches_per_producer: int = 5,
    ) -> None:
        self._check_crc = check_crc
        self._contiguous_from = contiguous_from
        self._max_offset = max_offset
        self._interval = index_interval_bytes
        self._keep = batches_per_producer
        self._since_entry = 0
        self._epoch = -1
        self._recent: dict[int, list[int]] = {}
        self.position = position
        """Position of the next batch, or of the damage."""
        self.next_offset = next_offset
        """The offset after the last batch; before the first batch, the minimum for its offset."""
        self.needed = MIN_BATCH_BYTES
        """The minimum number of bytes from `position` on with which the next feed can skip a batch."""
        self.damaged = False
        self.max_timestamp = -1
        self.offset_of_max_timestamp = next_offset
        self.entries: list[tuple[int, int, int, int]] = []
        """Index entries: (last offset, position) of a batch, and the highest timestamp so far with its offset."""
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, first offset) of each leader epoch that is higher than all before it."""
        self.replay: list[int] = []
        """Positions of transactional and control batches with a producer id. `replay_positions` adds the last ones of
        idempotent producers.
        """

    def feed(self, chunk: Buffer) -> int:
        """Skip the whole batches in `chunk`, which begins at `position`, and return their size in bytes."""
        whole = memoryview(chunk)
        view = whole
        size = len(view)
        if size < MIN_BATCH_BYTES or self.damaged:
            return 0
        p = cython.address(view[0]) if cython.compiled else view
        at = 0
        while size - at >= MIN_BATCH_BYTES:
            magic = p[at + 16]
            nbytes = be32(p, at + 8) + LOG_OVERHEAD
            if magic > MAGIC or nbytes < (HEADER_BYTES if magic == MAGIC else MIN_BATCH_BYTES + 8 * magic):
                self.damaged = True
                break
            if nbytes > size - at:
                self.needed = nbytes
                self.position += at
                return at
            offset = be64(p, at)
            delta = be32(p, at + 23) if magic == MAGIC else 0
            if (
                offset < self.next_offset
                or delta < 0
                or offset > self._max_offset - delta
                or (offset > self.next_offset >= self._contiguous_from and magic == MAGIC)
                or (self._check_crc and not _is_sound(whole[at : at + nbytes], be32(p, at + 17), be32(p, at + 12)))
            ):
                self.damaged = True
                break
            timestamp = -1 if magic == 0 else be64(p, at + (35 if magic == MAGIC else 18))
            self._note(self.position + at, offset + delta, nbytes, timestamp)
            if magic == MAGIC:
                self._note_epoch(be32(p, at + 12), offset)
                producer_id = be64(p, at + 43)
                if producer_id >= 0:
                    self._note_producer(producer_id, self.position + at, p[at + 22])
            at += nbytes
        self.needed = MIN_BATCH_BYTES
        self.position += at
        return at

    def _note(self, position: int, last_offset: int, nbytes: int, timestamp: int) -> None:
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = last_offset
        if self._since_entry > self._interval:
            self.entries.append((last_offset, position, self.max_timestamp, self.offset_of_max_timestamp))
            self._since_entry = 0
        self._since_entry += nbytes
        self.next_offset = last_offset + 1

    def _note_epoch(self, epoch: int, offset: int) -> None:
        if epoch > self._epoch:
            self._epoch = epoch
            self.epochs.append((epoch, offset))

    def _note_producer(self, producer_id: int, position: int, attributes: int) -> None:
        if attributes & (TRANSACTIONAL_MASK | CONTROL_MASK):
            self.replay.append(position)
            return
        recent = self._recent.get(producer_id)
        if recent is None:
            self._recent[producer_id] = [position]
            return
        recent.append(position)
        if len(recent) > self._keep:
            del recent[0]

    def replay_positions(self) -> list[int]:
        """Return the positions, in order, of the batches that determine the producer state after the scan.

        Of an idempotent producer's batches outside of transactions, only the last ones count.
        """
        return sorted([*self.replay, *(position for recent in self._recent.values() for position in recent)])
