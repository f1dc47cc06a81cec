"""`Producer`: the producer of Kafka 0.8, with its API.

    producer = Producer(ProducerConfig({"metadata.broker.list": "localhost:9092",
                                        "serializer.class": "kafka.serializer.StringEncoder"}))
    producer.send(KeyedMessage("page_visits", "192.168.2.1", "1403061899859,www.example.com,192.168.2.1"))
    producer.close()

It uses version 0 of Produce and Metadata, with messages of magic 0. So it has no timestamps, headers, idempotence or
transactions. As in Kafka 0.8, the default of request.required.acks is 0: a message that a broker rejects causes no
error.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from ottla.errors import IllegalStateError
from ottla.legacy.errors import ProducerClosedError, QueueFullError
from ottla.legacy.keyed_message import KeyedMessage
from ottla.legacy.producer.default_event_handler import DefaultEventHandler
from ottla.legacy.producer.event_queue import Event, EventQueue
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.producer_send_thread import ProducerSendThread

K = TypeVar("K")
V = TypeVar("V")

JOIN_SECONDS: Final = 0.5
"""The maximum time in seconds for which `close` waits for the send thread after closing its connections."""


class Producer(Generic[K, V]):
    """Sends messages. Thread-safe. Close it, or use it as a context manager."""

    def __init__(self, config: ProducerConfig, event_handler: DefaultEventHandler | None = None) -> None:
        self.config = config
        self._handler = DefaultEventHandler.create(config) if event_handler is None else event_handler
        self._queue = EventQueue(config.queue_buffering_max_messages)
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._thread: ProducerSendThread | None = None
        if config.producer_type == "async":
            self._thread = ProducerSendThread(
                f"ProducerSendThread-{config.client_id}",
                self._queue,
                self._handler.handle,
                config.queue_buffering_max_ms,
                config.batch_num_messages,
            )
            self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, *messages: KeyedMessage[K, V] | Iterable[KeyedMessage[K, V]]) -> None:
        """Send messages, which are passed one by one or as iterables.

        A sync producer returns when the messages are sent. It raises FailedToSendMessageError if some could not be sent
        after all retries or before the producer was closed, and SerializationError, without sending any, if one cannot
        be serialized. An async producer returns when the messages are in its queue. It raises QueueFullError if there
        is no space within queue.enqueue.timeout.ms. Both raise ProducerClosedError after close(), and IllegalStateError
        in a process that was forked after the producer was created.
        """
        events = _flat(messages)
        if self._process != os.getpid():
            raise IllegalStateError("the producer was created before a fork; create a new one in this process")
        if self._thread is None:
            self._send_now(events)
        else:
            for event in events:
                self._enqueue(event)

    def _send_now(self, events: list[Event]) -> None:
        with self._lock:
            if self._closed:
                raise ProducerClosedError
            self._handler.handle(events)

    def _enqueue(self, event: Event) -> None:
        limit = self.config.queue_enqueue_timeout_ms
        if not self._queue.put(event, None if limit < 0 else limit / 1000):
            raise QueueFullError(f"Event queue is full of unsent messages, could not send event: {event}")

    def close(self, timeout: float | None = None) -> None:
        """Send the messages in the queue (async), or wait for `send` in other threads (sync), for at most `timeout`
        seconds (None: no limit), and close the connections.

        Messages that are not sent by then, or when Ctrl+C is pressed, are dropped. May be called repeatedly.
        """
        if self._closed:
            return
        self._closed = True
        if self._process != os.getpid():
            return
        try:
            if self._thread is not None:
                self._thread.shutdown(timeout)
            elif self._lock.acquire(timeout=-1 if timeout is None else timeout):
                self._lock.release()  # send() in other threads has returned
        finally:
            self._handler.close()
            if self._thread is not None:
                self._thread.end(JOIN_SECONDS)


def _flat(messages: Iterable[Any]) -> list[Event]:
    events: list[Event] = []
    for item in messages:
        if isinstance(item, KeyedMessage):
            events.append(item)
        else:
            events.extend(item)
    return events
