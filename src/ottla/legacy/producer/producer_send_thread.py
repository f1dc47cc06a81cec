"""`ProducerSendThread`: sends the messages of an async producer in batches."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from ottla.legacy.producer.event_queue import Event, EventQueue
from ottla.logs import listed

log: Final = logging.getLogger("ottla.legacy")


class ProducerSendThread(threading.Thread):
    """Takes messages from `queue`, and passes them to `handle` in batches. A batch is collected until it has
    `batch_size` messages, for at most `queue_time_ms` milliseconds.
    """

    def __init__(
        self,
        name: str,
        queue: EventQueue,
        handle: Callable[[Sequence[Event]], None],
        queue_time_ms: int,
        batch_size: int,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._queue = queue
        self._handle_events = handle
        self._queue_time = queue_time_ms / 1000
        self._batch_size = batch_size
        self._done = threading.Event()

    def shutdown(self, timeout: float | None = None) -> None:
        """Send the messages in the queue and stop. Messages that are still in the queue after `timeout` seconds (None:
        no limit), or on Ctrl+C, are dropped.
        """
        self._queue.close()
        try:
            # Not join(): in Python 3.11, a thread counts as ended if Ctrl+C interrupts join().
            self._done.wait(timeout)
        finally:
            self._queue.clear()

    def end(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the end of the thread."""
        if self._done.wait(timeout):
            self.join()

    def run(self) -> None:
        """Send messages until `shutdown`."""
        try:
            self._work()
        finally:
            self._done.set()

    def _work(self) -> None:
        events: list[Event] = []
        last_send = time.monotonic()
        while not self._queue.is_drained:
            event = self._queue.poll(last_send + self._queue_time)
            if event is not None:
                events.append(event)
            if event is None or len(events) >= self._batch_size:
                self._try_to_handle(events)
                events = []
                last_send = time.monotonic()
        self._try_to_handle(events)

    def _try_to_handle(self, events: Sequence[Event]) -> None:
        if not events:
            return
        try:
            self._handle_events(events)
        except Exception:  # as in Kafka 0.8, the error is only logged
            topics = listed(sorted({event.topic for event in events}))
            log.exception(
                "Could not send all messages of a batch to %s (messages in the batch: %d); the unsent ones are lost",
                topics,
                len(events),
            )
