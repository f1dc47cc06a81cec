"""A limit of bytes per second that several threads share: `log.cleaner.io.max.bytes.per.second`."""

from __future__ import annotations

import time
from threading import Event, Lock

from ottla.errors import KafkaError


class StoppedError(KafkaError):
    """The throttled work was stopped before it was complete."""


class Throttle:
    """Delays threads that exceed the limit, and makes them stop at a shutdown. Thread-safe."""

    def __init__(self, bytes_per_second: float = float("inf")) -> None:
        self.bytes_per_second = bytes_per_second
        """The limit; infinite for none. It may be changed at any time, which takes effect with the next `spend`."""
        self._lock = Lock()
        self._paid_until = 0.0
        self._stopped = Event()

    def spend(self, nbytes: int) -> None:
        """Wait until `nbytes` more are within the limit. Raises StoppedError once `stop` has been called."""
        with self._lock:
            now = time.monotonic()
            # bandwidth that was not used in the past cannot be used later
            self._paid_until = max(self._paid_until, now) + nbytes / self.bytes_per_second
            wait = self._paid_until - now
        if self._stopped.wait(wait) if wait > 0 else self._stopped.is_set():
            raise StoppedError

    def stop(self) -> None:
        """Make all current and future calls of `spend` raise StoppedError."""
        self._stopped.set()
