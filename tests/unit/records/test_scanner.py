"""The scanner of log segments: index entries, leader epochs, and damaged batches."""

import random
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.records.batch import split
from ottla.records.builder import BatchBuilder
from ottla.records.scanner import Scanner

NOW = 1_700_000_000_000


def write(rng: Random, count: int) -> bytes:
    """Return the bytes of a log with producers, transactions, leader epochs and decreasing timestamps."""
    out = bytearray()
    offset = 0
    for i in range(count):
        builder = BatchBuilder(bytearray(4000), base_offset=offset)
        for _ in range(rng.randint(1, 5)):
            builder.append(NOW + i * 10 - rng.randrange(50), None, rng.randbytes(rng.randrange(60)))
        producer = rng.choice([-1, 5, 6])
        out += builder.close(
            producer, 0, i, transactional=producer == 6, control=producer == 6 and i % 4 == 0, leader_epoch=i // 20
        )
        offset = list(split(out))[-1][0].next_offset + rng.choice([0, 0, 3])
    return bytes(out)


def scan(hot: SimpleNamespace, data: bytearray | bytes, chunk_bytes: int, **options: Any) -> Scanner:
    scanner: Scanner = hot.scanner.Scanner(0, 0, check_crc=True, index_interval_bytes=300, **options)
    while not scanner.damaged and len(data) - scanner.position >= scanner.needed:
        scanner.feed(memoryview(data)[scanner.position :][: max(chunk_bytes, scanner.needed)])
    return scanner


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("chunk_bytes", [61, 500, 1 << 20])
def test_scan_collects_index_entries_epochs_and_replay_positions(
    hot: SimpleNamespace, seed: int, chunk_bytes: int
) -> None:
    data = write(random.Random(seed), 80)
    actual = scan(hot, data, chunk_bytes)
    batches = list(split(data))
    assert not actual.damaged
    assert (actual.position, actual.next_offset) == (len(data), batches[-1][0].next_offset)
    assert actual.max_timestamp == max(h.max_timestamp for h, _, _ in batches)
    by_position = {start: h for h, start, _ in batches}
    assert len(actual.entries) > 10
    for last_offset, position, timestamp, offset in actual.entries:
        assert by_position[position].last_offset == last_offset
        so_far = [h for h, start, _ in batches if start <= position]
        assert timestamp == max(h.max_timestamp for h in so_far)
        assert offset == next(h.last_offset for h in so_far if h.max_timestamp == timestamp)
    firsts: dict[int, int] = {}
    for h, _, _ in batches:
        firsts.setdefault(h.leader_epoch, h.base_offset)
    assert actual.epochs == list(firsts.items())
    plain = [start for h, start, _ in batches if h.producer_id == 5]
    transactional = [start for h, start, _ in batches if h.producer_id == 6]
    assert actual.replay_positions() == sorted(plain[-5:] + transactional)


def test_scan_stops_at_damage_and_before_a_truncated_batch(hot: SimpleNamespace) -> None:
    data = write(random.Random(1), 20)
    starts = [start for _, start, _ in split(data)]
    for position in (starts[7] + 16, starts[7] + 8, starts[7] + 30, starts[7] + 70):
        bad = bytearray(data)
        bad[position] ^= 0x81
        actual = scan(hot, bad, 1 << 20)
        assert actual.position == starts[7]
        assert actual.damaged or actual.needed > len(bad) - starts[7]
    actual = scan(hot, data[:-1], 100)
    assert (actual.position, actual.damaged) == (starts[-1], False)


def test_offset_that_goes_back_or_exceeds_max_offset_is_damage(hot: SimpleNamespace) -> None:
    data = write(random.Random(2), 5)
    again = scan(hot, data + data, 1 << 20)
    assert (again.position, again.damaged) == (len(data), True)
    bounded = scan(hot, data, 1 << 20, max_offset=3)
    assert bounded.damaged
    assert bounded.next_offset <= 4


def test_crc_is_only_checked_if_enabled(hot: SimpleNamespace) -> None:
    data = bytearray(write(random.Random(3), 5))
    data[-1] ^= 1
    scanner = hot.scanner.Scanner(0, 0, check_crc=False)
    scanner.feed(data)
    assert scanner.position == len(data)


@pytest.mark.parametrize("data", [b"", b"\0" * 60, b"\0" * 200, b"\xff" * 200])
def test_garbage_is_not_scanned(hot: SimpleNamespace, data: bytes) -> None:
    assert scan(hot, data, 1 << 20).position == 0
