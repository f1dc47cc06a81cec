"""Committing offsets for a group, and fetching them. Part of Kafka's `ConsumerCoordinator`."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla import errors
from ottla.client.consumer.group.membership import Committer, Membership
from ottla.client.core.coordinator import Coordinator, group_error
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NEWEST_COMMIT: Final = 9
NEWEST_OFFSET_FETCH: Final = 9
"""The newest versions of OffsetCommit and OffsetFetch that clients use: later ones identify topics by id."""
REBALANCED_WITHOUT_MEMBER: Final = (
    errors.UnknownMemberIdError,
    errors.IllegalGenerationError,
    errors.FencedMemberEpochError,
    errors.RebalanceInProgressError,
    errors.StaleMemberEpochError,
)
"""Errors of a commit during a rebalance, or with a member id, generation or member epoch that is not current."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class CommittedOffsets:
    """Commits and fetches offsets of a group: as a member, or without membership if the consumer assigns partitions
    itself.

    Commits are sent one at a time, in the order of the calls, so that an earlier one cannot overwrite a later one.
    """

    def __init__(self, coordinator: Coordinator, membership: Membership) -> None:
        self.coordinator = coordinator
        self.membership = membership
        self.group_id = coordinator.group_id
        self._turn = asyncio.Lock()

    async def commit(self, offsets: Offsets, deadline: float) -> None:
        """Commit offsets. Retriable errors and stale member epochs are retried until the deadline.

        Raises CommitFailedError if the group is rebalancing or the member is not part of it (any more), and
        KafkaTimeoutError at the deadline. Other errors that are not retriable are raised at once.
        """
        if not offsets:
            return
        committer = self.membership.committer()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())), self._turn:
                await self._commit_until_done(offsets, committer, deadline)
        except errors.KafkaError:
            raise
        except TimeoutError:
            raise errors.KafkaTimeoutError(f"{self._failed()} in time{self.coordinator.last_failure}") from None

    async def _commit_until_done(self, offsets: Offsets, committer: Committer, deadline: float) -> None:
        for tries in itertools.count():
            try:
                await self._commit_once(offsets, committer, deadline)
                return
            except errors.StaleMemberEpochError as error:
                committer = self._has_rejoined(committer, offsets, error)
                await self.coordinator.back_off(deadline, self._failed(), error, tries)
            except errors.KafkaError as error:
                if not error.retriable:
                    raise
                await self.coordinator.back_off(deadline, self._failed(), error, tries)

    async def commit_once(self, offsets: Offsets, committer: Committer, deadline: float) -> None:
        """Commit with the identity `committer`. The commit itself is not retried."""
        async with self._turn:
            await self._commit_once(offsets, committer, deadline)

    def _failed(self) -> str:
        return f"offsets of group {self.group_id} were not committed"

    def _has_rejoined(self, before: Committer, offsets: Offsets, error: errors.KafkaError) -> Committer:
        """Return the member's current identity after a stale member epoch, if the commit may be repeated with it.
        Raises CommitFailedError otherwise.
        """
        now = self.membership.committer()
        if now.member_id != before.member_id or not offsets.keys() <= self.membership.subscription.partitions.keys():
            raise errors.CommitFailedError(f"{self._failed()}: the group has rebalanced without this member") from error
        return now

    async def _commit_once(self, offsets: Offsets, committer: Committer, deadline: float) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
            topics.setdefault(tp.topic, []).append(one)
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=committer.generation,
            member_id=committer.member_id,
            group_instance_id=committer.instance_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        began = asyncio.get_running_loop().time()
        response = await self.coordinator.send(request, deadline, at_most=NEWEST_COMMIT)
        self.membership.metrics.commits.record((asyncio.get_running_loop().time() - began) * 1000)
        self._raise_failures(response, committer)

    def _raise_failures(self, response: OffsetCommitResponse, committer: Committer) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    tp = TopicPartition(topic.name, partition.partition_index)
                    self._commit_failed(tp, errors.for_code(partition.error_code), committer)

    def _commit_failed(self, tp: TopicPartition, error: type[errors.KafkaError], committer: Committer) -> None:
        # An error of a commit of an earlier generation says nothing about the current one.
        if committer.generation == self.membership.generation and self.membership.is_settled:
            self.membership.handle_error(error)
        else:
            self.coordinator.handle_error(error)
        if issubclass(error, errors.StaleMemberEpochError):
            raise error(f"{tp}: {error.__doc__}")
        if issubclass(error, REBALANCED_WITHOUT_MEMBER):
            raise errors.CommitFailedError(
                f"{tp}: the group is rebalancing or has rebalanced without this member ({error.name})"
            )
        if issubclass(error, errors.GroupAuthorizationFailedError):
            raise error(f"group {self.group_id!r}: {error.__doc__}")
        raise error(f"{tp}: {error.__doc__}")

    async def committed(
        self, partitions: Sequence[TopicPartition], deadline: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets. Partitions without one are left out. Retriable errors and stale member epochs
        are retried until the deadline; then KafkaTimeoutError is raised.
        """
        tries = 0
        while True:
            try:
                return await self._committed_once(partitions, deadline)
            except errors.KafkaError as error:
                self.membership.handle_error(type(error))
                if not error.retriable and not isinstance(error, errors.StaleMemberEpochError):
                    raise
                what = f"no committed offsets of group {self.group_id}"
                await self.coordinator.back_off(deadline, what, error, tries)
                tries += 1

    def _committer(self) -> Committer:
        """Return the identity for OffsetFetch. Only members of KIP-848 groups send one."""
        me = self.membership
        if me.config.group_protocol != "consumer" or not me.subscription.has_subscription or not me.is_settled:
            return Committer()
        return Committer(me.generation, me.member_id)

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
            me = self._committer()
            groups = [
                OffsetFetchRequestGroup(
                    group_id=group_id, topics=new, member_id=me.member_id or None, member_epoch=me.generation
                )
            ]
            return OffsetFetchRequest(groups=groups, require_stable=stable)

        response = await self.coordinator.send(request, deadline, of=OffsetFetchRequest, at_most=NEWEST_OFFSET_FETCH)
        answer: Any = response.groups[0] if response.groups else response
        if answer.error_code:
            raise group_error(answer.error_code, group_id)
        committed = {}
        for topic in answer.topics:
            for p in topic.partitions:
                tp = TopicPartition(topic.name, p.partition_index)
                if p.error_code:
                    error = errors.for_code(p.error_code)
                    raise error(f"{tp}: {error.__doc__}")
                if p.committed_offset >= 0:
                    committed[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
        return committed
