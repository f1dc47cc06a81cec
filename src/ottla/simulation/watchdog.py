"""Ends runs in which one iteration of the event loop takes too long."""

from __future__ import annotations

import contextlib
import signal
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Final

from ottla.simulation.event_loop import SimulatedLoop, StuckError

CALLBACK_SECONDS: Final = 15.0
"""CPU time of the process in user space, in seconds, between two checks. An iteration of the event loop that is running
at both of them counts as stuck.
"""
FRAMES: Final = 4
"""Number of stack frames in the message of the error, the innermost ones."""


@contextlib.contextmanager
def watched(loop: SimulatedLoop, seconds: float = CALLBACK_SECONDS) -> Iterator[None]:
    """Context manager: raise StuckError in the running code if the loop begins no iteration between two checks, which
    take place after each `seconds` of CPU time. The message contains the innermost stack frames. If the code catches
    the error, the loop raises it before its next iteration.

    The CPU time of this process is measured, so a busy machine does not matter. Use it in the main thread, and do not
    nest it.
    """
    seen = -1

    def look(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen != loop.rounds:
            seen = loop.rounds
            return
        stack = traceback.extract_stack(frame)
        places = " < ".join(f"{at.name} ({at.filename}:{at.lineno})" for at in reversed(stack[-FRAMES:]))
        error = StuckError(f"a callback does not return, at {loop.time():.3f} s: {places}")
        loop.fail(error)
        raise error

    previous = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)
