"""Interceptors of the producer. Kafka's `ProducerInterceptor` and `ProducerInterceptors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.core.interceptors import Interceptors
from ottla.client.producer.record import ProducerRecord
from ottla.model import NO_TIMESTAMP, RecordMetadata


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
        or by the thread that called send().
        """

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Handle the failure of a record before it was in a batch. Without this method, on_acknowledgement is
        called.
        """

    def close(self) -> None:
        """Handle the close of the producer."""


class ProducerInterceptors(Interceptors):
    """The interceptors of one producer."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record through all interceptors."""
        changed: ProducerRecord = self.change("on_send", record)
        return changed

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Notify all interceptors of a result."""
        self.notify("on_acknowledgement", metadata, error)

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Notify all interceptors of a record that failed before it was in a batch."""
        for interceptor in self.chain:
            if hasattr(interceptor, "on_send_error"):
                self.call(interceptor, "on_send_error", record, error)
            else:
                self.call(interceptor, "on_acknowledgement", unsent_metadata(record.topic, record.partition), error)


def unsent_metadata(topic: str, partition: int | None) -> RecordMetadata:
    """Return the metadata of a record that was not written."""
    return RecordMetadata(topic, -1 if partition is None else partition, -1, NO_TIMESTAMP, 0, -1, -1)
