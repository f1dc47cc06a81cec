"""Recovery from kills, truncation and damage: flushed records survive, offsets have no gaps, indexes are valid."""

import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.storage.conftest import NOW, TP, batch, contents

from ottla.records.decoder import Record, decode_records
from ottla.storage.compaction import cleanable, cleaner
from ottla.storage.compaction.cleaner import CleanerPass
from ottla.storage.log import Log
from ottla.storage.scan import headers
from ottla.storage.segment import SEGMENT_SUFFIXES

CONFIG = {"segment_bytes": 4000, "index_interval_bytes": 300, "segment_index_bytes": 4096}


def fill(log: Log, rng: Random, count: int) -> None:
    for _ in range(count):
        rows = [
            (NOW + rng.randrange(1000), b"k%d" % rng.randrange(9), rng.randbytes(rng.randrange(120)))
        ] * rng.randint(1, 4)
        log.append(batch(*rows), leader_epoch=log.log_end_offset // 40)
    log.high_watermark = log.log_end_offset


def check(log: Log, before: list[Record], flushed: int) -> None:
    """Check that the log is a prefix of `before` up to `flushed` at least, with matching indexes and epochs."""
    actual = contents(log)
    assert actual == before[: len(actual)]
    assert [r.offset for r in actual] == list(range(len(actual)))
    assert log.log_end_offset == len(actual) >= flushed
    for segment in log.segments:
        segment.sanity_check()
        starts = dict(headers(segment.file, 0, segment.size))
        for i in range(segment.offset_index.entries):
            relative, position = segment.offset_index.entry(i)
            assert starts[position].last_offset == segment.base_offset + relative
        assert segment.latest().timestamp == max((h.max_timestamp for h in starts.values()), default=-1)
    for record in actual:
        header, data = next(log.batches_from(record.offset))
        assert record in decode_records(data, 0, header)
        assert log.epoch_for_offset(record.offset) == header.leader_epoch
    latest = max((r.timestamp for r in actual), default=-1)
    assert log.offset_for_time(latest + 1) is None


def after_crash(make_log: Callable[..., Log], log: Log, before: list[Record], flushed: int) -> None:
    again = make_log(recovery_point=log.recovery_point, **CONFIG)
    check(again, before, flushed)
    again.append(batch(b"goes on"), leader_epoch=99)
    assert contents(again)[-1].offset == again.log_end_offset - 1
    again.close()
    clean = make_log(clean=True, **CONFIG)
    check(clean, contents(clean), clean.log_end_offset)


def test_leader_epochs_of_a_lost_truncation_are_rebuilt_from_the_batches(make_log: Callable[..., Log]) -> None:
    log = make_log(**CONFIG)
    for _ in range(5):
        log.append(batch(b"of epoch 0"), leader_epoch=0)
    log.leader_epochs.assign(1, 3)  # a truncation to 3 that was lost, because it was not on disk
    log.close_without_flush()
    again = make_log(recovery_point=0, **CONFIG)
    assert again.log_end_offset == 5
    assert again.epoch_for_offset(4) == 0
    assert [tuple(entry) for entry in again.leader_epochs.entries] == [(0, 0)]


@pytest.mark.parametrize("seed", range(40))
def test_recovery_truncates_a_damaged_end_of_the_active_segment(make_log: Callable[..., Log], seed: int) -> None:
    rng = random.Random(seed)
    log = make_log(**CONFIG)
    fill(log, rng, 60)
    log.flush(rng.randrange(log.segments[-1].base_offset + 1))
    before = contents(log)
    log.close_without_flush()
    path = log.active.path(".log")
    damage = rng.randint(1, 100)
    data = bytearray(path.read_bytes())
    match seed % 3:
        case 0:
            del data[-damage:]
        case 1:
            data[-damage:] = rng.randbytes(damage)
        case 2:
            data += bytes(rng.randint(1, 9000))  # blocks that the file system had reserved
    path.write_bytes(data)
    after_crash(make_log, log, before, log.recovery_point)


@pytest.mark.parametrize("seed", range(30))
def test_segment_damaged_after_a_clean_shutdown_is_truncated(make_log: Callable[..., Log], seed: int) -> None:
    rng = random.Random(seed)
    log = make_log(**CONFIG)
    fill(log, rng, 60)
    before = contents(log)
    log.close()
    path = log.active.path(".log")
    data = bytearray(path.read_bytes())
    damage = min(rng.randint(1, 100), len(data))
    match seed % 3:
        case 0:
            del data[-damage:]
        case 1:
            data[-damage:] = rng.randbytes(damage)
        case 2:
            data += bytes(damage)
    path.write_bytes(data)
    again = make_log(clean=True, **CONFIG)
    check(again, before, log.active.base_offset)
    again.append(batch(b"goes on"), leader_epoch=99)
    again.close()
    clean = make_log(clean=True, **CONFIG)
    check(clean, contents(clean), clean.log_end_offset)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "garbage", "zeros", "empty", "odd", "short"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_missing_or_damaged_index_is_rebuilt(
    make_log: Callable[..., Log], suffix: str, damage: str, which: int
) -> None:
    log = make_log(**CONFIG)
    fill(log, random.Random(1), 60)
    log.flush(log.active.base_offset)
    before = contents(log)
    log.close_without_flush()
    path = log.segments[which].path(suffix)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "garbage": random.Random(2).randbytes(len(data)),
                "zeros": bytes(len(data)),
                "empty": b"",
                "odd": data[:-3],
                "short": data[: len(data) // 24 * 12],
            }[damage]
        )
    again = make_log(recovery_point=log.recovery_point, **CONFIG)
    assert contents(again) == before
    for record in before:
        assert again.read(record.offset, 1, max_offset=again.log_end_offset).nbytes > 0


