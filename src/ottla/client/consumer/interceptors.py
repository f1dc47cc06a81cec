"""Interceptors of the consumer, like Kafka's `ConsumerInterceptor` and `ConsumerInterceptors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.core.interceptors import Interceptors
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.records.consumer_record import ConsumerRecord

Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptor:
    """Gets records before the application does, and the offsets of successful commits. All methods are optional."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the interceptor. It gets the configs that were passed to the consumer, and client.id. Called once,
        before all other methods.
        """

    def on_consume(self, records: Records) -> Records:
        """Return the records, possibly changed. The result is passed to the next interceptor, and that of the last one
        is returned by poll().

        Called in the polling thread.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Handle a successful commit of `offsets`."""

    def close(self) -> None:
        """Release resources when the consumer is closed."""


class ConsumerInterceptors(Interceptors):
    """The interceptors of one consumer."""

    def on_consume(self, records: Records) -> Records:
        """Pass records through all interceptors, and return the result. An interceptor that fails or returns None is
        skipped.
        """
        changed: Records = self.change("on_consume", records)
        return changed

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Notify all interceptors of a commit."""
        self.notify("on_commit", offsets)
