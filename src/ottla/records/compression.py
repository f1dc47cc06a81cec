"""The five codecs of Kafka: one row each in `CODECS`, with the framings that the Java client reads and writes.

- gzip: one gzip member (zlib with a gzip header); several are read as well.
- snappy: xerial's framing, as Java's SnappyOutputStream writes it; raw snappy is read as well.
- lz4: frames of independent 64 KiB blocks. Java rejects linked blocks ("Dependent block stream is unsupported"),
which the usual frame writers produce, so the frame is built here from raw blocks.
- zstd: plain frames, with or without their content size.

cramjam is imported at first use, because the import takes 7 ms, which a broker without compressed topics can save.
Decompression is bounded: an output above `max_bytes` raises DecompressedTooLargeError, whatever size the input
declares.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.errors import CorruptMessageError, UnsupportedCompressionTypeError

if TYPE_CHECKING:
    from typing_extensions import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024
"""Default limit in bytes of the decompressed size of one batch."""

MAX_GZIP_MEMBERS: Final = 1024
MAX_SNAPPY_BLOCKS: Final = 16 * 1024
"""Maximum numbers of gzip members and snappy blocks in a batch, because even empty ones take time to decompress.

With blocks of 16 KiB, the limit of snappy blocks corresponds to 256 MiB.
"""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW_BYTES = 4096
_XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"  # magic; version 1, independent blocks; 64 KiB blocks; header checksum
_LZ4_END = b"\x00\x00\x00\x00"
_LZ4_STORED = 0x8000_0000
_LZ4_LEAST_HIGH = 3  # below this level, the frame writer uses the fast compressor


class DecompressedTooLargeError(CorruptMessageError):
    """A batch decompresses to more than `max_bytes` bytes."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the batch decompresses to more than {max_bytes} bytes")
        self.max_bytes = max_bytes


def _compress_none(data: Buffer, level: int | None) -> Buffer:
    return data


def _decompress_none(data: memoryview, max_bytes: int) -> Buffer:
    return data


def _compress_gzip(data: Buffer, level: int | None) -> Buffer:
    return zlib.compress(data, -1 if level is None else level, wbits=31)


def _decompress_gzip(data: memoryview, max_bytes: int) -> Buffer:
    first, pos = _gzip_member(data, 0, len(data), max_bytes)
    if data[pos : pos + 2] != _GZIP_MAGIC:
        return first  # the rest is ignored, as in Java
    out = bytearray(first)
    for _ in range(MAX_GZIP_MEMBERS - 1):
        more, pos = _gzip_member(data, pos, _GZIP_WINDOW_BYTES, max_bytes - len(out))
        out += more
        if data[pos : pos + 2] != _GZIP_MAGIC:
            return out
    raise CorruptMessageError(f"gzip data has more than {MAX_GZIP_MEMBERS} members")


def _gzip_member(data: memoryview, pos: int, window: int, max_bytes: int) -> tuple[bytes, int]:
    """Return the content of the gzip member at `pos`, and the position of its end.

    The data is read `window` bytes at a time, because zlib copies the input that it has not used: without a
    limit, for each member, all members that follow.
    """
    inflater = zlib.decompressobj(wbits=31)
    parts = []
    room = max_bytes + 1
    while not inflater.eof:
        chunk = data[pos : pos + window]
        if not chunk:
            raise CorruptMessageError("gzip data ends too early")
        try:
            part = inflater.decompress(chunk, room)
        except zlib.error as error:
            raise CorruptMessageError(f"gzip data is damaged: {error}") from None
        parts.append(part)
        room -= len(part)
        if room <= 0:
            raise DecompressedTooLargeError(max_bytes)
        pos += len(chunk) - len(inflater.unused_data) - len(inflater.unconsumed_tail)
    return parts[0] if len(parts) == 1 else b"".join(parts), pos


def _compress_snappy(data: Buffer, level: int | None) -> Buffer:
    import cramjam

    view = memoryview(data).cast("B")
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return out


