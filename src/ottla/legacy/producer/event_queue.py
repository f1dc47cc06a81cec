"""The bounded queue between an asynchronous producer and its send thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from ottla.legacy.errors import ProducerClosedError
from ottla.legacy.keyed_message import KeyedMessage

Event = KeyedMessage[Any, Any]


class EventQueue:
    """A queue of at most `capacity` messages. Any thread may put messages; one thread takes them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event, timeout: float | None) -> bool:
        """Add a message. Return False if there is no space within `timeout` seconds (None: wait without limit).

        Raises ProducerClosedError if the queue is closed before the message is added.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._events) < self._capacity, timeout)
            if self._closed:
                raise ProducerClosedError
            if len(self._events) >= self._capacity:
                return False
            self._events.append(event)
            self._changed.notify_all()
            return True

    def poll(self, until: float) -> Event | None:
        """Remove and return the oldest message. Return None if none arrives by the time `until` (seconds of
        `time.monotonic`), or if the queue is closed and empty.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._events, max(0.0, until - time.monotonic()))
            if not self._events:
                return None
            self._changed.notify_all()
            return self._events.popleft()

    @property
    def is_drained(self) -> bool:
        """Whether the queue is closed and empty."""
        return self._closed and not self._events

    def close(self) -> None:
        """Reject further messages. Messages in the queue remain."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Remove all messages."""
        with self._changed:
            self._events.clear()
            self._changed.notify_all()
