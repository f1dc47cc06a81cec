"""Interceptors of the consumer. Kafka's `ConsumerInterceptor` and `ConsumerInterceptors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.consumer.records import ConsumerRecord
from ottla.client.core.interceptors import Interceptors
from ottla.model import OffsetAndMetadata, TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptor:
    """Sees records before the application, and successful commits; all methods are optional."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Configure the interceptor with the consumer's configs as they were set. Called once, first."""

    def on_consume(self, records: Records) -> Records:
        """Return the records for poll(), after possible changes; the result is passed to the next interceptor.

        Called by the thread that polls.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Handle a successful commit."""

    def close(self) -> None:
        """Handle the close of the consumer."""


class ConsumerInterceptors(Interceptors):
    """The interceptors of one consumer."""

    def on_consume(self, records: Records) -> Records:
        """Pass records through all interceptors; one that fails does not change them."""
        changed: Records = self.change("on_consume", records)
        return changed

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Notify all interceptors of a commit."""
        self.notify("on_commit", offsets)
