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
    """Ctrl+C comes `pause` seconds after `when` has become true, and ends the block `within` seconds.

    A block that ends before gets none: a late signal would kill the test process.
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

    user = threading.Thread(target=press)
    with pytest.raises(KeyboardInterrupt):
        user.start()
        try:
            yield
        finally:
            over.set()
            user.join()  # within the block that expects the signal, should it come just now
    assert time.monotonic() - pressed[0] < within
