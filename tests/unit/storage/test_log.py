"""The log of a partition: appends, reads, segments, retention, truncation and flushes."""

import errno
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from tests.unit.storage.conftest import NOW, batch, contents, values

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaStorageError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    RecordListTooLargeError,
)
from ottla.records import compression
from ottla.records.batch import read_header, reseal, split
from ottla.records.decoder import records
from ottla.storage.files import LogFile
from ottla.storage.log import WARM_SEGMENTS, Log
from ottla.storage.retention import apply_retention
from ottla.storage.segment import Segment


def fill(log: Log, count: int, size: int = 100, **options: Any) -> None:
    for i in range(count):
        log.append(batch((b"k%d" % i, b"%d:" % i + b"x" * size), **options), leader_epoch=0)
    log.high_watermark = log.log_end_offset


def test_append_assigns_offsets_and_epoch_in_place(make_log: Callable[..., Log]) -> None:
    log = make_log()
    assert log.append(batch(b"a", b"b"), leader_epoch=3)[:2] == (0, 1)
    second = batch(b"c")
    appended = log.append(second, leader_epoch=4)
    assert (appended.base_offset, appended.last_offset, appended.append_time_ms) == (2, 2, -1)
    assert (read_header(second).base_offset, read_header(second).leader_epoch) == (2, 4)
    assert values(log) == [b"a", b"b", b"c"]
    assert log.leader_epochs.entries == [(3, 0), (4, 2)]


