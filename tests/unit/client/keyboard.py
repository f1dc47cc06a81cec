"""Ctrl+C at a chosen moment."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest


@contextlib.contextmanager
def ctrl_c(when: Callable[[], bool] = lambda: True, pause: float = 0.05, within: float = 1.0) -> Iterator[None]:
    """Send SIGINT `pause` seconds after `when` becomes true; the block must end `within` seconds.

    A block that ends earlier gets no signal: a late one would kill the test process.
    """
    over = threading.Event()
    pressed: list[float] = []

    def press() -> None:
        while not when():
            if over.wait(0.005):
                return
        if not over.wait(pause):
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    with pytest.raises(KeyboardInterrupt):
        presser.start()
        try:
            yield
        finally:
            over.set()
            presser.join()  # inside the block that expects the signal, in case it arrives only now
    assert time.monotonic() - pressed[0] < within
