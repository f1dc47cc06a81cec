"""Committed offsets of groups, and start offsets of share groups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.admin.driver import (
    AdminCall,
    Errors,
    by_topic,
    check,
    numbers_by_topic,
    partition_results,
    results,
    to_coordinator_of,
)
from ottla.client.admin.topics.offsets import OffsetsAdmin, OffsetSpec
from ottla.client.consumer.offsets.committed_offsets import NEWEST_COMMIT, NEWEST_OFFSET_FETCH
from ottla.errors import KafkaError, UnknownTopicOrPartitionError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.protocol.messages import alter_share_group_offsets as alter_share
from ottla.protocol.messages import delete_share_group_offsets as delete_share
from ottla.protocol.messages import describe_share_group_offsets as describe_share
from ottla.protocol.messages import offset_commit as commit
from ottla.protocol.messages import offset_delete as delete
from ottla.protocol.messages import offset_fetch as fetch

Committed = dict[TopicPartition, OffsetAndMetadata]


class SharePartitionOffsetInfo(NamedTuple):
    """The start offset of a share group in a partition, which is that of its first unfinished record. `lag` is None if
    the broker does not report it.
    """

    start_offset: int
    leader_epoch: int
    lag: int | None


class GroupOffsetsAdmin(OffsetsAdmin):
    """Admin calls for offsets of groups."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        require_stable: bool = False,
        *,
        errors: Errors | None = None,
    ) -> Committed:
        """Return the committed offsets of a group in `partitions` (None: all). Partitions without one are left out. The
        keys of `errors` are partitions.

        With `require_stable`, waits until no open transaction can change the offsets; ignored for brokers before 2.5.
        """
        requested = None if partitions is None else {TopicPartition(*tp) for tp in partitions}
        return await self.call(
            _fetch_request(group_id, requested, require_stable),
            lambda response: _committed(group_id, response, requested, errors),
            timeout_ms,
            lookup=to_coordinator_of(group_id),
            of=fetch.OffsetFetchRequest,
            at_most=NEWEST_OFFSET_FETCH,
        )

    async def list_group_offsets(
        self,
        group_specs: Mapping[str, Collection[TopicPartition] | None] | Iterable[str] | str,
        timeout_ms: float | None = None,
        require_stable: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, Committed]:
        """Return the committed offsets of groups, by group id. `group_specs` is a mapping from group ids to partitions
        (None: all partitions), a list of group ids, or one group id.
        """
        names = [group_specs] if isinstance(group_specs, str) else group_specs
        specs = names if isinstance(names, Mapping) else dict.fromkeys(names)

        async def attempt(remaining: list[str]) -> dict[str, Committed | KafkaError]:
            outcomes: dict[str, Committed | KafkaError] = {}
            for group in remaining:
                try:
                    outcomes[group] = await self.list_consumer_group_offsets(
                        group, specs[group], timeout_ms, require_stable
                    )
                except KafkaError as error:
                    outcomes[group] = error
            return outcomes

        return await self.retry_per_key(specs, attempt, timeout_ms, errors)

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Commit offsets for a group without members. Raises UnknownMemberIdError if it has members."""
        entries = {
            TopicPartition(*tp): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for tp, offset in offsets.items()
        }

        def request(remaining: list[TopicPartition]) -> commit.OffsetCommitRequest:
            topics = by_topic({tp: _to_commit(tp, entries[tp]) for tp in remaining})
            parts = [commit.OffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()]
            return commit.OffsetCommitRequest(group_id=group_id, topics=parts)

        call: AdminCall[TopicPartition, None] = AdminCall(
            request,
            lambda response, *_: partition_results(response.topics),
            to_coordinator_of(group_id),
            at_most=NEWEST_COMMIT,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, entries, timeout_ms, errors)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """Alter committed offsets: kafka-python's name for `alter_consumer_group_offsets`. Ignores
        `group_coordinator_id`.
        """
        await self.alter_consumer_group_offsets(group_id, offsets, timeout_ms, errors=errors)

    async def reset_group_offsets(
        self,
        group_id: str,
        offset_specs: Mapping[TopicPartition, OffsetSpec | int],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, int]:
        """Set the committed offsets of a group to positions in the logs (such as earliest, latest, a time), and return
        the new offsets. The group must not have members.

        If a partition has no such record, for example none at or after the time, its latest offset is committed.
        """
        listed = await self.list_offsets(offset_specs, timeout_ms, errors=errors)
        late = {tp: OffsetSpec.latest() for tp, entry in listed.items() if entry.offset < 0}
        listed |= await self.list_offsets(late, timeout_ms, errors=errors)
        # an offset that is still -1 is one whose second lookup failed: `errors` has the reason
        offsets = {tp: entry.offset for tp, entry in listed.items() if entry.offset >= 0}
        await self.alter_consumer_group_offsets(group_id, offsets, timeout_ms, errors=errors)
        return {tp: offset for tp, offset in offsets.items() if errors is None or tp not in errors}

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Delete the committed offsets of partitions. Raises GroupSubscribedToTopicError if a member is subscribed to
        the topic of one of them.
        """

        def request(remaining: list[TopicPartition]) -> delete.OffsetDeleteRequest:
            topics = by_topic(
                {tp: delete.OffsetDeleteRequestPartition(partition_index=tp.partition) for tp in remaining}
            )
            parts = [delete.OffsetDeleteRequestTopic(name=name, partitions=p) for name, p in topics.items()]
            return delete.OffsetDeleteRequest(group_id=group_id, topics=parts)

        call: AdminCall[TopicPartition, None] = AdminCall(
            request,
            lambda response, *_: partition_results(response.topics),
            to_coordinator_of(group_id),
            name=group_id,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, [TopicPartition(*tp) for tp in partitions], timeout_ms, errors)

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """Delete committed offsets: kafka-python's name for `delete_consumer_group_offsets`. Ignores
        `group_coordinator_id`.
        """
        await self.delete_consumer_group_offsets(group_id, partitions, timeout_ms, errors=errors)

    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, int]:
        """Return the start offsets of a share group in `partitions` (None: all of the group). The keys of `errors` are
        partitions.
        """
        infos = await self.describe_share_group_offsets(group_id, partitions, timeout_ms, errors=errors)
        return {tp: info.start_offset for tp, info in infos.items()}

    async def describe_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, SharePartitionOffsetInfo]:
        """Return the start offsets and the lag of a share group in `partitions` (None: all of the group). Partitions
        without a start offset are left out. The keys of `errors` are partitions.
        """
        topics = None
        if partitions is not None:
            topics = [
                describe_share.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in numbers_by_topic(partitions).items()
            ]
        group = describe_share.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)

        def parse(
            response: describe_share.DescribeShareGroupOffsetsResponse,
        ) -> dict[TopicPartition, SharePartitionOffsetInfo]:
            (result,) = response.groups
            check(result.error_code, group_id, result.error_message)
            outcomes = partition_results(result.topics, _share_offset)
            _collect(errors, outcomes)
            return {
                tp: info
                for tp, info in outcomes.items()
                if isinstance(info, SharePartitionOffsetInfo) and info.start_offset >= 0
            }

        return await self.call(
            describe_share.DescribeShareGroupOffsetsRequest(groups=[group]),
            parse,
            timeout_ms,
            lookup=to_coordinator_of(group_id),
        )

    async def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set the start offsets of a share group without members. Raises NonEmptyGroupError if it has members."""
        starts = {TopicPartition(*tp): offset for tp, offset in offsets.items()}

        def request(remaining: list[TopicPartition]) -> alter_share.AlterShareGroupOffsetsRequest:
            topics = by_topic(
                {
                    tp: alter_share.AlterShareGroupOffsetsRequestPartition(
                        partition_index=tp.partition, start_offset=starts[tp]
                    )
                    for tp in remaining
                }
            )
            parts = [
                alter_share.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=p)
                for name, p in topics.items()
            ]
            return alter_share.AlterShareGroupOffsetsRequest(group_id=group_id, topics=parts)

        call: AdminCall[TopicPartition, None] = AdminCall(
            request,
            lambda response, *_: partition_results(response.responses),
            to_coordinator_of(group_id),
            name=group_id,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, starts, timeout_ms, errors)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Delete the start offsets of a share group for these topics. Raises NonEmptyGroupError if the group has
        members.
        """
        call: AdminCall[str, None] = AdminCall(
            lambda names: delete_share.DeleteShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[delete_share.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names],
            ),
            lambda response, *_: results(response.responses, lambda topic: str(topic.topic_name)),
            to_coordinator_of(group_id),
            name=group_id,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, topics, timeout_ms, errors)


