"""The methods of both consumers that only read state. Any thread may call them. They send no request."""

from __future__ import annotations

from typing import Any

from ottla.client.consumer.core import ConsumerCore
from ottla.model import ConsumerGroupMetadata, TopicPartition


class ConsumerQueries:
    """Base class of the synchronous and the asynchronous consumer."""

    _core: ConsumerCore

    def __repr__(self) -> str:
        return f"<KafkaConsumer {self._core.client_id}>"

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that are assigned now."""
        return set(self._core.subscription.partitions)

    def subscription(self) -> set[str]:
        """Return the subscribed topics. With a pattern, return the topics that match it at the moment; none with a
        SubscriptionPattern, which the broker evaluates.
        """
        return set(self._core.subscription.topics)

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return {tp for tp, state in self._core.subscription.partitions.items() if state.paused}

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark of a partition according to its last fetch; None if it is not known yet. Raises
        IllegalStateError if the partition is not assigned.
        """
        return self._core.subscription.state(TopicPartition(*partition)).high_watermark

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Return the lag of a partition in records according to its last fetch; None if it is not known yet. Raises
        IllegalStateError if the partition is not assigned.
        """
        return self._core.lag(TopicPartition(*partition))

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata for a producer's send_offsets_to_transaction (KIP-447). Raises IllegalStateError
        without a group_id.
        """
        return self._core.group_metadata()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._core.metric_values(raw)

    def bootstrap_connected(self) -> bool:
        """Return whether the client has received metadata from any broker."""
        return bool(self._core.metadata.cluster.nodes)
