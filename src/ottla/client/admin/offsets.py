"""Offsets of partitions: the first, the last, the first at or after a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, failure
from ottla.errors import KafkaError, UnknownTopicOrPartitionError, UnsupportedVersionError
from ottla.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP, TopicPartition
from ottla.protocol.messages import list_offsets as api

EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
NEEDS: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version of ListOffsets that knows a moment."""


Make = Callable[[int], api.ListOffsetsRequest]


class IsolationLevel(IntEnum):
    """Whether the end of a partition is that of committed reads."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetSpec(NamedTuple):
    """A moment in a log."""

    timestamp: int

    @classmethod
    def latest(cls) -> OffsetSpec:
        """Behind the last record."""
        return cls(LATEST_TIMESTAMP)

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first record."""
        return cls(EARLIEST_TIMESTAMP)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The record with the highest timestamp (KIP-734)."""
        return cls(MAX_TIMESTAMP)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        """The first record on the broker's own disk (KIP-405)."""
        return cls(EARLIEST_LOCAL)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        """The last record in tiered storage (KIP-1005)."""
        return cls(LATEST_TIERED)

    @classmethod
    def earliest_pending_upload(cls) -> OffsetSpec:
        """The first record that is not in tiered storage yet (KIP-1023)."""
        return cls(EARLIEST_PENDING_UPLOAD)

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """The first record at or after a time in milliseconds."""
        return cls(timestamp)


class ListedOffset(NamedTuple):
    """What was found; offset -1 where no record is that late."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetsAdmin(AdminCalls):
    """Calls about offsets of partitions."""

    async def list_offsets(
        self,
        topic_partition_offsets: Mapping[TopicPartition, OffsetSpec | int],
        timeout_ms: float | None = None,
        isolation_level: IsolationLevel | int = IsolationLevel.READ_UNCOMMITTED,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset of a moment in each partition. Raises UnknownTopicOrPartitionError and its like."""
        moments = {TopicPartition(*tp): _moment(spec) for tp, spec in topic_partition_offsets.items()}

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, ListedOffset | KafkaError]:
            return await self.ask_for(
                await self.by_leader(left),
                lambda some: _request(
                    {tp: moments[tp] for tp in some}, int(isolation_level), self.limit_ms(timeout_ms)
                ),
                lambda _, answer: self._listed(answer),
                api.ListOffsetsRequest,
            )

        return await self.settled(moments, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    def _listed(self, answer: api.ListOffsetsResponse) -> dict[TopicPartition, ListedOffset | KafkaError]:
        found: dict[TopicPartition, ListedOffset | KafkaError] = {}
        for topic in answer.topics:
            for p in topic.partitions:
                tp = TopicPartition(topic.name, p.partition_index)
                found[tp] = failure(p.error_code, tp) or ListedOffset(p.offset, p.timestamp, p.leader_epoch)
                self._noted(found[tp])
        return found

    def _noted(self, outcome: object) -> None:
        if isinstance(outcome, KafkaError) and outcome.refresh_metadata:
            self.metadata.request_update()

    async def list_partition_offsets(
        self,
        topic_partition_specs: Mapping[TopicPartition, OffsetSpec | int],
        isolation_level: IsolationLevel | int = IsolationLevel.READ_UNCOMMITTED,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """kafka-python's name for list_offsets."""
        return await self.list_offsets(topic_partition_specs, timeout_ms, isolation_level, errors=errors)


def _moment(spec: OffsetSpec | int) -> int:
    return int(spec[0] if isinstance(spec, tuple) else spec)


def _request(moments: Mapping[TopicPartition, int], isolation: int, timeout_ms: int) -> Make:
    needed = max((NEEDS.get(moment, 1) for moment in moments.values()), default=1)

    def make(version: int) -> api.ListOffsetsRequest:
        if version < max(needed, 2 if isolation else 1):
            raise UnsupportedVersionError(
                f"the broker speaks ListOffsets {version}; {needed} is needed for what is asked"
            )
        topics: dict[str, list[api.ListOffsetsPartition]] = {}
        for tp, moment in moments.items():
            one = api.ListOffsetsPartition(partition_index=tp.partition, timestamp=moment)
            topics.setdefault(tp.topic, []).append(one)
        return api.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[api.ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
            timeout_ms=timeout_ms,
        )

    return make
