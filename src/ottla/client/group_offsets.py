"""A group's committed offsets. The other half of Kafka's `ConsumerCoordinator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla import errors
from ottla.client.coordinator import Coordinator
from ottla.client.membership import FENCED, NOBODY, Membership
from ottla.errors import CommitFailedError, KafkaError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NEWEST_COMMIT: Final = 9
NEWEST_OFFSET_FETCH: Final = 9
"""10 of both names topics by id."""


class GroupOffsets:
    """Stores and fetches offsets: as a member of the group, or from outside when partitions are assigned by hand."""

    def __init__(self, coordinator: Coordinator, membership: Membership) -> None:
        self.coordinator = coordinator
        self.membership = membership
        self.group_id = coordinator.group_id

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        """Store offsets; tries again while that may help and there is time.

        CommitFailedError when the group has gone on without this member.
        """
        if not offsets:
            return
        while True:
            try:
                await self._commit_once(offsets, deadline)
                return
            except KafkaError as error:
                if not error.retriable:
                    raise
                await self.coordinator.pause(deadline, f"offsets of group {self.group_id} were not committed", error)

    async def _commit_once(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: float) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
            topics.setdefault(tp.topic, []).append(one)
        by_group = self.membership.subscription.by_group
        if by_group and self.membership.generation == NOBODY:
            raise CommitFailedError("this consumer is no member of the group any more; poll() joins again")
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.membership.generation if by_group else NOBODY,
            member_id=self.membership.member_id if by_group else "",
            group_instance_id=self.membership.config.group_instance_id if by_group else None,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        response = await self.coordinator.ask(request, deadline, at_most=NEWEST_COMMIT)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    self._commit_failed(tp, partition.error_code, request.generation_id_or_member_epoch)

    def _commit_failed(self, tp: TopicPartition, code: int, generation: int) -> None:
        error = errors.for_code(code)
        # A commit that was overtaken by a rebalance says nothing about the generation that we are in now.
        if not issubclass(error, FENCED) or (
            generation == self.membership.generation and not self.membership.is_joining
        ):
            self.membership.follow(error)
        if issubclass(error, (*FENCED, errors.RebalanceInProgressError)):
            raise CommitFailedError(f"{tp}: the group is rebalancing or has gone on without this member ({error.name})")
        raise error(f"{tp}: {error.__doc__}")

    async def committed(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The stored offsets; partitions without one are left out."""
        while True:
            try:
                return await self._committed_once(partitions, deadline)
            except KafkaError as error:
                self.membership.follow(type(error))
                if not error.retriable:
                    raise
                await self.coordinator.pause(deadline, f"no committed offsets of group {self.group_id}", error)

    async def _committed_once(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        topics: dict[str, list[int]] = {}
        for tp in partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        group_id = self.group_id

        def request(version: int) -> OffsetFetchRequest:
            stable = version >= 7
            if version < 8:
                old = [OffsetFetchRequestTopic(name=t, partition_indexes=p) for t, p in topics.items()]
                return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)
            new = [OffsetFetchRequestTopics(name=t, partition_indexes=p) for t, p in topics.items()]
            groups = [OffsetFetchRequestGroup(group_id=group_id, topics=new)]
            return OffsetFetchRequest(groups=groups, require_stable=stable)

        response = await self.coordinator.ask(request, deadline, of=OffsetFetchRequest, at_most=NEWEST_OFFSET_FETCH)
        answer: Any = response.groups[0] if response.groups else response
        if answer.error_code:
            raise errors.for_code(answer.error_code)()
        found = {}
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code:
                    raise errors.for_code(p.error_code)()
                if p.committed_offset >= 0:
                    tp = TopicPartition(topic.name, p.partition_index)
                    found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
        return found