def _decompress_snappy(data: memoryview, max_bytes: int) -> Buffer:
    if data[: len(_XERIAL_HEADER) - 8] != _XERIAL_HEADER[:-8]:
        return _decompress_snappy_block(data, max_bytes)
    out = bytearray()
    pos = len(_XERIAL_HEADER)
    blocks = 0
    while pos < len(data):
        blocks += 1
        if blocks > MAX_SNAPPY_BLOCKS:
            raise CorruptMessageError(f"snappy data has more than {MAX_SNAPPY_BLOCKS} blocks")
        size = int.from_bytes(data[pos : pos + 4], "big")
        pos += 4
        if size > len(data) - pos:
            raise CorruptMessageError(f"a snappy block of {size} bytes where {len(data) - pos} are left")
        out += _decompress_snappy_block(data[pos : pos + size], max_bytes - len(out))
        pos += size
    return out


def _decompress_snappy_block(block: memoryview, max_bytes: int) -> bytearray:
    import cramjam

    size = _snappy_length(block)
    if size > max_bytes:
        raise DecompressedTooLargeError(max_bytes)
    out = bytearray(size)
    try:
        written = cramjam.snappy.decompress_raw_into(block, out)
    except cramjam.DecompressionError as error:
        raise CorruptMessageError(f"snappy data is damaged: {error}") from None
    if written != size:
        raise CorruptMessageError(f"a snappy block holds {written} bytes and promises {size}")
    return out


def _snappy_length(block: memoryview) -> int:
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return size
    raise CorruptMessageError("a snappy block has no length")


def _compress_lz4(data: Buffer, level: int | None) -> Buffer:
    view = memoryview(data).cast("B")
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(view), _LZ4_BLOCK_BYTES):
        raw = view[start : start + _LZ4_BLOCK_BYTES]
        block = _lz4_block(raw, level)
        if len(block) < len(raw):
            out += len(block).to_bytes(4, "little")
            out += block
        else:
            out += (len(raw) | _LZ4_STORED).to_bytes(4, "little")
            out += raw
    out += _LZ4_END
    return out


def _lz4_block(raw: memoryview, level: int | None) -> bytes:
    """Compress one block, without a frame: in the fast mode if `level` is None, otherwise with high compression (levels
    below 3 count as 3).
    """
    import cramjam

    if level is None:
        return bytes(cramjam.lz4.compress_block(raw, store_size=False))
    # cramjam's block writer has no level, its frame writer has: the frame of one block's data has one block.
    frame = bytes(cramjam.lz4.compress(raw, level=max(level, _LZ4_LEAST_HIGH)))
    size = int.from_bytes(frame[7:11], "little") & ~_LZ4_STORED
    assert len(frame) == 7 + 4 + size + 4 + 4 + 4, "header, size, block, its checksum, end, checksum"
    return frame[11 : 11 + size]


def _decompress_lz4(data: memoryview, max_bytes: int) -> Buffer:
    import cramjam

    return _grow(cramjam.lz4.decompress_into, data, max_bytes, "lz4")


def _compress_zstd(data: Buffer, level: int | None) -> Buffer:
    import cramjam

    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def _decompress_zstd(data: memoryview, max_bytes: int) -> Buffer:
    import cramjam

    return _grow(cramjam.zstd.decompress_into, data, max_bytes, "zstd")


