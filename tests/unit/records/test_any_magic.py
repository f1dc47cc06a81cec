"""Batches of magic 0, 1 and 2 in one log: splitting, verification, decoding and scanning."""

import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptMessageError
from ottla.records import any_magic, compression
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted

NOW = 1_700_000_000_000


def entry(magic: int, codec: int = compression.NONE, count: int = 3, base_offset: int = 0) -> bytes:
    builder = BatchBuilder(bytearray(5000), codec, base_offset=base_offset)
    for i in range(count):
        builder.append(NOW + i, b"k%d" % i, b"value")
    data = bytes(builder.close(leader_epoch=7))
    return data if magic == 2 else down_converted(data, magic)


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [compression.NONE, compression.GZIP])
def test_records_of_every_magic_are_decoded(magic: int, codec: int) -> None:
    data = entry(magic, codec, base_offset=40)
    actual = []
    for header, start, end in any_magic.split(data):
        any_magic.verify(data, start, header)
        assert header.size_in_bytes == end - start
        assert (header.magic, header.codec) == (magic, codec)
        assert header.leader_epoch == (7 if magic == 2 else -1)
        assert header.producer_id == -1
        actual += any_magic.decode_records(data, start, header)
        assert header.last_offset == actual[-1].offset
        assert header.max_timestamp == (-1 if magic == 0 else actual[-1].timestamp)
    assert [(r.offset, r.key, r.value) for r in actual] == [(40 + i, b"k%d" % i, b"value") for i in range(3)]


def test_split_returns_batches_of_mixed_magic() -> None:
    data = entry(0) + entry(2, base_offset=3) + entry(1, compression.GZIP, base_offset=6) + entry(2, base_offset=9)
    assert [h.magic for h, _, _ in any_magic.split(data)] == [0, 0, 0, 2, 1, 2]
    assert [h.next_offset for h, _, _ in any_magic.split(data)] == [1, 2, 3, 6, 9, 12]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_split_ends_before_a_truncated_batch(magic: int) -> None:
    whole = entry(magic, compression.GZIP)
    for cut in range(1, len(whole)):
        assert len(list(any_magic.split(whole + whole[:-cut]))) == 1


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_changed_byte_fails_crc_verification(magic: int) -> None:
    data = bytearray(entry(magic, compression.GZIP))
    data[-5] ^= 4
    ((header, start, _),) = any_magic.split(data)
    with pytest.raises(CorruptMessageError):
        any_magic.verify(data, start, header)


@given(data=st.binary(max_size=200))
def test_garbage_raises_only_corrupt_message_error(data: bytes) -> None:
    try:
        for header, start, _ in any_magic.split(data):
            any_magic.verify(data, start, header)
    except CorruptMessageError:
        pass


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chunk_bytes", [61, 300, 1 << 20])
def test_scanner_reads_batches_of_mixed_magic(hot: SimpleNamespace, seed: int, chunk_bytes: int) -> None:
    rng = random.Random(seed)
    data, offset = b"", 0
    for _ in range(60):
        count = rng.randint(1, 4)
        data += entry(rng.randrange(3), rng.choice([compression.NONE, compression.GZIP]), count, offset)
        offset += count
    scanner = hot.scanner.Scanner(0, 0, check_crc=True, index_interval_bytes=300)
    while not scanner.damaged and len(data) - scanner.position >= scanner.needed:
        scanner.feed(memoryview(data)[scanner.position :][: max(chunk_bytes, scanner.needed)])
    assert (scanner.position, scanner.next_offset, scanner.damaged) == (len(data), offset, False)
    batches = {start: header for header, start, _ in any_magic.split(data)}
    assert scanner.max_timestamp == max(h.max_timestamp for h in batches.values())
    assert all(batches[position].last_offset == last for last, position, _, _ in scanner.entries)
    damaged = bytearray(data)
    at = rng.choice(list(batches))
    damaged[at + batches[at].size_in_bytes - 1] ^= 1
    scanner = hot.scanner.Scanner(0, 0, check_crc=True)
    scanner.feed(damaged)
    assert (scanner.damaged, scanner.position) == (True, at)


def test_scanner_treats_an_offset_gap_as_damage_from_contiguous_from(hot: SimpleNamespace) -> None:
    first, second, third = entry(2), entry(2, base_offset=5), entry(2, base_offset=9)
    for contiguous_from, stored in ((0, len(first)), (3, len(first)), (6, len(first + second)), (100, 3 * len(first))):
        scanner = hot.scanner.Scanner(0, 0, check_crc=True, contiguous_from=contiguous_from)
        scanner.feed(first + second + third)
        assert scanner.position == stored
