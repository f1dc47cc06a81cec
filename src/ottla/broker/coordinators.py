"""The coordinators of groups, transactions and share partitions.

Each is created when a partition of its internal topic or a request needs it, so that a broker starts sooner, and needs
no memory for coordinators that it does not use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.interbroker.client import InterBrokerClient
from ottla.config.broker.broker_config import BrokerConfig
from ottla.model import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions

if TYPE_CHECKING:
    from ottla.coordinator.group.group_runtime import GroupRuntime
    from ottla.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
    from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
    from ottla.coordinator.share_partition.share_partition_manager import SharePartitionManager
    from ottla.coordinator.share_partition.share_persister import SharePersister
    from ottla.coordinator.transaction.transaction_markers import LocalMarkers, Markers
    from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime


class Coordinators:
    """The coordinators of one broker. Implements LeadershipListener. Not thread-safe: event loop only."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: Callable[[], ClusterImage],
        partitions: Partitions,
        inter_broker: InterBrokerClient,
        new_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        self._config = config
        self._clock = clock
        self._image = image
        self._partitions = partitions
        self._inter_broker = inter_broker
        self._new_producer_id = new_producer_id
        self._groups: GroupRuntime | None = None
        self._transactions: TransactionRuntime | None = None
        self._share_states: ShareCoordinator | None = None
        self._share_persister: SharePersister | None = None
        self._share_partitions: SharePartitionManager | None = None
        self._markers: LocalMarkers | None = None
        self._closed = False

    @property
    def groups(self) -> GroupRuntime:
        if self._groups is None:
            from ottla.coordinator.group.group_runtime import GroupRuntime

            self._groups = GroupRuntime(self._config, self._clock, self._image)
        return self._groups

    @property
    def existing_groups(self) -> GroupRuntime | None:
        """The group coordinator; None if it has not been needed yet."""
        return self._groups

    @property
    def existing_transactions(self) -> TransactionRuntime | None:
        """The transaction coordinator; None if it has not been needed yet."""
        return self._transactions

    @property
    def transactions(self) -> TransactionRuntime:
        if self._transactions is None:
            from ottla.coordinator.transaction.transaction_runtime import TransactionRuntime

            self._transactions = TransactionRuntime(
                self._config, self._clock, self._image, self._new_producer_id, self._marker_channel()
            )
        return self._transactions

    @property
    def share_states(self) -> ShareCoordinator:
        if self._share_states is None:
            from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator

            self._share_states = ShareCoordinator(self._config, self._clock, self._image)
        return self._share_states

    @property
    def share_persister(self) -> SharePersister:
        """Access to the states of share partitions at the share coordinators of all brokers."""
        if self._share_persister is None:
            from ottla.coordinator.share_partition.share_persister import SharePersister

            config = self._config
            self._share_persister = SharePersister(
                self._partitions.broker_id,
                self.share_states,
                self._inter_broker,
                config.offsets_commit_timeout_ms / 1000,
                config.request_timeout_ms / 1000,
            )
        return self._share_persister

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The manager of the share partitions that this broker leads."""
        if self._share_partitions is None:
            from ottla.coordinator.share_partition.share_partition_manager import SharePartitionManager

            self._share_partitions = SharePartitionManager(self._config, self._clock, self._image, self.share_persister)
        return self._share_partitions

    @property
    def markers(self) -> LocalMarkers:
        """Writes transaction markers to the partitions that this broker leads."""
        if self._markers is None:
            from ottla.coordinator.transaction.transaction_markers import LocalMarkers

            self._markers = LocalMarkers(self._clock, self._partitions, self._image, self._on_transaction_end)
        return self._markers

    def _marker_channel(self) -> Markers:
        """Return the object that writes transaction markers to all partitions of the cluster."""
        if not self._config.in_cluster:
            return self.markers
        from ottla.coordinator.transaction.marker_channel import TransactionMarkerChannel

        timeout = self._config.request_timeout_ms / 1000
        return TransactionMarkerChannel(
            self._partitions.broker_id, self.markers, self._inter_broker, self._image, timeout
        )

    @property
    def _built(self) -> list[CoordinatorRuntime]:
        runtimes = (self._groups, self._transactions, self._share_states)
        return [runtime for runtime in runtimes if runtime is not None]

    async def start(self) -> None:
        """Wait until all partitions of internal topics that this broker leads are loaded or have failed to load."""
        for runtime in self._built:
            await runtime.start()

    def close(self) -> None:
        """Stop coordinating. Requests to the coordinators then fail with NotCoordinatorError."""
        self._closed = True
        if self._share_partitions is not None:
            self._share_partitions.close()
        if self._share_persister is not None:
            self._share_persister.close()
        for runtime in self._built:
            runtime.close()

    def on_leader(self, partition: Partition) -> None:
        """Load a partition that this broker leads, if its topic has the state of a coordinator.

        Does nothing after `close`.
        """
        runtime = None if self._closed else self._runtime_of(partition.topic_partition.topic)
        if runtime is not None:
            runtime.shards.on_leader(partition)

    def on_resigned(self, tp: TopicPartition) -> None:
        """Drop the state of a partition that this broker no longer leads."""
        if self._share_partitions is not None:
            self._share_partitions.on_resigned(tp)
        for runtime in self._built:
            runtime.shards.on_resigned(tp)

    def _runtime_of(self, topic: str) -> CoordinatorRuntime | None:
        if topic == CONSUMER_OFFSETS:
            return self.groups
        if topic == TRANSACTION_STATE:
            return self.transactions
        return self.share_states if topic == SHARE_GROUP_STATE else None

    async def on_image_changed(self, before: ClusterImage, after: ClusterImage) -> None:
        """Retry transaction markers for partitions that have changed, and remove the state of deleted topics."""
        if self._transactions is not None:
            await self._transactions.completer.on_image_changed(before, after)
        deleted = frozenset(before.topics.keys() - after.topics.keys())
        if deleted and self._groups is not None:
            self._groups.on_topics_deleted(deleted)
        if deleted and self._share_states is not None:
            self._share_states.on_topics_deleted(before.names.keys() - after.names.keys())

    def _on_transaction_end(self, partition: TopicPartition, producer_id: int, commit: bool) -> None:
        if self._groups is not None:
            self._groups.on_transaction_end(partition, producer_id, commit)

    def abort_timed_out_transactions(self) -> None:
        """Abort the transactions that have been open for longer than their timeout."""
        if self._transactions is not None:
            self._transactions.abort_timed_out()

    def remove_expired_transactional_ids(self) -> None:
        """Remove transactional ids without an open transaction that have not been used for
        `transactional.id.expiration.ms`.
        """
        if self._transactions is not None:
            self._transactions.remove_expired()

    @property
    def producer_ids(self) -> list[int]:
        """The producer ids of the transactional ids that this broker coordinates."""
        return [] if self._transactions is None else self._transactions.producer_ids
