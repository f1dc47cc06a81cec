"""Validates the records of a producer's batch before it is appended: the part of Kafka's LogValidator that reads them.

Every record must fill its length, offset deltas must count from 0, and the header's record count must be correct: a
consumer cannot read past a batch that breaks these rules. The compiled form copies nothing. Compiled with
validator.pxd.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

try:
    import cython
except ImportError:
    from ottla.records import _cython as cython

from ottla.errors import CorruptMessageError

if cython.compiled:
    from cython.cimports.ottla.records.fast_cursor import next_size32, next_varint, next_varlong, skip
else:
    from ottla.records.decoder import Cursor

    # In the compiled form these are inlined, from fast_cursor.pxd.
    next_size32, next_varint, next_varlong, skip = Cursor.size32, Cursor.varint, Cursor.varlong, Cursor.skip

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_TIMESTAMP = (1 << 63) - 1
MIN_TIMESTAMP = -(1 << 63)
NO_TIMESTAMP = -1
MAX_ERRORS = 1000
"""Maximum length of each list of invalid records in `Validated`, because a batch may have millions of them."""


class Validated(NamedTuple):
    """The result of the validation of one batch."""

    max_timestamp: int
    """The largest timestamp; -1 if none is larger."""
    without_key: list[int]
    """Positions of the first records without a key, if a key is required."""
    out_of_bounds: list[tuple[int, int]]
    """(position, timestamp) of the first records with a timestamp other than -1 that is not within the bounds."""


def validate_records(
    data: Buffer,
    count: int,
    base_timestamp: int,
    earliest: int,
    latest: int,
    needs_key: bool,
) -> Validated:
    """Validate the uncompressed records of a batch, whose header has the record count `count`.

    Timestamps other than -1 that are not between `earliest` and `latest`, both included, are in the result, up to
    MAX_ERRORS of them. Raises CorruptMessageError if the bytes are not exactly `count` records with consecutive offset
    deltas from 0.
    """
    cursor = Cursor(data)
    # C numbers in the compiled form: a global is a Python object.
    highest = MAX_TIMESTAMP
    lowest = MIN_TIMESTAMP
    none = NO_TIMESTAMP
    max_timestamp = none
    without_key: list[int] = []
    out_of_bounds: list[tuple[int, int]] = []
    i = 0
    try:
        while i < count:
            size = next_size32(cursor)
            if size < 1:
                raise CorruptMessageError(f"its length is {size}")
            record_end = cursor.pos + size
            cursor.pos += 1
            delta = next_varlong(cursor)
            overflows = base_timestamp > highest - delta if delta > 0 else base_timestamp < lowest - delta
            timestamp = base_timestamp + delta if not overflows else highest if delta > 0 else lowest
            is_wrong = overflows or (timestamp != none and not earliest <= timestamp <= latest)
            if is_wrong and len(out_of_bounds) < MAX_ERRORS:
                out_of_bounds.append((i, timestamp))
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            offset_delta = next_varint(cursor)
            if offset_delta != i:
                raise CorruptMessageError(f"its offset delta is {offset_delta}")
            size = next_size32(cursor)
            if size < 0 and needs_key and len(without_key) < MAX_ERRORS:
                without_key.append(i)
            skip(cursor, size)
            skip(cursor, next_size32(cursor))
            _skip_headers(cursor)
            if cursor.pos != record_end:
                raise CorruptMessageError("it does not fill its length")
            i += 1
    except CorruptMessageError as error:
        raise CorruptMessageError(f"record {i} of {count} is malformed: {error.message}") from None
    if cursor.pos != cursor.end:
        raise CorruptMessageError(f"{cursor.end - cursor.pos} bytes follow the last of {count} records")
    return Validated(max_timestamp, without_key, out_of_bounds)


def _skip_headers(cursor: Cursor) -> None:
    count = next_varint(cursor)
    if count < 0 or count > cursor.end - cursor.pos:
        raise CorruptMessageError(f"its header count is {count}")
    while count > 0:
        size = next_size32(cursor)
        if size < 0:
            raise CorruptMessageError("it has a header without a key")
        skip(cursor, size)
        skip(cursor, next_size32(cursor))
        count -= 1
