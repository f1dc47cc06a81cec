"""What happens, one line of JSON each, as Kafka's verifiable producer and consumer tell it."""

from __future__ import annotations

import sys
import threading
from typing import Any

from ottla.cli.framework.json_answers import in_one_line
from ottla.clock import now_ms


class Events:
    """Events on standard output. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: BrokenPipeError | None = None

    def tell(self, name: str, **fields: Any) -> None:
        """Print an event at once, in UTF-8; whoever follows it waits for it."""
        with self._lock:
            line = in_one_line({"timestamp": now_ms(), "name": name, **fields})
            try:
                sys.stdout.buffer.write(line.encode(errors="replace") + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError as error:
                self._lost = error

    def check(self) -> None:
        """BrokenPipeError where nobody reads any more; callbacks on other threads cannot end the command."""
        if self._lost is not None:
            raise self._lost