@pytest.mark.parametrize("seed", range(10))
def test_damage_above_the_recovery_point_truncates_the_log_there(make_log: Callable[..., Log], seed: int) -> None:
    rng = random.Random(seed)
    log = make_log(**CONFIG)
    fill(log, rng, 60)
    before = contents(log)
    flushed = log.segments[1].base_offset
    log.flush(flushed)
    log.close_without_flush()
    path = rng.choice(log.segments[1:]).path(".log")
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    again = make_log(recovery_point=flushed, **CONFIG)
    actual = contents(again)
    assert flushed <= len(actual) <= len(before)
    assert [(r.offset, r.value) for r in actual] == [(r.offset, r.value) for r in before[: len(actual)]]


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000007.log.deleted",
        "00000000000000000007.index.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.timeindex.cleaned",
        "00000000000000000099.index",
        "00000000000000000099.timeindex",
        "00000000000000000099.txnindex",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000000.index.swap",
    ],
)
def test_leftover_files_are_removed(make_log: Callable[..., Log], name: str) -> None:
    log = make_log(**CONFIG)
    fill(log, random.Random(1), 30)
    before = contents(log)
    log.close_without_flush()
    (log.dir / name).write_bytes(b"left over")
    after_crash(make_log, log, before, 0)
    assert not (log.dir / name).exists()


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "snapshot"])
@pytest.mark.parametrize("content", [b"", bytes(60), b"garbage\xff\x00", None])
def test_damaged_state_files_are_rebuilt(make_log: Callable[..., Log], name: str, content: bytes | None) -> None:
    log = make_log(**CONFIG)
    for i in range(50):
        log.append(batch(b"x" * 200, producer_id=7, producer_epoch=2, base_sequence=i), leader_epoch=i // 10)
    epochs = list(log.leader_epochs.entries)
    log.close()
    for path in log.dir.glob(f"*{name}"):
        path.write_bytes(content) if content is not None else path.unlink()
    for clean in (True, False):
        again = make_log(clean=clean, **CONFIG)
        assert again.leader_epochs.entries == epochs
        assert again.producers.producers[7].last_sequence == 49
        again.close()


@pytest.mark.parametrize("content", [b"", bytes(43)])
def test_empty_or_zeroed_topic_id_file_counts_as_missing(make_log: Callable[..., Log], content: bytes) -> None:
    log = make_log(**CONFIG)
    log.append(batch(b"x"), leader_epoch=0)
    log.close_without_flush()
    (log.dir / "partition.metadata").write_bytes(content)
    (log.dir / "leader-epoch-checkpoint").write_bytes(bytes(10))
    again = make_log(**CONFIG)
    assert (again.topic_id, again.log_end_offset, again.leader_epochs.latest) == (None, 1, 0)


@pytest.fixture
def compacted(make_log: Callable[..., Log]) -> tuple[Log, CleanerPass, dict[bytes | None, Record]]:
    """A log whose `.cleaned` files are written but not installed, its cleaner pass, and the expected records."""
    log = make_log(cleanup_policy=("compact",), **CONFIG)
    fill(log, random.Random(3), 60)
    log.flush()
    now = log.clock.now_ms()
    cleaning = cleaner.CleanerPass(cleanable.measure(log, 0, now), now)
    before = {r.key: r for r in contents(log)}
    cleaning.copy()
    return log, cleaning, before


class Crash(Exception):  # noqa: N818  # not an error: the end of the process
    pass


@pytest.mark.parametrize("step", range(60))
def test_crash_at_any_rename_or_removal_of_a_compaction_loses_no_records(
    compacted: tuple[Log, CleanerPass, dict[bytes | None, Record]],
    make_log: Callable[..., Log],
    monkeypatch: pytest.MonkeyPatch,
    step: int,
) -> None:
    log, cleaning, before = compacted
    left = step

    def tick(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Path, *args: Path, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Crash
            left -= 1
            return real(self, *args, **kwargs)

        return wrapped

    for name in ("rename", "unlink"):
        monkeypatch.setattr(Path, name, tick(getattr(Path, name)))
    try:
        cleaning.install()
    except Crash:
        pass
    monkeypatch.undo()
    log.close_without_flush()
    again = make_log(recovery_point=log.recovery_point, cleanup_policy=("compact",), **CONFIG)
    actual = contents(again)
    assert {r.key: r for r in actual} == before
    offsets = [r.offset for r in actual]
    assert offsets == sorted(set(offsets))
    assert not [p.name for p in log.dir.iterdir() if p.name.endswith((".cleaned", ".swap", ".deleted"))]
    owners = {p.name.partition(".")[0] for p in log.dir.iterdir() if p.suffix in SEGMENT_SUFFIXES}
    assert owners == {f"{s.base_offset:020d}" for s in again.segments}


WRITER = """
    import os, sys
    from pathlib import Path
    from ottla.config.topic import LogConfig
    from ottla.model import TopicPartition
    from ottla.records.builder import BatchBuilder
    from ottla.storage.log_dir import LogDir

    log_dir = LogDir.open(sys.argv[1], broker_id=0)
    log_dir.load(lambda tp: LogConfig())
    log = log_dir.create(TopicPartition("orders", 0), LogConfig(segment_bytes=20_000))
    offset = log.log_end_offset
    while True:
        builder = BatchBuilder(bytearray(2000))
        for i in range(offset % 7 + 1):
            builder.append(1_700_000_000_000 + offset, b"%d" % (offset + i), b"x" * (offset % 100))
        offset = log.append(memoryview(bytearray(builder.close())), leader_epoch=0).last_offset + 1
        if offset % 5 == 0:
            log.flush()
            log_dir.checkpoint()
        os.write(1, b"%d\\n" % offset)
"""


@pytest.mark.slow
def test_killed_writer_loses_no_acknowledged_records(tmp_path: Path) -> None:
    """Kill three writers of one data directory. SIGKILL keeps the page cache, so even unflushed appends survive."""
    from ottla.config.topic import LogConfig
    from ottla.storage.log_dir import LogDir

    rng = random.Random(5)
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            for _ in range(rng.randint(50, 400)):
                reported = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split()
            reported = int(rest[-1]) if rest else reported
        copy = tmp_path.parent / "copy"
        shutil.copytree(tmp_path, copy)
        with LogDir.open(copy, broker_id=0) as log_dir:
            log_dir.load(lambda tp: LogConfig())
            actual = contents(log_dir.logs[TP])
            assert len(actual) >= reported
            assert [int(r.key or b"") for r in actual] == [r.offset for r in actual] == list(range(len(actual)))
        shutil.rmtree(copy)
