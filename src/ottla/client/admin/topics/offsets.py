"""Lookup of offsets: the first at or after a time, or a special one such as the earliest or the latest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, by_topic, partition_results, to_leaders
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, UnsupportedVersionError
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicPartition
from ottla.protocol.messages import list_offsets as api

EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
FIRST_VERSIONS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version of ListOffsets that supports each of these timestamps; version 1 supports all others."""


class IsolationLevel(IntEnum):
    """The records that a lookup of offsets considers: those below the high watermark or, with READ_COMMITTED, only
    those below the last stable offset. The latest offset is that limit.
    """

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(NamedTuple):
    """A position in a log: a time in milliseconds since 1970, or a special (negative) timestamp."""

    timestamp: int

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Return the spec of the latest offset: the high watermark, or the last stable offset (see IsolationLevel)."""
        return cls(LATEST_TIMESTAMP)

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """Return the spec of the earliest offset: the start of the log."""
        return cls(EARLIEST_TIMESTAMP)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """Return the spec of the record with the highest timestamp (KIP-734)."""
        return cls(MAX_TIMESTAMP)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        """Return the spec of the first record on the broker's own disk (KIP-405)."""
        return cls(EARLIEST_LOCAL)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        """Return the spec of the last record in tiered storage (KIP-1005)."""
        return cls(LATEST_TIERED)

    @classmethod
    def earliest_pending_upload(cls) -> OffsetSpec:
        """Return the spec of the first record that is not in tiered storage yet (KIP-1023)."""
        return cls(EARLIEST_PENDING_UPLOAD)

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """Return the spec of the first record at or after a time in milliseconds since 1970."""
        return cls(timestamp)


class ListedOffset(NamedTuple):
    """An offset, with the timestamp and leader epoch of its record. The timestamp is -1 for an offset that does not
    depend on timestamps, such as the earliest or the latest. All are -1 if there is no such record.
    """

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetsAdmin(AdminDriver):
    """Admin calls for offsets of partitions."""

    async def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec | int],
        timeout_ms: float | None = None,
        isolation_level: IsolationLevel | int = IsolationLevel.READ_UNCOMMITTED,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Return the offset of each partition for an OffsetSpec, or for a time in milliseconds since 1970.

        Raises UnknownTopicOrPartitionError for a partition that does not exist, and UnsupportedVersionError if the
        broker does not support an OffsetSpec or the isolation level.
        """
        timestamps = {
            TopicPartition(*tp): int(spec[0] if isinstance(spec, tuple) else spec)
            for tp, spec in topic_partition_offsets.items()
        }

        def parse(response: api.ListOffsetsResponse, *_: object) -> dict[TopicPartition, ListedOffset | KafkaError]:
            outcomes = partition_results(response.topics, lambda p: ListedOffset(p.offset, p.timestamp, p.leader_epoch))
            if any(isinstance(outcome, KafkaError) and outcome.refresh_metadata for outcome in outcomes.values()):
                self.metadata.request_update()
            return outcomes

        call: AdminCall[TopicPartition, ListedOffset] = AdminCall(
            lambda remaining: _request(
                {tp: timestamps[tp] for tp in remaining}, int(isolation_level), self.milliseconds(timeout_ms)
            ),
            parse,
            to_leaders,
            of=api.ListOffsetsRequest,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        return await self.call_per_key(call, timestamps, timeout_ms, errors)

    async def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: IsolationLevel | int = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """List offsets: kafka-python's name for `list_offsets`."""
        return await self.list_offsets(topic_partition_specs, timeout_ms, isolation_level, errors=errors)


def _request(
    timestamps: Mapping[TopicPartition, int], isolation: int, timeout_ms: int
) -> Callable[[int], api.ListOffsetsRequest]:
    needed = max((FIRST_VERSIONS.get(timestamp, 1) for timestamp in timestamps.values()), default=1)

    def make(version: int) -> api.ListOffsetsRequest:
        if version < max(needed, 2 if isolation else 1):
            raise UnsupportedVersionError(
                f"the broker supports ListOffsets up to version {version}, {needed} is needed"
            )
        partitions = {
            tp: api.ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp)
            for tp, timestamp in timestamps.items()
        }
        return api.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[api.ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic(partitions).items()],
            timeout_ms=timeout_ms,
        )

    return make
