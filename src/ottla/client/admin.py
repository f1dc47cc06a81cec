"""`KafkaAdminClient`: the blocking face of `AdminCore`. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.admin_core import AdminCore
from ottla.client.admin_model import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    GroupDescription,
    GroupListing,
    NewPartitions,
    NewTopic,
)
from ottla.client.io_thread import IoThread
from ottla.client.metadata import TopicInfo
from ottla.config.admin import AdminConfig
from ottla.model import OffsetAndMetadata, TopicPartition

T = TypeVar("T")

STOP_SECONDS = 10.0


class KafkaAdminClient:
    """Manages topics, options, groups and offsets.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("topic", num_partitions=3, replication_factor=1)])

    Options as keywords or as one mapping with Kafka's names. Calls raise what the broker answers, and
    KafkaTimeoutError after `timeout_ms` (default.api.timeout.ms when None).
    """

    def __init__(self, configs: Mapping[str, Any] | None = None, **options: Any) -> None:
        if configs is not None:
            self.config = AdminConfig.from_kafka(configs, **options)
        else:
            self.config = AdminConfig.from_keywords(**options)
        self._core = AdminCore(self.config)
        self._io = IoThread(f"ottla-{self._core.client_id}")
        self._close_lock = threading.Lock()
        self._closed = False
        self._io.start()
        self._io.run(self._core.start())

    def __repr__(self) -> str:
        return f"<KafkaAdminClient {self._core.client_id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._io.run(coroutine)

    def create_topics(
        self, new_topics: Iterable[NewTopic], timeout_ms: float | None = None, validate_only: bool = False
    ) -> None:
        """Make topics, or only check that they could be made. Raises TopicAlreadyExistsError and its like."""
        self._run(self._core.create_topics(new_topics, timeout_ms, validate_only))

    def delete_topics(self, topics: Iterable[str], timeout_ms: float | None = None) -> None:
        """Remove topics with all their records. Raises UnknownTopicOrPartitionError and its like."""
        self._run(self._core.delete_topics(topics, timeout_ms))

    def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        timeout_ms: float | None = None,
        validate_only: bool = False,
    ) -> None:
        """Give topics more partitions: by topic, how many there shall be."""
        self._run(self._core.create_partitions(topic_partitions, timeout_ms, validate_only))

    def list_topics(self, timeout_ms: float | None = None) -> list[str]:
        """The names of all topics."""
        return self._run(self._core.list_topics(timeout_ms))

    def describe_topics(
        self, topics: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> dict[str, TopicInfo]:
        """Topics (all of them with None) with partitions, leaders and replicas, by name."""
        return self._run(self._core.describe_topics(topics, timeout_ms))

    def delete_records(
        self, records_to_delete: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Forget the records before an offset (-1: before the high watermark); where each log begins now."""
        return self._run(self._core.delete_records(records_to_delete, timeout_ms))

    def describe_cluster(self, timeout_ms: float | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._run(self._core.describe_cluster(timeout_ms))

    def describe_configs(
        self, config_resources: Iterable[ConfigResource], timeout_ms: float | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The options of topics and brokers (with names in `configs`: only those), by resource and name."""
        return self._run(self._core.describe_configs(config_resources, timeout_ms))

    def alter_configs(
        self, config_resources: Iterable[ConfigResource], timeout_ms: float | None = None, incremental: bool = True
    ) -> None:
        """Set options: those in `configs`, None removing one. Others stay, unless `incremental` is False."""
        self._run(self._core.alter_configs(config_resources, timeout_ms, incremental))

    def list_consumer_groups(self, timeout_ms: float | None = None) -> list[GroupListing]:
        """The groups of all brokers."""
        return self._run(self._core.list_consumer_groups(timeout_ms))

    def describe_consumer_groups(
        self, group_ids: Iterable[str], timeout_ms: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups with their members, by id. A group that does not exist is in the state Dead."""
        return self._run(self._core.describe_consumer_groups(group_ids, timeout_ms))

    def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that a group has committed (of `partitions` only, when given)."""
        return self._run(self._core.list_consumer_group_offsets(group_id, partitions, timeout_ms))

    def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], timeout_ms: float | None = None
    ) -> None:
        """Set committed offsets of a group that has no members. Raises UnknownMemberIdError while it has some."""
        self._run(self._core.alter_consumer_group_offsets(group_id, offsets, timeout_ms))

    def delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> None:
        """Forget committed offsets of partitions that no member reads. Raises GroupSubscribedToTopicError otherwise."""
        self._run(self._core.delete_consumer_group_offsets(group_id, partitions, timeout_ms))

    def delete_consumer_groups(self, group_ids: Iterable[str], timeout_ms: float | None = None) -> None:
        """Forget groups without members, with their offsets. Raises NonEmptyGroupError, GroupIdNotFoundError…"""
        self._run(self._core.delete_consumer_groups(group_ids, timeout_ms))

    def close(self) -> None:
        """End the connections. Twice does no harm."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        try:
            if not self._io.forked:
                self._io.run(self._core.stop(), STOP_SECONDS)
        finally:
            self._io.stop()
