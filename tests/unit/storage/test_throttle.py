import threading
import time

import pytest

from ottla.storage.throttle import StoppedError, Throttle


def test_bytes_above_the_limit_take_their_time() -> None:
    throttle = Throttle(10_000)
    began = time.monotonic()
    for _ in range(5):
        throttle.spend(100)
    assert time.monotonic() - began >= 0.05


def test_without_a_limit_there_is_no_wait() -> None:
    Throttle().spend(10**15)


def test_who_waits_is_ended_by_a_stop() -> None:
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
