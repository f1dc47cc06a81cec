"""Compaction: retained records, tombstones, transactions, producer state, and failed passes."""

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.conftest import NOW, batch, contents

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.errors import CorruptMessageError, KafkaStorageError
from ottla.model import TopicPartition
from ottla.records import compression
from ottla.records.batch import read_header
from ottla.records.decoder import decode_records
from ottla.storage.checkpoints import CLEANER_OFFSETS, read_offsets
from ottla.storage.compaction import cleanable, cleaner, copier
from ottla.storage.compaction.cleaner import run_steps
from ottla.storage.compaction.offset_map import BYTES_PER_KEY, OffsetMap
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.producer_state import ABORT, COMMIT, marker_record
from ottla.storage.throttle import StoppedError, Throttle

SMALL: dict[str, Any] = {"segment_bytes": 1000, "cleanup_policy": ("compact",), "delete_retention_ms": 1000}


@pytest.fixture
def log(make_log: Callable[..., Log]) -> Log:
    return make_log(**SMALL)


def put(log: Log, *rows: tuple[bytes, bytes | None], **options: Any) -> None:
    log.append(batch(*rows, **options), leader_epoch=0)
    log.high_watermark = log.log_end_offset


def as_dict(log: Log) -> dict[bytes | None, tuple[int, bytes | None, int]]:
    return {r.key: (r.offset, r.value, r.timestamp) for r in contents(log)}


def clean(log: Log, first_dirty: int = 0, **options: Any) -> int:
    """Roll the active segment and compact the log."""
    if log.active.size:
        log.roll()
    return cleaner.clean(log, first_dirty, **options)


@pytest.mark.parametrize("codec", range(5))
def test_last_record_of_each_key_keeps_its_offset(log: Log, codec: int) -> None:
    rng = random.Random(codec)
    for _ in range(50):
        put(log, *[(b"k%d" % rng.randrange(10), rng.randbytes(20)) for _ in range(3)], codec=codec)
    before = as_dict(log)
    size, end = log.size, log.log_end_offset
    assert clean(log) == end
    assert as_dict(log) == before
    assert len(contents(log)) == 10
    assert log.size < size
    assert log.log_end_offset == end


def test_read_at_a_removed_offset_returns_the_next_record(log: Log) -> None:
    for i in range(20):
        put(log, (b"same", b"%d" % i), (b"k%d" % i, b"x" * 80))
    clean(log)
    stored = [r.offset for r in contents(log)]
    for offset in range(log.log_end_offset):
        first = next(iter(log.batches_from(offset)), None)
        assert first is not None
        assert first[0].last_offset >= offset
    assert 0 not in stored


def test_small_segments_are_merged(log: Log) -> None:
    for i in range(40):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    segments = len(log.segments)
    clean(log)
    assert len(log.segments) < segments / 2


def test_tombstone_is_removed_after_delete_retention_ms(log: Log, clock: ManualClock) -> None:
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", None))
    end = clean(log)
    assert [(r.key, r.value, r.timestamp) for r in contents(log)] == [(b"b", b"2", NOW), (b"a", None, NOW)]
    clock.advance(999)
    put(log, (b"c", b"3"))
    end = clean(log, end)
    assert b"a" in as_dict(log), "a reader may not have seen it yet"
    clock.advance(1)
    put(log, (b"d", b"4"))
    clean(log, end)
    assert set(as_dict(log)) == {b"b", b"c", b"d"}