def _grow(into: Callable[[Buffer, bytearray], int], data: memoryview, max_bytes: int, codec: str) -> Buffer:
    """Decompress data of unknown size into a buffer that quadruples until it is large enough or has `max_bytes`."""
    import cramjam

    room = min(max(4 * len(data), 4096), max_bytes)
    while True:
        buffer = _take_buffer(room)
        try:
            written = into(data, buffer)  # on free-threaded Python, cramjam writes to no memoryview
            if written > max_bytes:  # a reused buffer may be larger
                raise DecompressedTooLargeError(max_bytes)
            return memoryview(buffer)[:written]
        except cramjam.DecompressionError as error:
            # The only error that a larger buffer can fix; all others are damage.
            if "failed to write whole buffer" not in str(error):
                raise CorruptMessageError(f"{codec} data is damaged: {error}") from None
            if room == max_bytes:
                raise DecompressedTooLargeError(max_bytes) from None
            room = min(room * 4, max_bytes)
        finally:
            if len(buffer) <= _REUSED_BYTES and len(_buffers) < _MOST_BUFFERS:
                _buffers.append(buffer)


_REUSED_BYTES: Final = 1024 * 1024
_MOST_BUFFERS: Final = 4
_buffers: list[bytearray] = []
"""Buffers to reuse: the page faults of a new buffer of 256 KiB take longer than the decompression of an lz4 batch."""


def _take_buffer(size: int) -> bytearray:
    """Return a buffer of at least `size` bytes.

    A buffer of an earlier call is reused only if no memoryview of it is left, which is when its size can be changed.
    (The reference count does not show that: from Python 3.14 on, a local variable need not increment it.)
    """
    if size <= _REUSED_BYTES:
        with suppress(IndexError, BufferError):
            buffer = _buffers.pop()
            if len(buffer) >= size:
                buffer.append(0)
                buffer.pop()
                return buffer
    return bytearray(size)


class Codec(NamedTuple):
    """One compression codec. `id` is the number in the low three bits of a batch's attributes. `levels` are the valid
    compression levels; empty if the codec has none.
    """

    id: int
    name: str
    compress: Callable[[Buffer, int | None], Buffer]
    decompress: Callable[[memoryview, int], Buffer]
    levels: range


CODECS: tuple[Codec, ...] = (
    Codec(NONE, "none", _compress_none, _decompress_none, range(0)),
    Codec(GZIP, "gzip", _compress_gzip, _decompress_gzip, range(1, 10)),
    Codec(SNAPPY, "snappy", _compress_snappy, _decompress_snappy, range(0)),
    Codec(LZ4, "lz4", _compress_lz4, _decompress_lz4, range(1, 18)),
    Codec(ZSTD, "zstd", _compress_zstd, _decompress_zstd, range(-131072, 23)),
)
"""Every codec, at the index of its id."""

CODEC_IDS: dict[str, int] = {codec.name: codec.id for codec in CODECS}
"""The codec ids by name, as in `compression.type`."""


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """Compress `data` with the codec of the id `codec`, at `level` (None: the codec's default)."""
    return _codec(codec).compress(data, level)


def decompress(codec: int, data: Buffer, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """Decompress `data`.

    Raises CorruptMessageError for damaged data, DecompressedTooLargeError for compressed data with more than
    `max_bytes` bytes of output, UnsupportedCompressionTypeError for a codec id that Kafka does not have.
    """
    try:
        return _codec(codec).decompress(memoryview(data).cast("B"), max_bytes)
    except DecompressedTooLargeError:
        raise DecompressedTooLargeError(max_bytes) from None  # not the remaining limit of its last block


def decompress_produced(codec: int, data: Buffer, max_bytes: int) -> Buffer:
    """Decompress a producer's data. Raises the errors of `decompress`, and CorruptMessageError for gzip data that
    continues after its first member.

    librdkafka only reads the first member of gzip data, and its consumers abort if that member is empty.
    """
    if codec != GZIP:
        return decompress(codec, data, max_bytes)
    view = memoryview(data).cast("B")
    out, end = _gzip_member(view, 0, len(view), max_bytes)
    if end != len(view):
        raise CorruptMessageError(f"{len(view) - end} bytes follow the first member of gzip data")
    return out


def _codec(codec: int) -> Codec:
    if not 0 <= codec < len(CODECS):
        raise UnsupportedCompressionTypeError(f"there is no codec of number {codec}")
    return CODECS[codec]
