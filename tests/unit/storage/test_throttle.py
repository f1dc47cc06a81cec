"""The throttle of compaction and log directory moves."""

import threading
import time

import pytest

from ottla.storage.throttle import StoppedError, Throttle


def test_spending_above_the_limit_waits() -> None:
    throttle = Throttle(10_000)
    started = time.monotonic()
    for _ in range(5):
        throttle.spend(100)
    assert time.monotonic() - started >= 0.05


def test_spending_without_a_limit_does_not_wait() -> None:
    Throttle().spend(10**15)


def test_stop_raises_stopped_error_in_a_waiting_thread() -> None:
    throttle = Throttle(1)
    ended = threading.Event()

    def spend() -> None:
        with pytest.raises(StoppedError):
            throttle.spend(1000)
        ended.set()

    thread = threading.Thread(target=spend)
    thread.start()
    throttle.stop()
    thread.join(10)
    assert ended.is_set()
    with pytest.raises(StoppedError):
        throttle.spend(0)
