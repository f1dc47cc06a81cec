"""Flushes of a log directory: their durations, and warnings about a disk that is slow or hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.model import TopicPartition
from ottla.storage.log_flusher import HANG_SECONDS, REPEAT_SECONDS, SLOW_SECONDS, LogFlusher

TP = TopicPartition("orders", 3)


class Seconds:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def flusher(clock: Seconds) -> Iterator[LogFlusher]:
    flusher = LogFlusher(Path("/data/a"), clock)
    yield flusher
    flusher.close()


def flush(flusher: LogFlusher, clock: Seconds, seconds: float, *, is_awaited: bool = True) -> None:
    with flusher.measured(TP, is_awaited=is_awaited):
        clock.now += seconds


def test_slow_disk_is_logged_once_a_minute_and_when_it_is_fast_again(
    flusher: LogFlusher, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.storage")
    flush(flusher, clock, SLOW_SECONDS / 2)
    flush(flusher, clock, 100, is_awaited=False)  # a closed segment of a gigabyte
    assert (flusher.slow_flushes, caplog.messages) == (0, [])
    for _ in range(3):
        flush(flusher, clock, 1.5)
    clock.now += REPEAT_SECONDS
    flush(flusher, clock, 2)
    assert flusher.slow_flushes == 4
    assert caplog.messages == [
        "The disk of /data/a is slow: flushing orders-3 took 1500 ms, and producers may have waited",
        "The disk of /data/a is slow: flushing orders-3 took 2000 ms, and producers may have waited "
        "(3 flushes were slow since the last warning)",
    ]
    caplog.clear()
    flush(flusher, clock, 0.001)
    assert caplog.messages == []
    clock.now += REPEAT_SECONDS
    flush(flusher, clock, 0.001)
    flush(flusher, clock, 0.001)
    assert caplog.messages == [
        "The disk of /data/a is fast again: producers have not waited for a slow flush in the last 60 s"
    ]
    assert flusher.times.snapshot(clock.now).count == 9


def test_disk_with_a_slow_running_flush_is_not_fast_again(
    flusher: LogFlusher, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.storage")
    flush(flusher, clock, 1.5)
    caplog.clear()
    with flusher.measured(TP, is_awaited=True):
        clock.now += REPEAT_SECONDS + 1
        flush(flusher, clock, 0.001)
        assert caplog.messages == []
    assert len(caplog.messages) == 1
    assert "is slow" in caplog.messages[0]


def test_disk_that_hangs_is_logged_while_it_hangs(
    flusher: LogFlusher, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    flusher.check()
    with (
        flusher.measured(TP, is_awaited=True),
        flusher.measured(TP, is_awaited=True),  # after a roll, for example
        flusher.measured(TopicPartition("other", 0), is_awaited=False),
    ):
        clock.now += HANG_SECONDS / 2
        flusher.check()
        assert caplog.messages == []
        clock.now += HANG_SECONDS
        flusher.check()
        flusher.check()
        assert flusher.longest_running_seconds() == 15
    assert caplog.messages == [
        "The disk of /data/a hangs: the flush of orders-3 has not returned for 15 s, and producers of at least 1 "
        "partition(s) may be waiting"
    ]
    assert flusher.longest_running_seconds() == 0
    assert flusher.slow_flushes == 2


def test_failed_flush_is_not_counted_as_running(flusher: LogFlusher, clock: Seconds) -> None:
    with pytest.raises(OSError, match="EIO"), flusher.measured(TP, is_awaited=True):
        raise OSError("EIO")
    assert flusher.longest_running_seconds() == 0
    assert flusher.times.snapshot(clock.now).count == 0