def _share_offset(p: describe_share.DescribeShareGroupOffsetsResponsePartition) -> SharePartitionOffsetInfo:
    return SharePartitionOffsetInfo(p.start_offset, p.leader_epoch, None if p.lag < 0 else p.lag)


def _fetch_request(
    group_id: str, partitions: Collection[TopicPartition] | None, require_stable: bool
) -> Callable[[int], fetch.OffsetFetchRequest]:
    numbers = None if partitions is None else numbers_by_topic(partitions)

    def topics(kind: type[Any]) -> list[Any] | None:
        return None if numbers is None else [kind(name=name, partition_indexes=n) for name, n in numbers.items()]

    def make(version: int) -> fetch.OffsetFetchRequest:
        stable = require_stable and version >= 7
        if version >= 8:
            group = fetch.OffsetFetchRequestGroup(group_id=group_id, topics=topics(fetch.OffsetFetchRequestTopics))
            return fetch.OffsetFetchRequest(groups=[group], require_stable=stable)
        return fetch.OffsetFetchRequest(
            group_id=group_id, topics=topics(fetch.OffsetFetchRequestTopic), require_stable=stable
        )

    return make


def _committed(
    group_id: str,
    response: fetch.OffsetFetchResponse,
    partitions: Collection[TopicPartition] | None,
    failed: Errors | None,
) -> Committed:
    result: Any = response.groups[0] if response.groups else response
    check(result.error_code, group_id)
    outcomes = partition_results(
        result.topics, lambda p: OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    )
    _collect(failed, outcomes)
    return {
        tp: entry
        for tp, entry in outcomes.items()
        if not isinstance(entry, KafkaError) and entry.offset >= 0 and (partitions is None or tp in partitions)
    }


def _collect(failed: Errors | None, outcomes: Mapping[TopicPartition, Any]) -> None:
    """Put errors into `failed` until one is retriable, and raise that. If `failed` is None, raise the first error."""
    for tp, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            if failed is None or outcome.retriable:
                raise outcome
            failed[tp] = outcome


def _to_commit(tp: TopicPartition, offset: OffsetAndMetadata) -> commit.OffsetCommitRequestPartition:
    return commit.OffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )
