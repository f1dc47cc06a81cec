"""Logs with batches of magic 0 and 1, as older versions of Kafka wrote them, before and between those of magic 2."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.storage.conftest import NOW, batch, contents

from ottla.records import any_magic, compression, legacy_message_set
from ottla.records.batch import read_header
from ottla.records.conversion import down_converted
from ottla.records.decoder import Record, decode_records
from ottla.storage.compaction import cleaner
from ottla.storage.log import Log

CONFIG = {"segment_bytes": 1000, "index_interval_bytes": 150}
CODECS = (compression.NONE, compression.GZIP, compression.SNAPPY, compression.LZ4)


class OldLog:
    """Segments with batches of all magics, and their records."""

    def __init__(self, directory: Path, seed: int = 1, segments: int = 6) -> None:
        self.rng = random.Random(seed)
        self.directory = directory
        self.records: list[Record] = []
        self.offset = 0
        for i in range(segments):
            content, base = b"", self.offset
            while len(content) < 600:
                # 0.8 first, then 0.10, then everything mixed
                content += self.entry((0,) if i < 2 else (1,) if i < 4 else (0, 1, 2))
            (directory / f"{base:020d}.log").write_bytes(content)

    def entry(self, magics: tuple[int, ...]) -> bytes:
        rng = self.rng
        magic, codec = rng.choice(magics), rng.choice(CODECS)
        rows = [
            (NOW + self.offset + i - rng.randrange(5), b"k%d" % rng.randrange(7), rng.choice((None, rng.randbytes(30))))
            for i in range(rng.randint(1, 4))
        ]
        for i, (time, key, value) in enumerate(rows):
            self.records.append(Record(self.offset + i, time if magic else -1, 0, key, value, []))
        new = batch(*rows, codec=codec, base_offset=self.offset)
        self.offset += len(rows)
        return bytes(new) if magic == 2 else down_converted(new, magic)


@pytest.fixture
def old(make_log: Callable[..., Log]) -> OldLog:
    return OldLog(make_log().dir)


def read_all(log: Log) -> list[Record]:
    actual, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 400, max_offset=log.log_end_offset).read()
        for header, start, _ in any_magic.split(data):
            actual += any_magic.decode_records(data, start, header, offset)
            offset = header.next_offset
    return actual


@pytest.mark.parametrize("clean", [False, True])
def test_log_of_mixed_magic_is_loaded_and_every_offset_is_read(
    old: OldLog, make_log: Callable[..., Log], clean: bool
) -> None:
    before = {path.name: path.read_bytes() for path in old.directory.glob("*.log")}
    log = make_log(clean=clean, **CONFIG)
    assert log.log_end_offset == old.offset
    assert {path.name: path.read_bytes() for path in old.directory.glob("*.log")} == before
    assert read_all(log) == old.records
    assert contents(log) == old.records
    for record in old.records:
        data = log.read(record.offset, 1, max_offset=log.log_end_offset).read()
        ((header, start, _),) = any_magic.split(data)
        assert record in any_magic.decode_records(data, start, header)
    for segment in log.segments[:-1]:
        assert segment.offset_index.entries or clean
        segment.sanity_check()


def test_append_to_a_log_of_old_magic_uses_magic_2(old: OldLog, make_log: Callable[..., Log]) -> None:
    log = make_log(**CONFIG)
    assert log.append(batch(b"new"), leader_epoch=4).base_offset == old.offset
    assert contents(log)[-1].value == b"new"
    log.close()
    again = make_log(clean=True, **CONFIG)
    assert contents(again)[:-1] == old.records
    assert again.leader_epochs.entries == [(4, old.offset)]


@pytest.mark.parametrize("damage", ["cut", "garbled", "longer"])
def test_damaged_end_of_a_segment_of_old_magic_is_truncated(make_log: Callable[..., Log], damage: str) -> None:
    old = OldLog(make_log().dir, segments=3)
    path = max(old.directory.glob("*.log"))
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del data[-3:]
        case "garbled":
            data[-3] ^= 1
        case "longer":
            data += data[: len(data) // 2 - 5]
    path.write_bytes(data)
    log = make_log(recovery_point=1, **CONFIG)
    stored = old.records if damage == "longer" else old.records[: log.log_end_offset]
    assert contents(log) == stored
    assert len(stored) >= len(old.records) - 4
    log.append(batch(b"new"), leader_epoch=0)
    assert len(contents(make_log(**CONFIG))) == len(stored) + 1


def test_offset_for_time_finds_records_of_magic_1_and_2(old: OldLog, make_log: Callable[..., Log]) -> None:
    log = make_log(**CONFIG)
    for expected in range(NOW, NOW + old.offset, 3):
        first = next((r.offset for r in old.records if r.timestamp >= expected), None)
        at = log.offset_for_time(expected)
        assert (None if at is None else at.offset) == first


@pytest.mark.parametrize("magic", [0, 1])
def test_down_conversion_of_mixed_magic_for_old_consumers(
    old: OldLog, make_log: Callable[..., Log], magic: int
) -> None:
    log = make_log(**CONFIG)
    data = b"".join(segment.file.read(0, segment.size) for segment in log.segments)
    actual = down_converted(data, magic)
    assert {m.magic for m in legacy_message_set.messages(actual)} <= set(range(magic + 1))
    assert [r.value for r in legacy_message_set.records(actual)] == [r.value for r in old.records]
    times = [r.timestamp for r in legacy_message_set.records(actual)]
    assert times == [r.timestamp if magic else -1 for r in old.records]


def test_compaction_keeps_the_last_record_of_each_key_in_its_magic(make_log: Callable[..., Log]) -> None:
    old = OldLog(make_log().dir, seed=3)
    log = make_log(cleanup_policy=("compact",), delete_retention_ms=10**9, **CONFIG)
    log.high_watermark = log.log_end_offset
    log.roll()
    magics_before = [h.magic for s in log.segments for _, h in s.batches()]
    end = cleaner.clean(log, 0)
    last = {r.key: r for r in old.records}
    assert contents(log) == sorted(last.values())
    assert {h.magic for s in log.segments for _, h in s.batches()} <= set(magics_before)
    assert len({h.magic for s in log.segments for _, h in s.batches()}) > 1
    assert end == old.offset
    for record in last.values():
        assert record in decode_at(log, record.offset)


def decode_at(log: Log, offset: int) -> list[Record]:
    header, data = next(log.batches_from(offset))
    return decode_records(data, 0, header)


def test_tombstones_of_old_magic_are_removed_by_the_age_of_their_segment(make_log: Callable[..., Log]) -> None:
    directory = make_log().dir
    for base, age_seconds in ((0, 100), (4, 0)):
        rows = [legacy_message_set.encode(base + i, NOW, b"k%d" % (base + i), (None, b"v")[i % 2], 1) for i in range(4)]
        path = directory / f"{base:020d}.log"
        path.write_bytes(b"".join(rows))
        os.utime(path, (NOW / 1000 - age_seconds, NOW / 1000 - age_seconds))
    config = {"cleanup_policy": ("compact",), "delete_retention_ms": 50_000, "segment_bytes": 160}
    log = make_log(**config)
    log.high_watermark = log.log_end_offset
    log.roll()
    first = cleaner.clean(log, 0)
    assert [r.offset for r in contents(log)] == list(range(8)), (
        "the first pass keeps tombstones, which readers may not have seen"
    )
    assert log.segments[0].created_ms == NOW - 100_000, "a segment keeps its creation time"
    log.append(batch((b"x", b"y")), leader_epoch=0)
    log.high_watermark = log.log_end_offset
    log.roll()
    cleaner.clean(log, first)
    assert [r.offset for r in contents(log)] == [1, 3, 4, 5, 6, 7, 8]


def test_in_place_up_conversion_keeps_offsets_and_timestamp_type() -> None:
    new = batch(
        (NOW, b"a", b"1"), (NOW + 5, b"b", b"2"), codec=compression.GZIP, base_offset=70, append_time_ms=NOW + 9
    )
    up = legacy_message_set.in_place(down_converted(new, 1))
    header = read_header(up)
    assert (header.base_offset, header.last_offset, header.timestamp_type) == (70, 71, 1)
    assert [(r.offset, r.timestamp) for r in decode_records(up, 0, header)] == [(70, NOW + 9), (71, NOW + 9)]
