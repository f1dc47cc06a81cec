"""`SyncProducer`: sends requests to one broker, one at a time.

The first request opens the connection, and so does the first one after an error. Thread-safe.
"""

from __future__ import annotations

import threading
from typing import Any, Final, TypeVar, cast

from ottla.errors import IllegalStateError
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.net.client.blocking_channel import USE_DEFAULT_BUFFER_SIZE, BlockingChannel
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse

VERSION: Final = 0
"""The version of every request of the 0.8 producer."""

R = TypeVar("R", bound=Response)


class SyncProducer:
    """A connection to the broker at an address."""

    def __init__(self, host: str, port: int, config: ProducerConfig) -> None:
        self.host = host
        self.port = port
        self.config = config
        self._channel = BlockingChannel(
            host, port, USE_DEFAULT_BUFFER_SIZE, config.send_buffer_bytes, config.request_timeout_ms
        )
        self._correlation_id = 0
        self._closed = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<SyncProducer {self.host}:{self.port}>"

    def send(self, request: ProduceRequest) -> ProduceResponse | None:
        """Send messages, and return the response of the broker, or None with acks=0. Raises KafkaError if that fails or
        no response arrives in time.
        """
        with self._lock:
            response = self._exchange(request, expects_response=request.acks != 0)
        return cast("ProduceResponse | None", response)

    def request(self, request: Request[R]) -> R:
        """Send a request other than Produce, and return its response. Raises KafkaError if that fails or no response
        arrives in time.
        """
        with self._lock:
            return cast(R, self._exchange(request, expects_response=True))

    def _exchange(self, request: Request[Any], *, expects_response: bool) -> Response | None:
        if self._closed:
            raise IllegalStateError(f"the connection to {self.host}:{self.port} is closed")
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        try:
            self._channel.connect()
            self._channel.send(request, VERSION, self._correlation_id, self.config.client_id)
            return self._channel.receive() if expects_response else None
        except BaseException:
            # After an interruption (also Ctrl+C) it is unknown how much was sent, so that the next request opens a
            # new connection.
            self._channel.disconnect()
            raise

    def close(self) -> None:
        """Close the connection, even if another thread waits for a response. May be called repeatedly."""
        self._closed = True
        self._channel.disconnect()
