"""Log directories: start, restart, recovery, checkpoints, and rejected directories."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.storage.conftest import NOW, TP, batch, contents, values

from ottla.clock import ManualClock
from ottla.config.topic import LogConfig
from ottla.errors import KafkaStorageError, StartupError
from ottla.model import TopicPartition
from ottla.storage import files, partition_metadata
from ottla.storage import log_dir as log_dir_module
from ottla.storage.compaction.cleaner import run_steps
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir, new_id, parse_directory_name
from ottla.storage.segment import Segment

CONFIG = LogConfig(file_delete_delay_ms=1000)
OTHER = TopicPartition("a.b-c_d", 12)


def open_dir(path: Path, clock: ManualClock | None = None, **options: Any) -> LogDir:
    if clock:
        options["clock"] = clock
    opened = LogDir.open(path, broker_id=options.pop("broker_id", 1), **options)
    opened.load(lambda tp: CONFIG)
    return opened


def crash(log_dir: LogDir) -> None:
    """Release the lock without closing the logs."""
    os.close(log_dir._lock_fd)
    log_dir._lock_fd = -1


def test_new_log_dir_gets_meta_properties(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    with open_dir(path) as log_dir:
        text = (path / "meta.properties").read_text()
        assert "version=0\nbroker.id=1\ncluster.id=" in text
        assert log_dir.directory_id in text
        cluster = log_dir.cluster_id
    with open_dir(path) as again:
        assert (again.cluster_id, again.directory_id) == (cluster, log_dir.directory_id)


def test_restart_restores_logs_and_high_watermarks(tmp_path: Path) -> None:
    with open_dir(tmp_path) as log_dir:
        for tp in (TP, OTHER):
            log_dir.create(tp, CONFIG, "AAAAAAAAAAAAAAAAAAAAAQ").append(batch(b"v"), leader_epoch=0)
        log_dir.logs[TP].high_watermark = 1
        assert log_dir.create(TP, CONFIG) is log_dir.logs[TP]
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "a.b-c_d-12/partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    with open_dir(tmp_path) as again:
        assert not (tmp_path / ".kafka_cleanshutdown").exists(), "only a clean shutdown writes it again"
        assert set(again.logs) == {TP, OTHER}
        assert (again.logs[TP].high_watermark, again.logs[OTHER].high_watermark) == (1, 0)
        assert again.logs[OTHER].topic_id == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_logs_are_recovered_after_a_crash(tmp_path: Path) -> None:
    log_dir = open_dir(tmp_path)
    log_dir.create(TP, CONFIG).append(batch(b"a"), leader_epoch=0)
    log_dir.checkpoint()
    log_dir.logs[TP].append(batch(b"b"), leader_epoch=0)
    crash(log_dir)
    with open_dir(tmp_path) as again:
        assert values(again.logs[TP]) == [b"a", b"b"]


def test_log_start_offset_is_restored_after_a_restart(tmp_path: Path) -> None:
    with open_dir(tmp_path) as log_dir:
        log = log_dir.create(TP, CONFIG)
        log.append(batch(b"a", b"b", b"c"), leader_epoch=0)
        log.high_watermark = 3
        log.delete_records_before(2)
    assert "orders 0 2" in (tmp_path / "log-start-offset-checkpoint").read_text()
    with open_dir(tmp_path) as again:
        assert again.logs[TP].log_start_offset == 2


def test_deleted_log_is_renamed_and_removed_later(tmp_path: Path, clock: ManualClock) -> None:
    with open_dir(tmp_path, clock) as log_dir:
        log_dir.create(TP, CONFIG)
        log_dir.delete(TP)
        (renamed,) = tmp_path.glob("orders-0.*-delete")
        log_dir.create(TP, CONFIG)
        assert log_dir.begin_deletion(clock.now_ms() + 999) is None
        delete = log_dir.begin_deletion(clock.now_ms() + 1000)
        assert renamed.exists()
        assert delete is not None
        delete()
        assert not renamed.exists()


def test_failed_deletion_of_one_logs_segments_does_not_keep_those_of_others(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TopicPartition("orders", 1)
    with open_dir(tmp_path, clock) as log_dir:
        for tp in (TP, other):
            log = log_dir.create(tp, CONFIG)
            log.append(batch(b"a"), leader_epoch=0)
            log.roll()
            log.high_watermark = 1
            log.delete_records_before(1)
        delete_files = Segment.delete_files

        def fail_for_the_first(segment: Segment) -> None:
            if segment is failing:
                raise OSError(5, "Input/output error")
            delete_files(segment)

        failing = log_dir.logs[TP]._pending_deletes[0][1]
        monkeypatch.setattr(Segment, "delete_files", fail_for_the_first)
        delete = log_dir.begin_deletion(clock.now_ms() + 100_000)
        assert delete is not None
        with pytest.raises(KafkaStorageError):
            delete()
        assert not list((tmp_path / str(other)).glob("*.deleted"))


def test_log_renamed_for_deletion_is_removed_at_the_next_start(tmp_path: Path) -> None:
    log_dir = open_dir(tmp_path)
    log_dir.create(TP, CONFIG)
    log_dir.delete(TP)
    crash(log_dir)
    with open_dir(tmp_path) as again:
        assert again.logs == {}
        assert not list(tmp_path.glob("*-delete"))


def test_damaged_log_does_not_prevent_loading_the_others(tmp_path: Path) -> None:
    with open_dir(tmp_path) as log_dir:
        for tp in (TP, OTHER):
            log_dir.create(tp, CONFIG)
    (tmp_path / "orders-0" / "partition.metadata").write_text("nonsense")
    with open_dir(tmp_path) as again:
        assert set(again.logs) == {OTHER}
        assert "orders-0" in str(again.failed[TP])
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "the damaged log was not closed in order"


def test_damaged_checkpoints_lose_no_records(tmp_path: Path) -> None:
    with open_dir(tmp_path) as log_dir:
        log_dir.create(TP, CONFIG).append(batch(b"a"), leader_epoch=0)
    for path in tmp_path.glob("*-checkpoint"):
        path.write_bytes(b"0\nmany\n")
    with open_dir(tmp_path) as again:
        assert values(again.logs[TP]) == [b"a"]


def test_periodic_checkpoint_is_synced_before_it_replaces_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    with open_dir(tmp_path) as log_dir:
        monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
        log_dir.begin_checkpoint()()
        monkeypatch.undo()
        assert (tmp_path / "recovery-point-offset-checkpoint").stat().st_ino in synced


def test_log_dir_in_use_by_another_process_is_rejected(tmp_path: Path) -> None:
    with open_dir(tmp_path):
        with pytest.raises(StartupError, match="in use by another process"):
            LogDir.open(tmp_path, broker_id=1)
        code = f"from ottla.storage.log_dir import LogDir; LogDir.open({str(tmp_path)!r}, broker_id=1)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert "in use by another process" in done.stderr
    open_dir(tmp_path).close()


def test_log_dir_of_another_broker_is_rejected(tmp_path: Path) -> None:
    open_dir(tmp_path, broker_id=1).close()
    with pytest.raises(StartupError, match=r"belongs to broker 1, and this is broker 2; set broker\.id=1"):
        LogDir.open(tmp_path, broker_id=2)
    open_dir(tmp_path, broker_id=1).close()


def test_log_dir_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    open_dir(tmp_path, cluster_id="one").close()
    with pytest.raises(StartupError, match="cluster one, and this is cluster two"):
        LogDir.open(tmp_path, broker_id=1, cluster_id="two")


def test_file_in_place_of_the_log_dir_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StartupError, match="not a directory"):
            LogDir.open(path, broker_id=1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_log_dir_that_is_not_writable_is_rejected(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StartupError, match="not writable"):
        LogDir.open(tmp_path, broker_id=1)


def test_directory_name_is_parsed_to_a_topic_partition() -> None:
    assert parse_directory_name("a-b-12") == TopicPartition("a-b", 12)
    for name in ("a", "a-", "-1", "a-x", "a-1.0123-delete", "a-1-future", "meta.properties"):
        assert parse_directory_name(name) is None


def test_new_id_has_the_format_of_kafka() -> None:
    for _ in range(200):
        assert len(new_id()) == 22
        assert not new_id().startswith("-")


def test_compaction_resumes_at_the_cleaner_offset_checkpoint(tmp_path: Path) -> None:
    config = CONFIG._replace(cleanup_policy=("compact",), segment_bytes=500)
    with open_dir(tmp_path) as log_dir:
        log = log_dir.create(TP, config)
        for i in range(30):
            log.append(batch((b"k%d" % (i % 3), b"x" * 50)), leader_epoch=0)
        log.high_watermark = 30
        cleaning = log_dir.next_cleaning(log.clock.now_ms())
        assert cleaning is not None
        cleaning.copy()
        assert run_steps(log_dir.finish_cleaning(cleaning))
        assert log_dir.next_cleaning(log.clock.now_ms()) is None, "the log has no dirty segments"
        end = log_dir.cleaner_offsets[TP]
    assert f"orders 0 {end}\n" in (tmp_path / "cleaner-offset-checkpoint").read_text()
    with open_dir(tmp_path) as again:
        assert again.cleaner_offsets == {TP: end}


def test_new_log_has_no_cleaner_state_of_a_deleted_one(tmp_path: Path) -> None:
    with open_dir(tmp_path) as log_dir:
        log_dir.create(TP, CONFIG)
        log_dir.cleaner_offsets[TP] = 1000
        log_dir.uncleanable.add(TP)
        log_dir.delete(TP)
        log_dir.create(TP, CONFIG)
        assert TP not in log_dir.cleaner_offsets
        assert TP not in log_dir.uncleanable


def test_topic_id_of_a_new_log_is_synced_with_its_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(partition_metadata, "sync_file", synced.append)
    monkeypatch.setattr(partition_metadata, "sync_directory", synced.append)
    with open_dir(tmp_path) as log_dir:
        created = log_dir.create(TP, LogConfig(), "A" * 22)
        log_dir.flusher.workers.shutdown()
        assert synced == [created.dir / "partition.metadata", created.dir, tmp_path]


def test_topic_id_of_a_moved_log_is_synced_under_its_new_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(partition_metadata, "sync_file", synced.append)
    with open_dir(tmp_path) as log_dir:
        moved = log_dir.adopt_future(log_dir.create_future(TP, LogConfig(), "A" * 22, "1"))
        log_dir.flusher.workers.shutdown()
        assert synced == [moved.dir / "partition.metadata"]


def test_failed_write_of_the_topic_id_raises_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Path | str) -> None:
        raise OSError(errno.ENOSPC, "full")

    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
        monkeypatch.setattr(log_dir_module, "write_topic_id", full)
        with pytest.raises(KafkaStorageError, match="could not write the topic id"):
            log_dir.create(TopicPartition("t", 0), LogConfig(), "x" * 22)
        assert not log_dir.logs


def test_log_that_was_compacted_before_loses_no_records_after_a_crash(tmp_path: Path) -> None:
    compacted = LogConfig(cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.0)
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: compacted)
        log = log_dir.create(TP, compacted)
        for i in range(30):
            log.append(batch((b"k%d" % (i % 2), b"x" * 100)), leader_epoch=0)
            if i == 3:
                log.flush()
                log_dir.checkpoint()
        log.high_watermark = log.log_end_offset
        cleaning = log_dir.next_cleaning(NOW)
        assert cleaning is not None
        cleaning.copy()
        assert run_steps(log_dir.finish_cleaning(cleaning))
        log_dir.take_offline("a crash, as far as the next start can see")
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
        assert log_dir.logs[TP].log_end_offset == 30


COMPACTED = LogConfig(cleanup_policy=("compact",), segment_bytes=1000, min_cleanable_dirty_ratio=0.0)


def compacted_dir(path: Path, *, unflushed: int) -> LogDir:
    """Return a directory with a log that was compacted up to its recovery point, which other segments follow."""
    log_dir = LogDir.open(path, broker_id=0)
    log_dir.load(lambda _: COMPACTED)
    log = log_dir.create(TP, COMPACTED)
    put_keys(log, 30)
    log.roll()
    cleaning = log_dir.next_cleaning(NOW)
    assert cleaning is not None
    cleaning.copy()
    assert run_steps(log_dir.finish_cleaning(cleaning))
    put_keys(log, unflushed)
    return log_dir


def put_keys(log: Log, count: int) -> None:
    for i in range(count):
        log.append(batch((b"k%d" % (i % 2), b"x" * 100)), leader_epoch=0)
    log.high_watermark = log.log_end_offset


def reopened(path: Path) -> Log:
    log_dir = LogDir.open(path, broker_id=0)
    log_dir.load(lambda _: COMPACTED)
    return log_dir.logs[TP]


def test_compacted_log_is_complete_after_a_crash(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    before = contents(log_dir.logs[TP])
    assert len(before) < 30, "the log is compacted"
    crash(log_dir)
    assert contents(reopened(tmp_path)) == before


def test_compacted_log_ends_at_a_segment_truncated_by_a_power_failure(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    log = log_dir.logs[TP]
    truncated = next(segment for segment in log.segments if segment.base_offset >= log.recovery_point)
    position, header = truncated.batches()[-1]
    assert truncated is not log.active
    crash(log_dir)
    os.truncate(truncated.path(".log"), position)
    assert reopened(tmp_path).log_end_offset == header.base_offset


def test_compacted_log_with_recovery_points_of_kafka_loses_no_records(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=0)
    before = contents(log_dir.logs[TP])
    crash(log_dir)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    log = reopened(tmp_path)
    assert contents(log) == before
    assert log.recovery_point == log.log_end_offset, "the next checkpoint may have the entry #compacted-below"


def test_earlier_checkpoint_does_not_replace_a_later_one(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    earlier = log_dir.begin_checkpoint()
    log_dir.logs[TP].flush()
    log_dir.checkpoint()
    earlier()
    assert "orders 0 50\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_truncation_lowers_the_checkpointed_recovery_point(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    log = log_dir.logs[TP]
    log.flush()
    log_dir.checkpoint()
    assert log.begin_lower_checkpoint() is None
    log.truncate_to(45)
    write = log.begin_lower_checkpoint()
    assert write is not None
    write()
    assert f"orders 0 {log.active.base_offset}\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert log.begin_lower_checkpoint() is None


def test_truncation_lowers_the_recovery_point_of_a_pending_checkpoint(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    log = log_dir.logs[TP]
    log.flush()
    periodic = log_dir.begin_checkpoint()
    log.truncate_to(45)
    write = log.begin_lower_checkpoint()
    assert write is not None
    write()
    periodic()
    assert f"orders 0 {log.active.base_offset}\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_truncated_segment_is_recovered_after_a_crash(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    log = log_dir.logs[TP]
    log.flush()
    last = log.segments[-2]
    files = {path: path.read_bytes() for path in (last.path(".log"), last.path(".timeindex"))}
    log.truncate_to(log.active.base_offset - 1)
    end = log.log_end_offset
    log.roll()
    log.append(batch((b"k", b"new")), leader_epoch=1)
    log_dir.checkpoint()
    crash(log_dir)
    for path, content in files.items():
        path.write_bytes(content)  # a loss of power has undone the truncation
    offsets = [header.base_offset for segment in reopened(tmp_path).segments for _, header in segment.batches()]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == end, "the old record has returned, without the new one"


def test_recovery_points_are_checkpointed_before_segments_are_replaced(tmp_path: Path) -> None:
    log_dir = compacted_dir(tmp_path, unflushed=20)
    log_dir.logs[TP].roll()
    cleaning = log_dir.next_cleaning(NOW)
    assert cleaning is not None
    cleaning.copy()
    next(log_dir.finish_cleaning(cleaning))()
    assert "orders 0 50\n" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert len(list(tmp_path.glob("orders-0/*.cleaned"))) > 0


def test_removal_of_the_clean_shutdown_file_is_synced_before_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
    synced = []

    def sync_directory(path: Path) -> None:
        synced.append(sorted(p.name for p in path.iterdir()))
        files.sync_directory(path)

    monkeypatch.setattr(log_dir_module, "sync_directory", sync_directory)
    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
        assert any(".kafka_cleanshutdown" not in names for names in synced)


def test_new_topic_does_not_get_the_log_of_a_topic_whose_deletion_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Path) -> None:
        raise OSError(errno.EIO, "broken")

    with LogDir.open(tmp_path, broker_id=0) as log_dir:
        log_dir.load(lambda _: LogConfig())
        log_dir.create(TP, LogConfig(), "a" * 22).append(batch(b"old"), leader_epoch=0)
        with monkeypatch.context() as context:
            context.setattr(Path, "rename", broken)
            with pytest.raises(KafkaStorageError, match="could not move away"):
                log_dir.delete(TP)
        created = log_dir.create(TP, LogConfig(), "b" * 22)
        assert (values(created), created.topic_id) == ([], "b" * 22)
        assert any(path.name.endswith("-stray") for path in tmp_path.iterdir())
