"""Compression codecs: round trips, limits, and malformed data."""

import gzip
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessageError, UnsupportedCompressionTypeError
from ottla.records.compression import (
    CODEC_IDS,
    CODECS,
    GZIP,
    LZ4,
    MAX_GZIP_MEMBERS,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
    decompress_produced,
)

REAL = [codec.id for codec in CODECS if codec.id]


@given(data=st.binary(max_size=2000), codec=st.integers(0, 4))
def test_codec_round_trip(data: bytes, codec: int) -> None:
    assert bytes(decompress(codec, bytes(compress(codec, data)))) == data


@pytest.mark.parametrize("codec", REAL)
def test_round_trip_of_several_blocks_from_a_memoryview(codec: int) -> None:
    data = b"".join(b"%d:" % (i * 7919) for i in range(60_000))
    packed = memoryview(b"x" + bytes(compress(codec, memoryview(data))) + b"x")[1:-1]
    assert bytes(decompress(codec, packed)) == data


@pytest.mark.parametrize("codec", REAL)
def test_lowest_and_highest_level_round_trip(codec: int) -> None:
    levels = CODECS[codec].levels
    for level in (levels[0], levels[-1]) if levels else ():
        assert bytes(decompress(codec, bytes(compress(codec, b"abc" * 1000, level)))) == b"abc" * 1000


@pytest.mark.parametrize("codec", REAL)
def test_decompression_bomb_is_corrupt(codec: int) -> None:
    bomb = bytes(compress(codec, bytes(20_000_000)))
    with pytest.raises(CorruptMessageError, match="decompresses to more than"):
        decompress(codec, bomb, 1_000_000)


@pytest.mark.parametrize("codec", REAL)
def test_output_of_exactly_the_limit_is_accepted(codec: int) -> None:
    assert len(memoryview(decompress(codec, bytes(compress(codec, bytes(100_000))), 100_000))) == 100_000


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_truncated_data_is_corrupt(codec: int, cut: int) -> None:
    packed = bytes(compress(codec, b"".join(b"%d" % i for i in range(3000))))
    with pytest.raises(CorruptMessageError):
        decompress(codec, packed[:-cut])


@given(data=st.binary(max_size=200), codec=st.integers(1, 4))
def test_garbage_raises_only_corrupt_message_error(data: bytes, codec: int) -> None:
    try:
        decompress(codec, data, 100_000)
    except CorruptMessageError:
        pass


def test_unknown_codec_raises_unsupported_compression_type() -> None:
    for codec in (5, 7, -1):
        with pytest.raises(UnsupportedCompressionTypeError, match=str(codec)):
            decompress(codec, b"")


def test_snappy_is_written_in_the_java_framing_and_raw_snappy_is_read() -> None:
    import cramjam

    assert bytes(compress(SNAPPY, b"x"))[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(b"raw" * 50)))) == b"raw" * 50


def test_lz4_blocks_are_independent() -> None:
    assert bytes(compress(LZ4, b"x" * 200_000))[4] == 0x60, "version 1, independent blocks, no checksums"


def test_gzip_of_several_members_is_concatenated() -> None:
    assert bytes(decompress(GZIP, bytes(compress(GZIP, b"a")) + bytes(compress(GZIP, b"b")))) == b"ab"


def test_zstd_of_several_frames_is_concatenated() -> None:
    assert bytes(decompress(ZSTD, bytes(compress(ZSTD, b"a")) + bytes(compress(ZSTD, b"b")))) == b"ab"


def test_gzip_with_more_members_than_the_limit_is_corrupt() -> None:
    member = gzip.compress(b"x")
    assert bytes(decompress(GZIP, member * MAX_GZIP_MEMBERS)) == b"x" * MAX_GZIP_MEMBERS
    with pytest.raises(CorruptMessageError, match="more than 1024 members"):
        decompress(GZIP, member * 50_000)  # a megabyte, of which each member was copied to the next


def test_gzip_members_larger_than_a_window_are_read() -> None:
    parts = [random.Random(i).randbytes(20_000) for i in range(4)]
    assert bytes(decompress(GZIP, b"".join(map(gzip.compress, parts)))) == b"".join(parts)


def test_gzip_of_a_producer_with_several_members_is_corrupt() -> None:
    for tail in (gzip.compress(b"b"), b"garbage"):
        assert bytes(decompress(GZIP, gzip.compress(b"a") + tail)).startswith(b"a")
        with pytest.raises(CorruptMessageError, match="follow the first member"):
            decompress_produced(GZIP, gzip.compress(b"a") + tail, 1000)
    assert bytes(decompress_produced(GZIP, gzip.compress(b"a"), 1000)) == b"a"


def test_snappy_of_many_tiny_blocks_is_corrupt() -> None:
    block = b"\0\0\0\1\0"  # no bytes at all, in five
    with pytest.raises(CorruptMessageError, match="blocks"):
        decompress(SNAPPY, bytes(compress(SNAPPY, b""))[:16] + block * 20_000)


@pytest.mark.parametrize("name", ["lz4", "zstd"])
def test_result_is_not_overwritten_by_later_calls_while_it_is_in_use(name: str) -> None:
    """Buffers are used again, but never under a result that is still alive."""
    codec = CODEC_IDS[name]
    inputs = [compress(codec, bytes([n]) * 50_000) for n in range(8)]
    results = [decompress(codec, data) for data in inputs]
    assert [bytes(result) for result in results] == [bytes([n]) * 50_000 for n in range(8)]
    part = memoryview(results[3])[100:200]
    del results
    for data in inputs:
        decompress(codec, data)
    assert bytes(part) == b"\3" * 100


def test_concurrent_results_do_not_share_a_buffer() -> None:
    inputs = {n: compress(LZ4, bytes([n]) * 200_000) for n in range(4)}

    def work(n: int) -> bool:
        results = (bytes(decompress(LZ4, inputs[n])) for _ in range(50))
        return all(result == bytes([n]) * 200_000 for result in results)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, inputs))
