"""Interceptors of the producer, like Kafka's `ProducerInterceptor` and `ProducerInterceptors`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.client.core.interceptors import Interceptors
from ottla.client.producer.batch import Headers
from ottla.model import NO_TIMESTAMP, ProducerRecord, RecordMetadata

WITH_HEADERS: Final = 3
"""The minimum number of parameters of an on_acknowledgement method that takes the headers (KIP-512)."""


class ProducerInterceptor:
    """Gets records before they are serialized, and their results. All methods are optional.

    The threads that send records share one object. Exceptions are logged and ignored, except those of `configure`.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the interceptor. It gets the configs that were passed to the producer, and client.id. Called once,
        before all other methods.
        """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record, possibly changed. The result is passed to the next interceptor, and that of the last one
        is sent.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Handle the acknowledgement of a record, or its failure (offset and sizes are then -1).

        Called in the I/O thread or event loop, or in the thread that called send(). The method may have a third
        parameter for the record's headers as the last interceptor's `on_send` returned them (KIP-512).
        """

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Handle the failure of a record that was not in a batch yet. If an interceptor lacks this method,
        on_acknowledgement is called instead.
        """

    def close(self) -> None:
        """Release resources when the producer is closed."""


class ProducerInterceptors(Interceptors):
    """The interceptors of one producer."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        super().__init__(interceptors, configs)
        self._header_flags = [_accepts_headers(interceptor) for interceptor in self.chain]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors, and return the result."""
        changed: ProducerRecord = self.change("on_send", record)
        return changed

    def on_acknowledgement(
        self, metadata: RecordMetadata, error: BaseException | None, headers: Headers | None = None
    ) -> None:
        """Pass the metadata of a record, and its error if it failed, to all interceptors."""
        for interceptor, accepts_headers in zip(self.chain, self._header_flags, strict=True):
            more = (headers,) if accepts_headers else ()
            self.call(interceptor, "on_acknowledgement", metadata, error, *more)

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Pass to all interceptors a record that failed before it was in a batch."""
        for interceptor, accepts_headers in zip(self.chain, self._header_flags, strict=True):
            if hasattr(interceptor, "on_send_error"):
                self.call(interceptor, "on_send_error", record, error)
            else:
                more = (record.headers,) if accepts_headers else ()
                metadata = unsent_metadata(record.topic, record.partition)
                self.call(interceptor, "on_acknowledgement", metadata, error, *more)


def _accepts_headers(interceptor: Any) -> bool:
    """Return whether an interceptor's on_acknowledgement has a third parameter."""
    method = getattr(interceptor, "on_acknowledgement", None)
    try:
        parameters = inspect.signature(method).parameters.values() if method is not None else ()
    except (TypeError, ValueError):  # a callable that Python cannot look into
        return False
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) >= WITH_HEADERS


def unsent_metadata(topic: str, partition: int | None) -> RecordMetadata:
    """Return the metadata of a record that failed: offset, sizes and timestamp are -1."""
    return RecordMetadata(topic, -1 if partition is None else partition, -1, NO_TIMESTAMP, 0, -1, -1)