def test_active_segment_is_not_compacted(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    assert cleaner.clean(log, 0) == 0
    assert len(contents(log)) == 2


def test_records_above_the_last_stable_offset_are_not_compacted(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, (b"a", b"3"))
    assert clean(log) == 1
    assert len(contents(log)) == 3


def test_min_compaction_lag_protects_recent_records(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(**SMALL, min_compaction_lag_ms=5000)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    assert clean(log) == 0
    clock.advance(5001)
    assert clean(log) == 2
    assert [r.value for r in contents(log)] == [b"2"]


def test_aborted_records_are_removed_and_committed_ones_stay(log: Log, clock: ManualClock) -> None:
    def marker(kind: int, producer_id: int) -> None:
        data = batch(
            marker_record(kind, 0), producer_id=producer_id, producer_epoch=0, transactional=True, control=True
        )
        log.append(data, leader_epoch=0, origin_client=False)

    put(log, (b"a", b"old"))
    put(log, (b"a", b"aborted"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, (b"b", b"committed"), producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    marker(ABORT, 1)
    marker(COMMIT, 2)
    put(log, (b"c", b"plain"))
    end = clean(log)

    def users() -> list[bytes | None]:
        return [r.value for r in contents(log) if r.key in (b"a", b"b", b"c")]

    assert users() == [b"old", b"committed", b"plain"]
    assert len(contents(log)) == 5, "both markers stay at first"
    del log.producers.producers[1]  # its last batch, which is empty, was retained for its sequence
    for newer in (b"new", b"newer"):
        clock.advance(1001)
        put(log, (b"c", newer))
        end = clean(log, end)
    assert users() == [b"old", b"committed", b"newer"]
    assert len(contents(log)) == 4, "the marker of the aborted transaction is removed"


@pytest.mark.parametrize("bound", ["map", "watermark"])
def test_aborted_records_after_the_end_of_a_pass_stay_hidden(make_log: Callable[..., Log], bound: str) -> None:
    log = make_log(**SMALL | {"segment_bytes": 2000})
    for i in range(12):
        put(log, (b"k%d" % i, b"x" * 50), producer_id=1, producer_epoch=0, base_sequence=i, transactional=True)
        if i % 3 == 2:
            marker = batch(marker_record(ABORT, 0), producer_id=1, producer_epoch=0, transactional=True, control=True)
            log.append(marker, leader_epoch=0, origin_client=False)
        put(log, (b"p%d" % i, b"plain"))
    end = 9 if bound == "watermark" else log.log_end_offset
    log.high_watermark = end
    log.roll()
    assert 0 < cleaner.clean(log, 0, map_bytes=(4 if bound == "map" else 1000) * BYTES_PER_KEY) < log.log_end_offset
    log.close()
    again = make_log(clean=True, **SMALL)
    aborted = again.aborted_transactions(0, again.log_end_offset)
    visible = [
        r.key
        for header, data in again.batches_from(0)
        if not header.is_control
        and not any(
            a.producer_id == header.producer_id and a.first_offset <= header.base_offset <= a.last_offset
            for a in aborted
        )
        for r in decode_records(data, 0, header)
    ]
    assert visible == [b"p%d" % i for i in range(12)]


def test_last_batch_of_a_producer_keeps_its_sequence(make_log: Callable[..., Log]) -> None:
    log = make_log(**SMALL)
    put(log, (b"a", b"1"), producer_id=4, producer_epoch=2, base_sequence=6)
    put(log, (b"a", b"2"))
    clean(log)
    assert [r.value for r in contents(log)] == [b"2"]
    log.close_without_flush()
    for path in log.dir.glob("*.snapshot"):
        path.unlink()
    again = make_log(**SMALL)
    assert again.producers.producers[4].last_sequence == 6


def test_log_append_time_survives_compaction(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(**SMALL, message_timestamp_type="LogAppendTime")
    put(log, (b"a", b"1"), (b"b", b"2"))
    clock.advance(50)
    put(log, (b"a", b"3"))
    clean(log)
    assert [(r.value, r.timestamp) for r in contents(log)] == [(b"2", NOW), (b"3", NOW + 50)]


def test_full_offset_map_ends_the_pass_between_batches(log: Log) -> None:
    for i in range(20):
        put(log, (b"k%d" % i, b"1"), (b"k%d" % (i + 1), b"2"))
    before = as_dict(log)
    end = first = clean(log, map_bytes=5 * BYTES_PER_KEY)
    assert 0 < first < log.log_end_offset
    while end < log.log_end_offset:
        following = cleaner.clean(log, end, map_bytes=5 * BYTES_PER_KEY)
        assert following > end
        end = following
    assert {k: v[1] for k, v in as_dict(log).items()} == {k: v[1] for k, v in before.items()}
    assert len(contents(log)) < 40


def test_pass_is_aborted_if_the_log_lost_segments_meanwhile(log: Log) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    now = log.clock.now_ms()
    cleaning = cleaner.CleanerPass(cleanable.measure(log, 0, now), now)
    cleaning.copy()
    log.delete_records_before(15)
    before = contents(log)
    assert not cleaning.install()
    assert contents(log) == before
    assert not list(log.dir.glob("*.cleaned"))


def test_pass_is_aborted_if_the_log_was_truncated_meanwhile(log: Log) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    now = log.clock.now_ms()
    cleaning = cleaner.CleanerPass(cleanable.measure(log, 0, now), now)
    cleaning.copy()
    log.truncate_to(log.segments[-2].base_offset + 1)
    before = contents(log)
    assert not cleaning.install()
    assert contents(log) == before


def test_failed_copy_leaves_no_files(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    before = contents(log)
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(5, "broken disk")))
    with pytest.raises(KafkaStorageError, match="broken disk"):
        cleaner.clean(log, 0)
    monkeypatch.undo()
    assert contents(log) == before
    assert not list(log.dir.glob("*.cleaned"))


def test_dirtiest_log_is_chosen_once_it_reaches_min_cleanable_dirty_ratio(log: Log) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    now = log.clock.now_ms()
    all_dirty = cleanable.measure(log, 0, now)
    assert all_dirty.ratio == 1.0
    half = log.segments[len(log.segments) * 3 // 4].base_offset
    mostly_clean = cleanable.measure(log, half, now)
    assert 0 < mostly_clean.ratio < 0.5
    assert cleanable.dirtiest([mostly_clean]) is None
    assert cleanable.dirtiest([mostly_clean, all_dirty]) is all_dirty
    log.config = log.config._replace(max_compaction_lag_ms=1)
    assert cleanable.dirtiest([cleanable.measure(log, half, now + 10**12)]) is not None


def test_rest_of_a_segment_is_compacted_after_a_pass_with_a_full_map(log: Log) -> None:
    log.config = log.config._replace(segment_bytes=100_000)
    for i in range(20):
        put(log, (b"k%d" % i, b"1"))
    first = clean(log, map_bytes=5 * BYTES_PER_KEY)
    assert 0 < first < log.segments[-1].base_offset == log.log_end_offset
    assert len(log.segments) == 2
    now = log.clock.now_ms()
    rest = cleanable.measure(log, first, now)
    assert cleanable.dirtiest([rest]) is rest
    assert cleanable.measure(log, log.log_end_offset, now).dirty_bytes == 0


def test_segment_is_not_dirty_after_a_pass_up_to_the_last_stable_offset(log: Log) -> None:
    log.config = log.config._replace(segment_bytes=100_000)
    for i in range(4):
        put(log, (b"k%d" % i, b"1"))
    log.high_watermark = 2
    first = clean(log)
    assert first == 2
    assert cleanable.measure(log, first, log.clock.now_ms()).dirty_bytes == 0
    log.high_watermark = 3
    assert cleanable.measure(log, first, log.clock.now_ms()).dirty_bytes > 0


def test_offset_map_distinguishes_keys_of_all_lengths() -> None:
    seen = OffsetMap(1 << 20)
    keys = [b"x" * n for n in range(40)] + [b"y" * n for n in range(1, 40)]
    for offset, key in enumerate(keys):
        seen.put(key, offset)
    assert [seen.get(key) for key in keys] == list(range(len(keys)))
    assert seen.get(b"unknown") == -1


def test_compaction_does_not_compress_uncompressed_batches(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"2"))
    put(log, (b"a", b"3"))
    clean(log)
    assert all(header.codec == compression.NONE for header, _ in log.batches_from(0))


def test_segment_is_rolled_and_compacted_after_max_compaction_lag(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(cleanup_policy=("compact",), max_compaction_lag_ms=1000)
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"), timestamp=NOW + 1001)
    assert len(log.segments) == 2
    assert cleanable.dirtiest([cleanable.measure(log, 0, NOW + 1000)._replace(clean_bytes=10**6)]) is None
    assert cleanable.dirtiest([cleanable.measure(log, 0, NOW + 1001)._replace(clean_bytes=10**6)]) is not None


def test_pass_ends_when_the_throttle_is_stopped(log: Log) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    before = contents(log)
    now = log.clock.now_ms()
    throttle = Throttle()
    cleaning = cleaner.CleanerPass(cleanable.measure(log, 0, now), now, throttle=throttle)
    throttle.stop()
    with pytest.raises(StoppedError):
        cleaning.copy()
    assert contents(log) == before
    assert not list(log.dir.glob("*.cleaned"))


@pytest.fixture
def log_dir(tmp_path: Path, clock: ManualClock) -> Iterator[LogDir]:
    config = LogConfig(**SMALL)
    with LogDir.open(tmp_path / "data", broker_id=0, clock=clock) as actual:
        actual.load(lambda tp: config)
        for name in ("a", "b"):
            log = actual.create(TopicPartition(name, 0), config)
            for i in range(30):
                put(log, (b"k", b"%d" % i + b"x" * 80))
        yield actual


def test_concurrent_passes_compact_different_logs(log_dir: LogDir) -> None:
    first, second = log_dir.next_cleaning(NOW), log_dir.next_cleaning(NOW)
    assert first is not None
    assert second is not None
    assert {first.log.topic_partition.topic, second.log.topic_partition.topic} == {"a", "b"}
    assert log_dir.next_cleaning(NOW) is None
    log_dir.abort_cleaning(first)
    again = log_dir.next_cleaning(NOW)
    assert again is not None
    assert again.log is first.log
    again.copy()
    assert run_steps(log_dir.finish_cleaning(again))
    assert len(contents(again.log)) < 30


def test_concurrent_passes_write_the_cleaner_checkpoint_one_after_the_other(
    log_dir: LogDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = [log_dir.next_cleaning(NOW), log_dir.next_cleaning(NOW)]
    for cleaning in passes:
        assert cleaning is not None
        cleaning.copy()
    first, second = (log_dir.finish_cleaning(cleaning) for cleaning in passes if cleaning is not None)
    replace = os.replace
    other: list[Future[bool]] = []

    def replace_late(source: Path, target: Path) -> None:
        if target.name == CLEANER_OFFSETS and not other:
            other.append(pool.submit(run_steps, second))
            wait(other, timeout=0.2)
        replace(source, target)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(os, "replace", replace_late)
        assert run_steps(first)
        assert other[0].result()
    assert read_offsets(log_dir.path / CLEANER_OFFSETS) == log_dir.cleaner_offsets
    assert len(log_dir.cleaner_offsets) == 2


def test_pass_over_a_log_that_was_deleted_meanwhile_does_not_affect_a_new_one(log_dir: LogDir) -> None:
    first, second = log_dir.next_cleaning(NOW), log_dir.next_cleaning(NOW)
    assert first is not None
    assert second is not None
    names = [cleaning.log.topic_partition for cleaning in (first, second)]
    first.copy()
    for wait_for_disk in log_dir.finish_cleaning(first):
        wait_for_disk()
        if getattr(wait_for_disk, "func", None) == first._delete_replaced:
            log_dir.delete(names[0])
            log_dir.create(names[0], LogConfig(**SMALL))
    log_dir.delete(names[1])
    log_dir.create(names[1], LogConfig(**SMALL))
    log_dir.abort_cleaning(second, "damaged")
    assert (log_dir.cleaner_offsets, log_dir.uncleanable) == ({}, set())


def test_map_without_memory_has_room_for_one_key(log_dir: LogDir) -> None:
    cleaning = log_dir.next_cleaning(NOW, map_bytes=0)
    assert cleaning is not None
    cleaning.copy()
    assert run_steps(log_dir.finish_cleaning(cleaning))
    assert log_dir.cleaner_offsets[cleaning.log.topic_partition] == 1


def test_damaged_log_does_not_prevent_compaction_of_others(log_dir: LogDir) -> None:
    first = log_dir.next_cleaning(NOW)
    assert first is not None
    log_dir.abort_cleaning(first, "it is damaged")
    for _ in range(2):
        following = log_dir.next_cleaning(NOW)
        assert following is not None
        assert following.log is not first.log
        log_dir.abort_cleaning(following)
    too_small = log_dir.next_cleaning(NOW)
    assert too_small is not None
    assert not run_steps(log_dir.finish_cleaning(too_small)), "a pass without progress is not repeated"
    assert log_dir.next_cleaning(NOW) is None


def test_compaction_of_a_damaged_log_raises_corrupt_message_error(log: Log) -> None:
    for i in range(30):
        put(log, (b"k", b"%d" % i + b"x" * 80))
    path = log.segments[0].path(".log")
    data = bytearray(path.read_bytes())
    data[61] ^= 0x40  # the length of the first record
    path.write_bytes(data)
    with pytest.raises(CorruptMessageError):
        cleaner.clean(log, 0)
    assert not list(log.dir.glob("*.cleaned"))


def test_compaction_of_a_batch_with_repeated_offsets_raises_corrupt_message_error() -> None:
    data = batch(b"a", b"b")
    header = read_header(data)
    records = decode_records(data, 0, header)
    with pytest.raises(CorruptMessageError, match="the batch at offset 0 is damaged: offset 0 cannot follow"):
        copier._rewrite(header, [records[0], records[0]], None)
