"""Events as lines of JSON, like those of Kafka's verifiable producer and consumer."""

from __future__ import annotations

import sys
import threading
from typing import Any

from ottla.cli.framework.output import in_one_line
from ottla.clock import now_ms


class Events:
    """Prints events on standard output, one JSON object per line. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._broken_pipe: BrokenPipeError | None = None

    def report(self, name: str, **fields: Any) -> None:
        """Print an event with its time, name and fields in UTF-8. Flush the output, because another program waits for
        it; if that program has ended, `check` raises the error.
        """
        with self._lock:
            line = in_one_line({"timestamp": now_ms(), "name": name, **fields})
            try:
                sys.stdout.buffer.write(line.encode(errors="replace") + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError as error:
                self._broken_pipe = error

    def check(self) -> None:
        """Raise BrokenPipeError if an event could not be printed because the reading program has ended. `report` does
        not raise it, because it may be called in another thread, where the error would not end the command.
        """
        if self._broken_pipe is not None:
            raise self._broken_pipe
