"""Interceptors of the producer. Kafka's `ProducerInterceptor` and `ProducerInterceptors`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.core.interceptors import Interceptors
from ottla.client.producer.batch import Headers
from ottla.client.producer.record import ProducerRecord
from ottla.model import NO_TIMESTAMP, RecordMetadata

WITH_HEADERS: Final = 3
"""Parameters of an on_acknowledgement that takes the headers (KIP-512)."""


class ProducerInterceptor:
    """Sees records before they are serialized, and their results; all methods are optional.

    One object serves all threads that send. Its errors are logged and ignored.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the interceptor with the producer's configs as they were set. Called once, first."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send, after possible changes; the result is passed to the next interceptor."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Handle the acknowledgement or failure of a record (then offset and sizes are -1). Called by the I/O thread,
        or by the thread that called send(). The method may take the record's headers as a third parameter, as
        `on_send` has returned them (KIP-512).
        """

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Handle the failure of a record before it was in a batch. Without this method, on_acknowledgement is
        called.
        """

    def close(self) -> None:
        """Handle the close of the producer."""


class ProducerInterceptors(Interceptors):
    """The interceptors of one producer."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        super().__init__(interceptors, configs)
        self._take_headers = [_takes_headers(interceptor) for interceptor in self.chain]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors."""
        changed: ProducerRecord = self.change("on_send", record)
        return changed

    def on_acknowledgement(
        self, metadata: RecordMetadata, error: BaseException | None, headers: Headers | None = None
    ) -> None:
        """Notify all interceptors of a result."""
        for interceptor, takes_headers in zip(self.chain, self._take_headers, strict=True):
            more = (headers,) if takes_headers else ()
            self.call(interceptor, "on_acknowledgement", metadata, error, *more)

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Notify all interceptors of a record that failed before it was in a batch."""
        for interceptor, takes_headers in zip(self.chain, self._take_headers, strict=True):
            if hasattr(interceptor, "on_send_error"):
                self.call(interceptor, "on_send_error", record, error)
            else:
                more = (record.headers,) if takes_headers else ()
                metadata = unsent_metadata(record.topic, record.partition)
                self.call(interceptor, "on_acknowledgement", metadata, error, *more)


def _takes_headers(interceptor: Any) -> bool:
    """Return whether on_acknowledgement has a third parameter."""
    method = getattr(interceptor, "on_acknowledgement", None)
    try:
        parameters = inspect.signature(method).parameters.values() if method is not None else ()
    except (TypeError, ValueError):  # a callable that Python cannot look into
        return False
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= WITH_HEADERS


def unsent_metadata(topic: str, partition: int | None) -> RecordMetadata:
    """Return the metadata of a record that was not written."""
    return RecordMetadata(topic, -1 if partition is None else partition, -1, NO_TIMESTAMP, 0, -1, -1)
