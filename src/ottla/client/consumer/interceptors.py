"""What users put between consumer and program. Kafka's `ConsumerInterceptor` and `ConsumerInterceptors`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.consumer.records import ConsumerRecord
from ottla.client.core.interceptors import Interceptors
from ottla.model import OffsetAndMetadata, TopicPartition

Records = dict[TopicPartition, list[ConsumerRecord]]


class ConsumerInterceptor:
    """Sees records before the program does, and commits after they succeeded; any method may be left out."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """The consumer's options by Kafka's names, as they were set; called once, before everything else."""

    def on_consume(self, records: Records) -> Records:
        """What poll() is about to return; what is returned here goes on to the next interceptor, then to poll().

        Called by the thread that polls.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed."""

    def close(self) -> None:
        """The consumer has ended."""


class ConsumerInterceptors(Interceptors):
    """The chain of one consumer."""

    def on_consume(self, records: Records) -> Records:
        """The records as the chain leaves them; one that fails leaves them as they were."""
        changed: Records = self.change("on_consume", records)
        return changed

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Tell all of a commit."""
        self.notify("on_commit", offsets)
