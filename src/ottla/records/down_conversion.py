"""Down-conversion of batches to message format 0 or 1, for consumers older than Kafka 0.11.

See also `up_conversion`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import UnsupportedCompressionTypeError
from ottla.records import any_magic
from ottla.records.compression import ZSTD
from ottla.records.legacy_message_set import encode_set

if TYPE_CHECKING:
    from typing_extensions import Buffer


def down_converted(buf: Buffer, magic: int, from_offset: int = 0) -> bytes:
    """Convert batches of any format to a message set of format 0 or 1, for a consumer that knows no newer one.

    Batches in its format or an older one stay as they are. Other batches keep offsets, keys, values and codecs, but
    lose headers, producer ids and, in format 0, timestamps. Control batches are left out. Records before
    `from_offset` are left out, so that a first fetch into a batch is no larger than necessary. Raises
    UnsupportedCompressionTypeError for zstd, which old consumers do not have.
    """
    out = bytearray()
    for header, start, end in any_magic.split(buf):
        if header.is_control or header.next_offset <= from_offset:
            continue
        if header.magic <= magic:
            out += memoryview(buf)[start:end]
            continue
        any_magic.verify(buf, start, header)
        if header.codec == ZSTD:
            raise UnsupportedCompressionTypeError("records compressed with zstd need a consumer of 2.1 or later")
        decoded = any_magic.decode_records(buf, start, header, from_offset)
        if decoded:
            out += encode_set(decoded, header.attributes, magic)
    return bytes(out)
