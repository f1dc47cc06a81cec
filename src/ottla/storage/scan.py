"""Walking over the batches of a segment's file by their headers, without reading what lies between."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import CorruptMessageError
from ottla.records.batch import HEADER_BYTES, BatchHeader, read_header, verify
from ottla.storage.files import LogFile

CHUNK_BYTES = 8 * 1024
"""Read at once; more than an index interval, so that most lookups take one read."""
RECOVERY_CHUNK_BYTES = 1024 * 1024


def headers(
    file: LogFile, position: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch in [position, end) of the file.

    Raises CorruptMessageError where there is no batch; a batch that is cut off by `end` ends the walk.
    """
    chunk = b""
    chunk_start = position
    while end - position >= HEADER_BYTES:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = file.read(position, min(chunk_bytes, end - position))
            chunk_start, at = position, 0
            if len(chunk) < HEADER_BYTES:
                return
        header = read_header(chunk, at)
        if position + header.size_in_bytes > end:
            return
        yield position, header
        position += header.size_in_bytes


def sound_batches(file: LogFile, end: int, first_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `headers` from the file's start, with every CRC checked and offsets that must grow from `first_offset`.

    Ends silently at the first batch that is damaged: recovery cuts the file there.
    """
    position = 0
    next_offset = first_offset
    chunk = memoryview(b"")
    chunk_start = 0
    while end - position >= HEADER_BYTES:
        at = position - chunk_start
        if at + HEADER_BYTES > len(chunk):
            chunk = memoryview(file.read(position, min(RECOVERY_CHUNK_BYTES, end - position)))
            chunk_start, at = position, 0
        try:
            header = read_header(chunk, at)
            if position + header.size_in_bytes > end:
                return
            if at + header.size_in_bytes > len(chunk):
                chunk = memoryview(
                    file.read(position, max(header.size_in_bytes, min(RECOVERY_CHUNK_BYTES, end - position)))
                )
                chunk_start, at = position, 0
            verify(chunk, at, header)
        except CorruptMessageError:
            return
        if header.base_offset < next_offset:
            return
        yield position, header
        next_offset = header.next_offset
        position += header.size_in_bytes
