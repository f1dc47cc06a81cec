"""What users put between program and producer. Kafka's `ProducerInterceptor` and `ProducerInterceptors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.core.interceptors import Interceptors
from ottla.model import NO_TIMESTAMP, RecordMetadata

if TYPE_CHECKING:
    from ottla.client.producer.core import ProducerRecord


class ProducerInterceptor:
    """Sees records before they are serialized, and what became of them; any method may be left out.

    One object serves all threads that send. What it raises is logged and harms nobody.
    """

    def configure(self, configs: Mapping[str, Any]) -> None:
        """The producer's options by Kafka's names, as they were set; called once, before everything else."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record that is about to be sent; what is returned goes to the next interceptor, then into a batch."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """A record was acknowledged, or has failed in any way (then offset and sizes are -1). On the I/O thread, or
        where send() was called.
        """

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """A record has failed before it was in a batch; without this method, on_acknowledgement is told."""

    def close(self) -> None:
        """The producer has ended."""


class ProducerInterceptors(Interceptors):
    """The chain of one producer."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as the chain leaves it."""
        changed: ProducerRecord = self.change("on_send", record)
        return changed

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Tell all of an outcome."""
        self.notify("on_acknowledgement", metadata, error)

    def on_send_error(self, record: ProducerRecord, error: BaseException) -> None:
        """Tell all of a record that never was in a batch."""
        for interceptor in self.chain:
            if hasattr(interceptor, "on_send_error"):
                self.call(interceptor, "on_send_error", record, error)
            else:
                self.call(interceptor, "on_acknowledgement", unsent_metadata(record.topic, record.partition), error)


def unsent_metadata(topic: str, partition: int | None) -> RecordMetadata:
    """What is known of a record that was not written."""
    return RecordMetadata(topic, -1 if partition is None else partition, -1, NO_TIMESTAMP, 0, -1, -1)
