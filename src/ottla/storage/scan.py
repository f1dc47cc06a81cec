"""Iterating over the batches of a segment's file by their headers, without decoding the records."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records import any_magic
from ottla.records.any_magic import MIN_BATCH_BYTES
from ottla.records.batch import HEADER_BYTES, BatchHeader
from ottla.records.scanner import Scanner, skip_batches
from ottla.storage.files import LogFile

CHUNK_BYTES = 8 * 1024
"""Number of bytes per read: more than the default index.interval.bytes, so that most lookups need one read."""
SCAN_CHUNK_BYTES = 1024 * 1024
MAX_OFFSET = (1 << 63) - 1


def headers(
    file: LogFile, position: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every whole batch in the file from `position` to before `end`.

    A batch that extends beyond `end` ends the iteration. Raises CorruptMessageError for bytes that cannot be a batch.
    CRCs are not verified.
    """
    chunk = b""
    chunk_start = position
    while end - position >= MIN_BATCH_BYTES:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(chunk_bytes, end - position))
            chunk_start, at = position, 0
            if not any_magic.begins_in(chunk, 0, len(chunk)):
                return
        header = any_magic.read_header(chunk, at)
        if position + header.size_in_bytes > end:
            return
        yield position, header
        position += header.size_in_bytes


def skip(
    file: LogFile, position: int, end: int, *, room: int = MAX_OFFSET, offset: int = MAX_OFFSET, chunk_bytes: int
) -> tuple[int, int, int]:
    """Skip the batches from `position` to before `end` that end before `offset` and within `room` bytes.

    Return the position after them; the offset that follows them, or if none was skipped the base offset of the batch at
    `position` (-1 if there is none); and the size of the batch that ended the search (0 if no batch did).

    Raises CorruptMessageError for bytes that cannot be a batch. CRCs are not verified.
    """
    limit, next_offset, has_skipped = position + room, -1, False
    while True:
        chunk = file.read(position, min(chunk_bytes, end - position))
        skipped, following, nbytes = skip_batches(chunk, min(limit, end) - position, offset)
        position += skipped
        if not has_skipped or skipped:
            next_offset = following
        if nbytes or not skipped:
            return position, next_offset, nbytes
        has_skipped = True


def walk(file: LogFile, scanner: Scanner, end: int) -> None:
    """Feed a scanner with the file, up to the first damage, or the first batch that extends beyond `end`."""
    while not scanner.damaged and end - scanner.position >= scanner.needed:
        nbytes = min(max(SCAN_CHUNK_BYTES, scanner.needed), end - scanner.position)
        chunk = file.read(scanner.position, nbytes)
        if len(chunk) < scanner.needed:
            return
        scanner.feed(chunk)
