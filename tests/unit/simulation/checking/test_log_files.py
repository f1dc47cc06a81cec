"""The checker of log files accepts intact logs and reports each kind of damage."""

from __future__ import annotations

import shutil
from pathlib import Path

from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.records.builder import BatchBuilder
from ottla.simulation.checking.log_files import LogChecker, LogFiles
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.log import Log
from ottla.storage.recovery import open_log

TP = TopicPartition("orders", 0)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100)


def append(log: Log, sequence: int, *, epoch: int = 0) -> None:
    builder = BatchBuilder(bytearray(200))
    builder.append(1_700_000_000_000, b"k", b"v")
    log.append(memoryview(bytearray(builder.close(7, 0, sequence))), leader_epoch=epoch)


def filled_log(tmp_path: Path, count: int = 20) -> Log:
    directory = tmp_path / "broker" / "data" / "orders-0"
    directory.parent.mkdir(parents=True)
    log = open_log(directory, TP, CONFIG)
    for sequence in range(count):
        append(log, sequence, epoch=sequence // 8)
    return log


def violations(log: Log) -> list[str]:
    checker = LogChecker()
    checker._check(log)
    return checker.violations


def test_intact_log_has_no_violations(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.close()
    assert violations(open_log(log.dir, TP, CONFIG, clean=True)) == []


def test_torn_tail_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    with log.active.path(".log").open("ab") as file:
        file.write(b"torn")
    assert any("a torn header" in text for text in violations(log))


def test_gap_between_segments_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.close()
    sorted(log.dir.glob("*.log"))[1].unlink()
    assert len(list(LogFiles(log.dir).order_faults(compacted=False))) == 1
    assert list(LogFiles(log.dir).order_faults(compacted=True)) == []


def test_gap_between_segments_above_the_compacted_part_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.close()
    first, second, third = sorted(log.dir.glob("*.log"))[:3]
    second.unlink()
    assert len(list(LogFiles(log.dir).boundary_faults(int(first.stem)))) == 1
    assert list(LogFiles(log.dir).boundary_faults(int(third.stem))) == []


def test_index_entry_without_a_batch_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.close()
    path = next(path for path in sorted(log.dir.glob("*.index")) if path.stat().st_size)
    path.write_bytes((3).to_bytes(4, "big") + (5).to_bytes(4, "big") + path.read_bytes()[8:])
    assert any("at byte 5" in text for text in LogFiles(log.dir).index_faults())


def test_wrong_leader_epoch_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.leader_epochs.entries = [EpochEntry(0, 0), EpochEntry(1, 9), EpochEntry(2, 16)]
    assert any("offset 8 has leader epoch 1, but the checkpoint has 0" in text for text in violations(log))


def test_producer_missing_from_the_loaded_state_is_reported(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    log.producers.clear()
    assert any("producer 7 is None after loading" in text for text in violations(log))


def test_lost_batch_below_the_recovery_point_after_power_loss_is_reported(tmp_path: Path) -> None:
    log, checker = filled_log(tmp_path), LogChecker()
    log.flush(10)
    checker.on_crash(log, power_lost=True)
    for path in sorted(log.dir.glob("*.log"))[1:]:
        path.unlink()
    checker.on_power_lost(log.dir)
    assert ["is below the recovery point 10, and was lost" in text for text in checker.violations] == [True]


def test_batches_before_the_log_start_may_be_lost_in_a_crash(tmp_path: Path) -> None:
    log, checker = filled_log(tmp_path), LogChecker()
    log.flush()
    checker.on_crash(log, power_lost=True)
    for path in log.dir.glob("*.log"):
        path.unlink()
    checker.open_log(log.dir, TP, CONFIG, log_start_offset=30)
    assert checker.violations == []


def test_batches_lost_after_a_process_kill_are_reported(tmp_path: Path) -> None:
    log, checker = filled_log(tmp_path), LogChecker()
    checker.on_crash(log, power_lost=False)
    assert [checker.open_log(log.dir, TP, CONFIG).log_end_offset, checker.violations] == [20, []]
    checker.on_crash(log, power_lost=False)
    shutil.rmtree(log.dir)
    checker.open_log(log.dir, TP, CONFIG)
    assert any("than when its process was killed" in text for text in checker.violations)
