"""Message formats 0 and 1, of Kafka before 0.11: decoding, encoding, and conversion to v2 batches.

offset 8 · size 4 · CRC32 4 · magic 1 · attributes 1 · (timestamp 8 in format 1) · key 4+n · value 4+n

A compressed message's value is a message set of its own: with absolute offsets in format 0, with relative ones in
format 1, where the outer message has the offset of the last inner one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla import errors
from ottla.records import compression
from ottla.records.batch import CODEC_MASK, HEADER_BYTES, MAGIC, MAGIC_POSITION
from ottla.records.builder import BatchBuilder, record_size_upper_bound
from ottla.records.compression import LZ4, NONE, ZSTD, DecompressedTooLargeError
from ottla.records.decoder import Record

if TYPE_CHECKING:
    from typing_extensions import Buffer

LOG_OVERHEAD: Final = 12
TIMESTAMP_TYPE_MASK: Final = 0x08
MIN_MESSAGE_BYTES: Final = 14
"""CRC, magic, attributes and two lengths: the smallest `size`."""

_HEAD = Struct(">qiIbb")
_LENGTH = Struct(">i")
_TIMESTAMP = Struct(">q")

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_FLAGS_END: Final = 6


class LegacyMessage(NamedTuple):
    """One message of a message set. If it is compressed, `value` is the compressed inner message set."""

    position: int
    offset: int
    size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    is_valid: bool

    @property
    def codec(self) -> int:
        """The codec's id."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """The timestamp type: 0 CreateTime, 1 LogAppendTime, -1 in format 0, which has no timestamps."""
        return -1 if self.magic == 0 else (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def size_in_bytes(self) -> int:
        """Size in bytes of the message with its offset and size fields."""
        return self.size + LOG_OVERHEAD


def magic_of(buf: Buffer, pos: int = 0) -> int:
    """Return the byte with the message format of the batch at `pos`. Raises CorruptMessageError if there are too few
    bytes.
    """
    view = memoryview(buf).cast("B")
    if len(view) - pos <= MAGIC_POSITION:
        raise errors.CorruptMessageError(f"{len(view) - pos} bytes are not a batch")
    return view[pos + MAGIC_POSITION]


def messages(buf: Buffer, pos: int = 0) -> Iterator[LegacyMessage]:
    """Yield every whole message from `pos` on, without decompressing any. A partial last message is ignored.

    Raises CorruptMessageError for impossible sizes and for formats other than 0 and 1; a wrong CRC only shows in
    `is_valid`.
    """
    view = memoryview(buf).cast("B")
    while len(view) - pos >= LOG_OVERHEAD + MIN_MESSAGE_BYTES:
        offset, size, crc, magic, attributes = _HEAD.unpack_from(view, pos)
        if magic not in (0, 1):
            raise errors.CorruptMessageError(f"a message of format {magic} in a set of format 0 or 1")
        if size < MIN_MESSAGE_BYTES + 8 * magic:
            raise errors.CorruptMessageError(f"a message size of {size} is less than its fields take")
        end = pos + LOG_OVERHEAD + size
        if end > len(view):
            return
        at = pos + _HEAD.size
        timestamp = -1
        if magic == 1:
            (timestamp,) = _TIMESTAMP.unpack_from(view, at)
            at += _TIMESTAMP.size
        key, at = _bytes(view, at, end)
        value, at = _bytes(view, at, end)
        is_valid = zlib.crc32(view[pos + 16 : end]) == crc and at == end
        yield LegacyMessage(pos, offset, size, crc, magic, attributes, timestamp, key, value, is_valid)
        pos = end


def _bytes(view: memoryview, pos: int, end: int) -> tuple[bytes | None, int]:
    if end - pos < _LENGTH.size:
        raise errors.CorruptMessageError("a message ends within its key or value")
    (size,) = _LENGTH.unpack_from(view, pos)
    pos += _LENGTH.size
    if size == -1:
        return None, pos
    if not 0 <= size <= end - pos:
        raise errors.CorruptMessageError(f"a length of {size} where {end - pos} bytes are left in a message")
    return bytes(view[pos : pos + size]), pos + size


def open_message(message: LegacyMessage, max_bytes: int = compression.MAX_DECOMPRESSED_BYTES) -> list[LegacyMessage]:
    """Return a list of the message itself, or of the messages inside a compressed one, with absolute offsets. CRCs are
    checked.

    Raises CorruptMessageError for a damaged message, DecompressedTooLargeError for more than `max_bytes` of messages
    inside, and UnsupportedCompressionTypeError for an unknown codec.
    """
    if not message.is_valid:
        raise errors.CorruptMessageError(f"the message at offset {message.offset} fails its CRC")
    if message.codec == NONE:
        return [message]
    if message.value is None:
        raise errors.CorruptMessageError(f"the compressed message at offset {message.offset} is empty")
    inner = list(messages(_decompressed(message, max_bytes)))
    for nested in inner:
        if not nested.is_valid or nested.codec != NONE or nested.magic != message.magic:
            raise errors.CorruptMessageError(f"the compressed message at offset {message.offset} holds a damaged one")
    if not inner:
        raise errors.CorruptMessageError(f"the compressed message at offset {message.offset} holds none")
    return _placed(message, inner)


def _decompressed(
    message: LegacyMessage,
    max_bytes: int,
    decompress: Callable[[int, Buffer, int], Buffer] = compression.decompress,
) -> Buffer:
    data = message.value or b""
    if message.codec == LZ4 and message.magic == 0:
        data = _with_lz4_checksum(data, over_magic=False)
    return decompress(message.codec, data, max_bytes)


def _placed(message: LegacyMessage, inner: list[LegacyMessage]) -> list[LegacyMessage]:
    """Return the messages inside a compressed message, with absolute offsets and the timestamps that apply."""
    shift = message.offset - inner[-1].offset if message.magic == 1 else 0
    stamped = message.timestamp_type == 1
    return [
        nested._replace(
            offset=nested.offset + shift,
            timestamp=message.timestamp if stamped else nested.timestamp,
            attributes=nested.attributes | (message.attributes & TIMESTAMP_TYPE_MASK),
        )
        for nested in inner
    ]


def records(buf: Buffer, max_bytes: int = compression.MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield every record of a message set, also those inside compressed messages. Raises like `open_message`."""
    for outer in messages(buf):
        for m in open_message(outer, max_bytes):
            yield Record(m.offset, m.timestamp, max(m.timestamp_type, 0), m.key, m.value, [])


# Conversion to and from v2


def check_follows(offset: int, last: int) -> None:
    """Raise CorruptMessageError if the offset of a message is not above that of the message before it."""
    if offset <= last:
        raise errors.CorruptMessageError(f"the message at offset {offset} follows the one at offset {last}")


def to_batches(buf: Buffer, max_bytes: int = compression.MAX_DECOMPRESSED_BYTES) -> bytearray:
    """Convert a producer's message set to one v2 batch. The set has one compressed message, or only plain messages.

    Offsets count from 0 in the batch, as in a produce request. A partial last message is left out. Raises the error for
    the producer: MessageTooLargeError for more than `max_bytes` of messages, decompressed or not, and for malformed
    messages CorruptMessageError, InvalidRecordError or UnsupportedCompressionTypeError.
    """
    view = memoryview(buf).cast("B")
    if len(view) > max_bytes:
        raise errors.MessageTooLargeError(
            f"a message set of {len(view)} bytes, of which at most {max_bytes} can be converted"
        )
    outers = list(_whole_messages(view))
    codecs = {outer.codec for outer in outers}
    if not outers:
        raise errors.InvalidRecordError(f"{len(view)} bytes are not a complete message")
    if len({outer.magic for outer in outers}) > 1:
        raise errors.InvalidRecordError("messages of several formats in one set")
    if codecs != {NONE} and len(outers) > 1:
        raise errors.InvalidRecordError("a compressed message is not the only one of its set")
    return bytearray(_batch([m for outer in outers for m in _opened(outer, max_bytes)], outers[0].codec))


def _whole_messages(view: memoryview) -> Iterator[LegacyMessage]:
    """Yield every whole message, after checking its size, format and CRC."""
    pos = 0
    while len(view) - pos > MAGIC_POSITION:
        size = _LENGTH.unpack_from(view, pos + 8)[0]
        if size < MIN_MESSAGE_BYTES:
            raise errors.CorruptMessageError(f"a message size of {size} is less than its fields take")
        magic = view[pos + MAGIC_POSITION]
        if magic > 1:
            error = errors.InvalidRecordError if magic == MAGIC else errors.CorruptMessageError
            raise error(f"a message of format {magic} in a set of format 0 or 1")
        end = pos + LOG_OVERHEAD + size
        if end > len(view):
            return
        if zlib.crc32(view[pos + MAGIC_POSITION : end]) != int.from_bytes(view[pos + 12 : pos + 16], "big"):
            raise errors.CorruptMessageError(f"message {pos} bytes into the set fails its CRC")
        try:
            (message,) = messages(view[:end], pos)
        except errors.CorruptMessageError as error:
            raise errors.InvalidRecordError(error.message) from None
        if not message.is_valid:
            raise errors.InvalidRecordError(f"message {pos} bytes into the set does not fill its size")
        yield message
        pos = end


def _opened(outer: LegacyMessage, max_bytes: int) -> list[LegacyMessage]:
    """Return the messages inside a producer's compressed message, or the message itself."""
    if outer.codec == NONE:
        return [outer]
    if outer.codec == ZSTD:
        raise errors.InvalidRecordError(f"zstd is not a codec of message format {outer.magic}")
    if outer.value is None:
        raise errors.InvalidRecordError("a compressed message without a value")
    try:
        data = _decompressed(outer, max_bytes, compression.decompress_produced)
    except DecompressedTooLargeError as error:
        raise errors.MessageTooLargeError(error.message) from None
    except errors.CorruptMessageError as error:
        raise errors.InvalidRecordError(error.message) from None
    inner = list(_whole_messages(memoryview(data).cast("B")))
    if not inner:
        raise errors.InvalidRecordError("a compressed message with none inside")
    if any(m.magic != outer.magic or m.codec != NONE for m in inner):
        raise errors.InvalidRecordError("a compressed message holds one of another format or a compressed one")
    if outer.magic == 1 and 0 != outer.offset < inner[-1].offset:
        raise errors.InvalidRecordError(
            f"wrapper offset {outer.offset} is less than the last inner one, {inner[-1].offset}"
        )
    return _placed(outer, inner)


def in_place(buf: Buffer) -> bytearray:
    """Convert one message of a log, with the messages inside it, to an uncompressed v2 batch at the same offsets.

    Raises like `open_message`, and CorruptMessageError if the offsets do not increase.
    """
    opened = [m for outer in messages(buf) for m in open_message(outer)]
    for last, m in pairwise(opened):
        check_follows(m.offset, last.offset)
    builder = _builder(opened, NONE, opened[0].offset)
    for m in opened:
        fits = builder.append_at(m.offset, m.timestamp, m.key, m.value, [])
        assert fits, "the buffer was made large enough"
    last = opened[-1]
    return bytearray(builder.close(append_time_ms=last.timestamp if last.timestamp_type == 1 else None))


def _batch(opened: list[LegacyMessage], codec: int) -> bytes:
    if not opened:
        return b""
    builder = _builder(opened, codec)
    for m in opened:
        fits = builder.append(m.timestamp, m.key, m.value)
        assert fits, "the buffer was made large enough"
    return bytes(builder.close())


def _builder(opened: list[LegacyMessage], codec: int, base_offset: int = 0) -> BatchBuilder:
    room = sum(record_size_upper_bound(len(m.key or b""), len(m.value or b"")) for m in opened)
    return BatchBuilder(bytearray(room + HEADER_BYTES), codec, base_offset=base_offset)


def encode_set(decoded: list[Record], attributes: int, magic: int) -> bytes:
    """Encode the records of one batch with the codec and, in format 1, the timestamp type of the batch's `attributes`.
    With a codec, they are inside a single compressed message.
    """
    codec = attributes & CODEC_MASK
    attributes = attributes & TIMESTAMP_TYPE_MASK if magic == 1 else 0
    if codec == NONE:
        return b"".join(encode(r.offset, r.timestamp, r.key, r.value, magic, attributes) for r in decoded)
    first = decoded[0].offset if magic == 1 else 0
    inner = b"".join(encode(r.offset - first, r.timestamp, r.key, r.value, magic) for r in decoded)
    packed = bytes(compression.compress(codec, inner))
    if codec == LZ4 and magic == 0:
        packed = _with_lz4_checksum(packed, over_magic=True)
    latest = max(r.timestamp for r in decoded)
    return encode(decoded[-1].offset, latest, None, packed, magic, attributes | codec)


def encode(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, magic: int, attributes: int = 0
) -> bytes:
    """Encode one message of format 0 or 1."""
    body = bytearray((magic, attributes))
    if magic == 1:
        body += _TIMESTAMP.pack(timestamp)
    for data in (key, value):
        body += _LENGTH.pack(-1 if data is None else len(data))
        body += data or b""
    return offset.to_bytes(8, "big") + _LENGTH.pack(len(body) + 4) + zlib.crc32(body).to_bytes(4, "big") + bytes(body)


def _with_lz4_checksum(frame: bytes, *, over_magic: bool) -> bytes:
    """Return the LZ4 frame with another header checksum.

    `over_magic`: whether it is computed over the frame's magic too, as format 0 does wrongly.
    """
    if len(frame) <= _LZ4_FLAGS_END or not frame.startswith(_LZ4_MAGIC):
        raise errors.CorruptMessageError("lz4 data has no frame header")
    end = _LZ4_FLAGS_END + (8 if frame[4] & 0x08 else 0)  # a content size may follow the flags
    checksum = (_xxh32_short(frame[0 if over_magic else 4 : end]) >> 8) & 0xFF
    return frame[:end] + bytes((checksum,)) + frame[end + 1 :]


def _xxh32_short(data: bytes) -> int:
    """Return the xxHash32 (seed 0) of `data`, which must be shorter than 16 bytes, as a frame header is."""
    assert len(data) < 16
    p1, p2, p3, p4, p5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    h = (p5 + len(data)) & mask
    words = len(data) // 4 * 4
    for i in range(0, words, 4):
        h = (h + int.from_bytes(data[i : i + 4], "little") * p3) & mask
        h = (((h << 17) | (h >> 15)) & mask) * p4 & mask
    for byte in data[words:]:
        h = (h + byte * p5) & mask
        h = (((h << 11) | (h >> 21)) & mask) * p1 & mask
    h = (h ^ (h >> 15)) * p2 & mask
    h = (h ^ (h >> 13)) * p3 & mask
    return h ^ (h >> 16)