def test_append_of_several_batches_assigns_consecutive_offsets(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.append(memoryview(bytearray(bytes(batch(b"a", b"b")) + bytes(batch(b"c")))), leader_epoch=0)
    assert [r.offset for r in contents(log)] == [0, 1, 2]


def test_read_returns_whole_batches_within_its_bounds(make_log: Callable[..., Log]) -> None:
    log = make_log()
    fill(log, 300, size=200)
    size = len(batch((b"k0", b"0:" + b"x" * 200)))
    for offset in range(0, 300, 7):
        for max_bytes in (1, size, 5 * size + 3, 40 * size, 10**9):
            for max_offset in (offset, offset + 1, offset + 9, 300):
                max_offset = min(max_offset, 300)
                with log.read(offset, max_bytes, max_offset=max_offset) as actual:
                    data = actual.read()
                offsets_read = [h.base_offset for h, _, _ in split(data)]
                assert offsets_read == list(range(offset, offset + len(offsets_read)))
                assert offset + len(offsets_read) <= max_offset
                assert len(data) <= max(max_bytes, size + 10)
                if max_offset > offset:
                    assert offsets_read, "at least one batch"
                    room = max_bytes - len(data)
                    assert offset + len(offsets_read) == max_offset or room < size + 10, "as much as fits"


def test_sequential_reads_find_their_position_without_reading_the_file(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    fill(log, 600)
    log.truncate_to(550)
    fill(log, 50)
    reads: list[int] = []
    read_file = LogFile.read

    def count(self: LogFile, position: int, nbytes: int) -> bytes:
        reads.append(position)
        return read_file(self, position, nbytes)

    monkeypatch.setattr(LogFile, "read", count)
    monkeypatch.setattr("ottla.storage.segment.RECENT_BATCHES", 3)
    offset, slices = 0, 0
    while offset < log.log_end_offset:
        with log.read(offset, 800, max_offset=log.log_end_offset) as actual:
            data = bytes(os.pread(actual.fileno(), actual.nbytes, actual.position))
        assert next(h.base_offset for h, _, _ in split(data)) == offset
        offset, slices = [h.next_offset for h, _, _ in split(data)][-1], slices + 1
    assert slices > 120
    assert len(reads) < 1.5 * slices


def test_first_batch_larger_than_max_bytes_is_returned_only_with_at_least_one(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.append(batch(b"x" * 1000), leader_epoch=0)
    assert log.read(0, 10, max_offset=1).nbytes > 1000
    assert log.read(0, 10, max_offset=1, at_least_one=False).nbytes == 0


def test_read_in_the_middle_of_a_batch_returns_that_batch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.append(batch(b"a"), leader_epoch=0)
    log.append(batch(b"b", b"c", b"d"), leader_epoch=0)
    actual = log.read(2, 1000, max_offset=4)
    assert [r.offset for r in records(actual.read())] == [1, 2, 3]


def test_read_outside_of_the_log_raises_offset_out_of_range(make_log: Callable[..., Log]) -> None:
    log = make_log()
    fill(log, 5)
    assert log.read(5, 100, max_offset=5).nbytes == 0
    for offset in (-1, 6):
        with pytest.raises(OffsetOutOfRangeError, match="0 to 5"):
            log.read(offset, 100, max_offset=5)


def test_slice_stays_readable_after_its_segment_is_deleted(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=300)
    fill(log, 10)
    actual = log.read(0, 1000, max_offset=10)
    expected = actual.read()
    log.delete_records_before(10)
    log.delete_files()
    assert log.log_start_offset == 10
    assert os.pread(actual.fileno(), actual.nbytes, actual.position) == actual.read() == expected
    actual.release()
    with pytest.raises(ValueError, match="released"):
        actual.fileno()


def test_segments_roll_by_size_and_reads_span_them(make_log: Callable[..., Log], tmp_path: Path) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 50)
    assert len(log.segments) > 5
    assert all(s.size <= 1000 for s in log.segments)
    assert len(contents(log)) == 50
    assert log.size == sum(p.stat().st_size for p in tmp_path.rglob("*.log"))


def test_segments_roll_by_record_timestamp(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(segment_ms=1000)
    log.append(batch(b"a", timestamp=NOW), leader_epoch=0)
    log.append(batch(b"b", timestamp=NOW + 1000), leader_epoch=0)
    assert len(log.segments) == 1
    log.append(batch(b"c", timestamp=NOW + 1001), leader_epoch=0)
    assert [s.base_offset for s in log.segments] == [0, 2]


def test_segments_roll_when_their_index_is_full(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_index_bytes=24, index_interval_bytes=1)
    fill(log, 10)
    assert len(log.segments) > 1
    assert len(contents(log)) == 10


def test_indexes_are_written_when_their_segment_is_rolled(make_log: Callable[..., Log]) -> None:
    log = make_log(index_interval_bytes=200)
    fill(log, 30)
    first = log.active
    entries = first.offset_index.entries
    log.roll()
    assert first.offset_index.path.stat().st_size == entries * 8
    assert first.time_index.path.stat().st_size % 12 == 0
    assert first.time_index.path.stat().st_size > 0


def test_roll_calls_the_listener(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=500)
    listener = log.listener = Mock()
    fill(log, 10)
    assert listener.on_roll.call_count == len(log.segments) - 1 > 1


def test_batch_above_max_message_bytes_is_too_large(make_log: Callable[..., Log]) -> None:
    with pytest.raises(MessageTooLargeError, match=r"max\.message\.bytes"):
        make_log(max_message_bytes=100).append(batch(b"x" * 100), leader_epoch=0)


def test_batch_above_segment_bytes_is_rejected(make_log: Callable[..., Log]) -> None:
    with pytest.raises(RecordListTooLargeError):
        make_log(segment_bytes=100).append(batch(b"x" * 100), leader_epoch=0)


@pytest.mark.parametrize("position", [16, 21, 57, 70, -1])
def test_damaged_batch_is_rejected_and_not_appended(make_log: Callable[..., Log], position: int) -> None:
    log = make_log()
    data = batch(b"payload")
    data[position] ^= 0x55
    with pytest.raises(CorruptMessageError):
        log.append(data, leader_epoch=0)
    assert (log.log_end_offset, log.size) == (0, 0)


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_truncated_batch_is_rejected(make_log: Callable[..., Log], cut: int) -> None:
    with pytest.raises(CorruptMessageError):
        make_log().append(batch(b"payload")[:-cut], leader_epoch=0)


def test_control_batch_of_a_client_is_rejected(make_log: Callable[..., Log]) -> None:
    control = batch((b"\0\0\0\1", b"\0\0\0\0\0\0"), control=True, transactional=True, producer_id=1, producer_epoch=0)
    with pytest.raises(InvalidRecordError, match="control"):
        make_log().append(control, leader_epoch=0)


def test_record_count_that_does_not_match_the_offsets_is_rejected(make_log: Callable[..., Log]) -> None:
    data = batch(b"a", b"b")
    data[23:27] = (5).to_bytes(4, "big")
    reseal(data, 0, len(data))
    with pytest.raises(InvalidRecordError):
        make_log().append(data, leader_epoch=0)


def test_compacted_topic_rejects_records_without_key(make_log: Callable[..., Log]) -> None:
    log = make_log(cleanup_policy=("compact",))
    log.append(batch((b"k", b"v")), leader_epoch=0)
    for codec in (compression.NONE, compression.ZSTD):
        with pytest.raises(InvalidRecordError, match="without a key"):
            log.append(batch((b"k", b"v"), b"no key", codec=codec), leader_epoch=0)


def test_timestamp_outside_of_the_bounds_of_the_topic_is_rejected(make_log: Callable[..., Log]) -> None:
    log = make_log(message_timestamp_after_max_ms=1000, message_timestamp_before_max_ms=500)
    log.append(batch(b"a", timestamp=NOW + 1000), leader_epoch=0)
    log.append(batch(b"a", timestamp=NOW - 500), leader_epoch=0)
    for wrong in (NOW + 1001, NOW - 501):
        with pytest.raises(InvalidTimestampError):
            log.append(batch(b"a", timestamp=wrong), leader_epoch=0)


def test_log_append_time_overwrites_the_timestamp_of_the_producer(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    clock.advance(77)
    appended = log.append(batch((5, b"a", b"1"), (10**15, b"b", b"2")), leader_epoch=0)
    assert appended.append_time_ms == NOW + 77
    assert [(r.timestamp, r.timestamp_type) for r in contents(log)] == [(NOW + 77, 1)] * 2


@pytest.mark.parametrize("expected", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", [compression.NONE, compression.LZ4])
def test_compression_type_of_the_topic_replaces_the_codec_of_the_producer(
    make_log: Callable[..., Log], expected: str, sent: int
) -> None:
    log = make_log(compression_type=expected)
    log.append(
        batch(*[(b"k", b"v" * 50)] * 20, codec=sent, producer_id=5, producer_epoch=0, base_sequence=0), leader_epoch=0
    )
    header, data = next(log.batches_from(0))
    assert header.codec == compression.CODEC_IDS["none" if expected == "uncompressed" else expected]
    assert (header.producer_id, header.base_sequence) == (5, 0)
    assert [r.value for r in records(data)] == [b"v" * 50] * 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_failed_write_leaves_the_log_unchanged(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    log = make_log()
    fill(log, 3)
    size = log.size
    real = os.pwrite

    def broken(fd: int, data: memoryview, position: int) -> None:
        real(fd, bytes(data)[:50], position)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pwrite", broken)
    with pytest.raises(KafkaStorageError, match="orders-0"):
        log.append(batch(b"lost"), leader_epoch=0)
    monkeypatch.undo()
    assert log.active.path(".log").stat().st_size == size
    log.append(batch(b"next"), leader_epoch=0)
    assert [r.offset for r in contents(log)] == [0, 1, 2, 3]


def test_append_fails_if_its_leader_epoch_cannot_be_checkpointed(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    fill(log, 3)

    def full(*_: Path) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(KafkaStorageError, match="no space"):
        log.append(batch(b"lost"), leader_epoch=1)
    monkeypatch.undo()
    assert (log.log_end_offset, log.leader_epochs.latest) == (3, 0)
    log.append(batch(b"next"), leader_epoch=1)
    assert log.leader_epochs.entries == [(0, 0), (1, 3)]
    assert not list(log.dir.glob("*.tmp"))


def test_failed_flush_keeps_the_recovery_point(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    fill(log, 3)
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(KafkaStorageError, match="broken"):
        log.flush()
    assert log.recovery_point == 0


def test_failed_roll_can_be_retried(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(segment_bytes=500)
    real = os.open

    def full(path: Path, flags: int, *mode: int, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "full")
        return real(path, flags, *mode, **options)

    fill(log, 3)
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(KafkaStorageError, match="no space"):
        fill(log, 10)
    monkeypatch.undo()
    end = log.log_end_offset
    fill(log, 10)
    assert [r.offset for r in contents(log)] == list(range(end + 10))
    log.close()
    assert [r.offset for r in contents(make_log(clean=True, segment_bytes=500))] == list(range(end + 10))


def test_short_writes_are_continued(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, bytes(data)[:7], position))
    log.append(batch(b"all of it"), leader_epoch=0)
    monkeypatch.undo()
    assert values(log) == [b"all of it"]


def test_follower_log_may_start_within_a_batch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.truncate_fully_and_start_at(4)
    log.high_watermark = 4
    data = batch(b"a", b"b", b"c", base_offset=3)
    assert log.append_as_follower(data).base_offset == 3
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (4, 4, 6)
    assert log.segments[0].base_offset == 3
    with pytest.raises(InvalidRecordError, match="6 follows"):
        log.append_as_follower(data)


def test_append_as_follower_keeps_offsets_and_leader_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    data = batch(b"a", b"b", base_offset=10, leader_epoch=6)
    assert log.append_as_follower(data).base_offset == 10
    assert (log.log_end_offset, log.leader_epochs.latest) == (12, 6)
    with pytest.raises(InvalidRecordError, match="12 follows"):
        log.append_as_follower(data)


def test_flush_waits_for_the_active_segment_while_others_are_discarded(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(segment_bytes=500)
    fill(log, 10)
    log.high_watermark = log.recovery_point = log.active.base_offset

    class Discarded(list[Segment]):
        """Segments that the event loop discards during a search by a worker."""

        def __getitem__(self, index: Any) -> Any:
            log.delete_records_before(log.high_watermark)
            return super().__getitem__(index)

    log.segments = Discarded(log.segments)
    synced: list[int] = []
    monkeypatch.setattr(Segment, "sync", lambda segment: synced.append(segment.base_offset))
    log.flush()
    assert len(log.segments) == 1
    assert log.active.base_offset in synced


@pytest.mark.parametrize("cut", [1, 70])
def test_follower_leaves_out_an_incomplete_last_batch(make_log: Callable[..., Log], cut: int) -> None:
    log = make_log()
    whole, rest = batch(b"a", b"b"), batch(b"c" * 50, base_offset=2)
    log.append_as_follower(memoryview(bytearray(bytes(whole) + bytes(rest[:-cut]))))
    assert (values(log), log.log_end_offset, log.size) == ([b"a", b"b"], 2, len(whole))
    log.append_as_follower(rest)
    assert log.log_end_offset == 3
    with pytest.raises(CorruptMessageError):
        log.append_as_follower(rest[:-cut])


def test_follower_takes_batches_larger_than_a_lowered_segment_bytes(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=100)
    for offset in (0, 2):
        log.append_as_follower(batch(b"x" * 100, b"y" * 100, base_offset=offset))
    assert values(log) == [b"x" * 100, b"y" * 100] * 2
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_offset_for_time_is_the_first_record_at_or_after_the_timestamp(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=700, index_interval_bytes=1)
    times = [NOW + d for d in (0, 10, 5, 20, 20, 15, 30, 31, 29, 40)]
    for i in range(0, 10, 2):
        log.append(batch((times[i], b"k", b"x" * 50), (times[i + 1], b"k", b"y" * 50)), leader_epoch=i)
    for expected in range(NOW - 1, NOW + 41):
        first = next(i for i, t in enumerate(times) if t >= expected)
        actual = log.offset_for_time(expected)
        assert actual is not None
        assert (actual.offset, actual.timestamp) == (first, times[first]), expected - NOW
    assert log.offset_for_time(NOW + 41) is None
    newest = log.max_timestamp_offset()
    assert newest is not None
    assert newest[:2] == (9, NOW + 40)


def test_offset_for_time_finds_timestamp_0_after_a_restart(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for _ in range(2):
        log.append(batch(b"without a clock", timestamp=0), leader_epoch=0)
    expected = log.offset_for_time(0)
    assert expected is not None
    assert expected.offset == 0
    log.close()
    log = make_log(clean=True)
    assert log.offset_for_time(0) == log.max_timestamp_offset() == expected


def test_offset_for_time_skips_records_before_the_log_start_offset(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
    log.high_watermark = 3
    log.delete_records_before(2)
    actual = log.offset_for_time(0)
    assert actual is not None
    assert actual.offset == 2


def test_truncation_removes_records_leader_epochs_and_producer_state(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 20)
    for i in range(5):
        log.append(batch(b"new", producer_id=9, producer_epoch=0, base_sequence=i), leader_epoch=7)
    log.flush()
    assert log.truncate_to(21)
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (21, 21, 20)
    assert [r.offset for r in contents(log)] == list(range(21))
    assert log.producers.producers[9].last_sequence == 0
    log.append(batch(b"x", producer_id=9, producer_epoch=0, base_sequence=1), leader_epoch=8)
    assert log.leader_epochs.entries == [(0, 0), (7, 20), (8, 21)]
    assert not log.truncate_to(22)
    assert log.truncate_to(0)
    assert (log.log_end_offset, log.leader_epochs.entries, log.size) == (0, [], 0)


def test_age_of_a_truncated_segment_counts_from_its_new_first_record(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_ms=1000)
    log.append(batch(b"first", timestamp=NOW), leader_epoch=0)
    log.roll()
    log.append(batch(b"old", timestamp=NOW), leader_epoch=0)
    assert log.truncate_to(1)
    for _ in range(2):
        log.append(batch(b"new", timestamp=NOW + 5000), leader_epoch=1)
    assert [s.base_offset for s in log.segments] == [0, 1]


def test_truncation_within_a_batch_removes_the_whole_batch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    fill(log, 3)
    log.append(batch(b"3", b"4", b"5", b"6"), leader_epoch=1)
    assert log.truncate_to(5)
    assert (log.log_end_offset, log.leader_epochs.entries) == (3, [(0, 0)])
    log.append_as_follower(batch(b"3", b"4", base_offset=3))
    assert [r.offset for r in contents(log)] == list(range(5))
    log.high_watermark = 5
    log.delete_records_before(4)
    assert log.truncate_to(4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4), "never before the log start"


def test_truncate_fully_starts_the_log_at_an_offset(make_log: Callable[..., Log]) -> None:
    log = make_log()
    fill(log, 5)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    log.append(batch(b"a"), leader_epoch=0)
    assert [r.offset for r in contents(log)] == [100]


def test_records_are_deleted_up_to_the_high_watermark(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=500)
    fill(log, 20)
    log.high_watermark = 10
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_records_before(11)
    assert log.delete_records_before(7) == 7
    assert log.segments[0].base_offset <= 7 < log.segments[1].base_offset
    with pytest.raises(OffsetOutOfRangeError):
        log.read(6, 100, max_offset=10)
    assert log.delete_records_before(3) == 7, "the log start offset never decreases"


def test_deleted_segments_are_renamed_until_file_delete_delay_ms(
    make_log: Callable[..., Log], clock: ManualClock, tmp_path: Path
) -> None:
    log = make_log(segment_bytes=500, file_delete_delay_ms=1000)
    fill(log, 10)
    log.delete_records_before(10)
    renamed = list(tmp_path.rglob("*.deleted"))
    assert renamed
    assert log.begin_deletion(clock.now_ms() + 999) is None
    delete = log.begin_deletion(clock.now_ms() + 1000)
    assert delete is not None
    assert list(tmp_path.rglob("*.deleted")) == renamed
    delete()
    assert not list(tmp_path.rglob("*.deleted"))


def test_retention_by_time_empties_an_idle_log(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(segment_bytes=500, retention_ms=1000)
    fill(log, 10)
    assert apply_retention(log, clock.now_ms() + 1000) == 0
    assert apply_retention(log, clock.now_ms() + 1001) > 1
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)


def test_retention_stops_at_the_high_watermark(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(segment_bytes=500, retention_ms=1000)
    fill(log, 20)
    log.high_watermark = 10
    apply_retention(log, clock.now_ms() + 10_000)
    assert 0 < log.log_start_offset <= 10


def test_retention_by_size_keeps_at_least_retention_bytes(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(segment_bytes=500, retention_bytes=1200, retention_ms=-1)
    fill(log, 30)
    apply_retention(log, clock.now_ms())
    assert 1200 <= log.size < 1200 + 500
    assert log.read(log.log_start_offset, 100, max_offset=30).nbytes > 0


def test_retention_does_not_delete_segments_of_a_compacted_log(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(segment_bytes=500, retention_ms=1, cleanup_policy=("compact",))
    fill(log, 10)
    assert apply_retention(log, clock.now_ms() + 10**9) == 0


def test_flush_advances_the_recovery_point(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=500)
    fill(log, 10)
    assert log.unflushed_messages == 10
    log.flush(4)
    assert log.recovery_point == 4
    log.flush()
    assert (log.recovery_point, log.unflushed_messages) == (10, 0)


def test_flush_with_a_concurrent_truncation_does_not_advance_the_recovery_point(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    fill(log, 10)
    log.high_watermark = 0
    real = os.fsync

    def truncate_meanwhile(fd: int) -> None:
        real(fd)
        if log.log_end_offset == 10:
            log.truncate_to(3)
            log.append(batch(b"other", b"records", b"now"), leader_epoch=1)

    monkeypatch.setattr(os, "fsync", truncate_meanwhile)
    log.flush()
    assert log.recovery_point <= 3
    monkeypatch.undo()
    log.flush()
    assert log.recovery_point == log.log_end_offset == 6


def test_append_to_a_closed_log_raises_storage_error(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.close()
    with pytest.raises(KafkaStorageError, match="closed"):
        log.append(batch(b"a"), leader_epoch=0)


def test_clean_restart_restores_the_log_end_and_its_state(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=1000)
    fill(log, 25)
    log.append(batch(b"p", producer_id=4, producer_epoch=1, base_sequence=0), leader_epoch=2)
    log.close()
    again = make_log(segment_bytes=1000, clean=True)
    assert again.log_end_offset == again.recovery_point == 26
    assert again.producers.producers[4].last_sequence == 0
    assert again.leader_epochs.entries == [(0, 0), (2, 25)]
    again.append(batch(b"q", producer_id=4, producer_epoch=1, base_sequence=1), leader_epoch=2)
    assert [r.offset for r in contents(again)] == list(range(27))


def test_end_offset_for_epoch_is_the_start_of_the_next_epoch(make_log: Callable[..., Log]) -> None:
    log = make_log()
    for epoch in (1, 1, 3, 6):
        log.append(batch(b"a", b"b"), leader_epoch=epoch)
    assert [log.end_offset_for_epoch(e) for e in (0, 1, 2, 3, 5, 6, 7)] == [
        (0, 0), (1, 4), (1, 4), (3, 6), (3, 6), (6, 8), (-1, -1),
    ]  # fmt: skip
    assert [log.epoch_for_offset(o) for o in (0, 3, 4, 7)] == [1, 1, 3, 6]


def test_config_can_be_replaced(make_log: Callable[..., Log]) -> None:
    log = make_log()
    fill(log, 3)
    log.config = LogConfig(max_message_bytes=10)
    with pytest.raises(MessageTooLargeError):
        fill(log, 1)


def open_files(log: Log) -> list[str]:
    return [
        target for fd in os.listdir("/proc/self/fd") if (target := _target(fd)) is not None and str(log.dir) in target
    ]


def has_closed_files(log: Log) -> bool:
    """Return whether all files of a log are closed, within some seconds: a thread that inspects the stacks of others,
    such as a monitor of an event loop, may refer to a file for a moment.
    """
    ends = time.monotonic() + 10
    while open_files(log) and time.monotonic() < ends:
        time.sleep(0.001)
    return not open_files(log)


def _target(fd: str) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # the descriptor of the listing itself
        return None


def test_idle_log_has_no_open_files(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=1000, index_interval_bytes=100)
    assert has_closed_files(log), "the log has not been used yet"
    fill(log, 60)
    for offset in range(0, 60, 5):
        log.read(offset, 100, max_offset=60).release()
        log.offset_for_time(NOW)
    log.close_idle()
    assert open_files(log), "the log was in use since the previous call"
    log.close_idle()
    assert has_closed_files(log)
    for segment in log.segments:
        segment.latest()
    assert has_closed_files(log), "the files are closed after retention has checked every segment"
    index = log.active.offset_index
    assert index.path.stat().st_size == 8 * index.entries > 0
    fill(log, 2)
    assert len(contents(log)) == 62
    log.close_without_flush()
    assert not open_files(make_log(segment_bytes=1000)), "recovery closes the files that it has read"


def test_segment_is_preallocated_until_it_is_rolled_or_closed(make_log: Callable[..., Log]) -> None:
    log = make_log(preallocate=True, segment_bytes=50_000)
    fill(log, 3)
    path = log.active.path(".log")
    assert path.stat().st_size == 50_000
    assert path.stat().st_blocks * 512 >= 50_000
    log.roll()
    assert path.stat().st_size == log.segments[0].size
    fill(log, 3)
    log.close_without_flush()
    again = make_log(preallocate=True, segment_bytes=50_000)
    assert len(contents(again)) == 6
    fill(again, 1)
    again.close()
    assert again.active.path(".log").stat().st_size == again.active.size
    assert len(contents(make_log(clean=True))) == 7


def test_segment_is_preallocated_on_a_file_system_that_cannot_allocate_blocks(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", cannot, raising=False)
    log = make_log(preallocate=True, segment_bytes=50_000)
    fill(log, 3)
    assert log.active.path(".log").stat().st_size == 50_000
    assert len(contents(log)) == 3


def test_retention_of_a_segment_without_timestamps_uses_its_modification_time(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(retention_ms=1000)
    fill(log, 1, timestamp=-1)
    log.high_watermark = 1
    for modified_ms, left in ((NOW, 1), (NOW - 1001, 0)):
        os.utime(log.active.path(".log"), (modified_ms / 1000, modified_ms / 1000))
        apply_retention(log, NOW)
        assert len(contents(log)) == left


def test_batch_that_grows_above_max_message_bytes_by_conversion_is_too_large(make_log: Callable[..., Log]) -> None:
    log = make_log(max_message_bytes=1000, compression_type="uncompressed")
    with pytest.raises(MessageTooLargeError):
        log.append(batch(b"x" * 5000, codec=compression.GZIP), leader_epoch=0)


def test_flush_of_a_log_that_is_deleted_meanwhile_does_not_fail(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    fill(log, 3)
    real = os.fsync

    def delete_meanwhile(fd: int) -> None:
        if not log.closed:
            log.close_without_flush()
            log.dir.rename(log.dir.with_name("orders-0.delete"))
        real(fd)

    monkeypatch.setattr(os, "fsync", delete_meanwhile)
    log.flush()
    assert log.recovery_point == 0


def test_failed_creation_of_a_segment_leaves_no_file(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(segment_bytes=1000)
    log.append(batch((b"k", b"x" * 400)), leader_epoch=0)
    real = os.open

    def full(path: Path, flags: int, *mode: int, **options: Any) -> int | None:
        if flags & os.O_CREAT and os.path.basename(path) == "00000000000000000001.index":
            raise OSError(errno.ENOSPC, "full")
        return real(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(KafkaStorageError, match="no space"):
        log.append(batch((b"k", b"y" * 600)), leader_epoch=0)
    monkeypatch.undo()
    fill(log, 3, size=10)
    assert len(log.segments) == 1, "these fitted into the old segment"
    log.close()
    assert make_log(clean=True, segment_bytes=1000).log_end_offset == 4


def test_retention_on_a_full_disk_raises_storage_error(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(segment_bytes=500, retention_bytes=500)
    fill(log, 10)

    def full(*_: Path) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(KafkaStorageError, match="no space"):
        apply_retention(log, NOW)
    assert log.log_start_offset > 0
    with pytest.raises(KafkaStorageError, match="no space"):
        log.delete_records_before(10)


def test_offset_after_a_slice_is_close_to_its_end(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=8000, index_interval_bytes=1000)
    fill(log, 100, size=200)
    for offset in range(0, 100, 3):
        for nbytes in (300, 3000, 7000):
            with log.read(offset, nbytes, max_offset=100) as actual:
                last = max(h.last_offset for h, _, _ in split(actual.read()))
                after = log.offset_after(offset, actual.nbytes)
            assert last < after <= min(last + 8, 100)


def test_files_of_rolled_segments_are_closed(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes=300)
    for _ in range(60):
        log.append(batch(b"x" * 200), leader_epoch=0)
    assert len(log.segments) > 30
    assert sum(segment._file is not None for segment in log.segments) <= WARM_SEGMENTS + 1


def test_first_flush_syncs_the_parent_directory(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    synced = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    log.append(batch(b"a"), leader_epoch=0)
    log.flush()
    assert str(log.dir.parent) in synced


def test_flush_syncs_only_files_that_have_changed(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(segment_bytes=2500)
    synced: list[str] = []
    real, fails = os.fsync, False

    def fsync(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        if fails:
            raise OSError(errno.EIO, "broken")
        real(fd)

    def flushed(*, epoch: int) -> set[str]:
        log.append(batch(b"a" * 500), leader_epoch=epoch)
        synced.clear()
        log.flush()
        assert len(synced) == len(set(synced))
        return set(synced)

    monkeypatch.setattr(os, "fsync", fsync)
    name, base = log.dir.name, "00000000000000000000"
    epochs = "leader-epoch-checkpoint"
    assert {f"{base}.log", f"{base}.index", f"{base}.timeindex", epochs, name} <= flushed(epoch=0)
    assert flushed(epoch=0) == {f"{base}.log", name}
    assert flushed(epoch=1) == {f"{base}.log", epochs, name}
    new = f"{3:020}"
    log.append(batch(b"a" * 1000), leader_epoch=1)  # in a new segment: the indexes of the old one are written
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert {f"{new}.log", f"{new}.index", f"{new}.timeindex", name} <= flushed(epoch=1)
    assert flushed(epoch=1) == {f"{new}.log", f"{new}.snapshot", name}
    log.leader_epochs.assign(2, log.log_end_offset)
    fails = True
    with pytest.raises(OSError, match="broken"):
        log.leader_epochs.sync()
    fails = False
    synced.clear()
    log.leader_epochs.sync()
    assert epochs in synced, "a failed sync is retried"


def test_flush_waits_for_an_fsync_of_another_flush(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    log.append(batch(b"a"), leader_epoch=3)
    started, resume = Event(), Event()
    real = os.fsync

    def fsync(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".timeindex"):
            started.set()
            assert resume.wait(10)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(log.flush)
        assert started.wait(10)
        second = workers.submit(log.flush)
        wait([second], timeout=0.05)
        assert log.recovery_point == 0
        resume.set()
        first.result(), second.result()
    assert log.recovery_point == 1


def test_indexes_written_after_a_flush_of_their_records_are_synced(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery does not check the indexes below the recovery point, apart from their sizes."""
    on_disk: dict[str, bytes] = {}
    real = os.fsync

    def fsync(fd: int) -> None:
        real(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_file():
            on_disk[path.name] = path.read_bytes()

    def check(segments: list[Segment]) -> None:
        for segment in segments:
            for index in (segment.offset_index, segment.time_index):
                assert on_disk[index.path.name] == index.path.read_bytes() != b""

    def append() -> None:
        log.append(batch(b"x" * 300), leader_epoch=0)
        log.flush()

    def unflushed_indexes() -> tuple[Segment, ...]:
        return log._unflushed_indexes

    log = make_log(segment_bytes=2000, index_interval_bytes=100)
    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(8):
        append()
    assert len(log.segments) == 2
    check(log.segments[:1])
    log.roll()  # as retention does, without an append after it
    log.flush()
    check(log.segments[:2])
    for _ in range(2):
        append()
        log.close_idle()
        log.close_idle()
        log.append(batch(b"x" * 300), leader_epoch=0)
        log.close_idle()
        log.close_idle()
    assert unflushed_indexes() == (log.active,)
    log.flush()
    assert unflushed_indexes() == ()
    append()
    on_disk.clear()
    log.close(waits_for_indexes=False)
    assert not on_disk
    log = make_log(clean=True, segment_bytes=2000, index_interval_bytes=100)
    for _ in range(3):
        append()
    log.close()
    check(log.segments[-1:])


def test_rebuilt_index_of_a_flushed_segment_is_synced(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log(segment_bytes=1000)
    for _ in range(4):
        log.append(batch(b"x" * 300), leader_epoch=0)
    log.flush()
    path = log.segments[0].time_index.path
    assert log.segments[1].base_offset < log.recovery_point
    path.unlink()
    synced: set[str] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(os.readlink(f"/proc/self/fd/{fd}")))
    make_log(segment_bytes=1000, recovery_point=log.recovery_point)
    assert path.stat().st_size
    assert str(path) in synced
