"""Offsets that groups have committed, and where share groups are: told, set, forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ottla.client.admin.driver import Errors, check, failure
from ottla.client.admin.offsets import OffsetsAdmin, OffsetSpec
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


class GroupOffsetsAdmin(OffsetsAdmin):
    """Calls about offsets of groups."""

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        require_stable: bool = False,
        *,
        errors: Errors | None = None,
    ) -> Committed:
        """The offsets that a group has committed (of `partitions` only, when given).

        With `require_stable` those that an open transaction may change are waited for. `errors` are by partition.
        """
        wanted = None if partitions is None else {TopicPartition(*tp) for tp in partitions}

        async def attempt() -> Committed:
            node = await self._coordinator_of(group_id)
            request = _fetch_request(group_id, wanted, require_stable)
            response: Any = await self.connections.ask(
                node, request, of=fetch.OffsetFetchRequest, at_most=NEWEST_OFFSET_FETCH
            )
            answer = response.groups[0] if response.groups else response
            check(answer.error_code, group_id)
            return _committed(answer, wanted, errors)

        return await self.retried(attempt, timeout_ms)

    async def list_group_offsets(
        self,
        group_specs: Mapping[str, Collection[TopicPartition] | None] | Iterable[str] | str,
        timeout_ms: float | None = None,
        require_stable: bool = False,
        *,
        errors: Errors | None = None,
    ) -> dict[str, Committed]:
        """The committed offsets of several groups: by id, the partitions wanted (None: all); or ids (or one) only."""
        names = [group_specs] if isinstance(group_specs, str) else group_specs
        specs = names if isinstance(names, Mapping) else dict.fromkeys(names)

        async def attempt(left: list[str]) -> dict[str, Committed | KafkaError]:
            found: dict[str, Committed | KafkaError] = {}
            for group in left:
                try:
                    found[group] = await self.list_consumer_group_offsets(
                        group, specs[group], timeout_ms, require_stable
                    )
                except KafkaError as error:
                    found[group] = error
            return found

        return await self.settled(specs, attempt, timeout_ms, errors)

    async def alter_consumer_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set committed offsets of a group that has no members. Raises UnknownMemberIdError while it has some."""
        wanted = {
            TopicPartition(*tp): OffsetAndMetadata(offset) if isinstance(offset, int) else offset
            for tp, offset in offsets.items()
        }

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            node = await self._coordinator_of(group_id)
            topics = _by_topic({tp: _commit(tp, wanted[tp]) for tp in left})
            parts = [commit.OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()]
            request = commit.OffsetCommitRequest(group_id=group_id, topics=parts)
            response = await self.connections.ask(node, request, at_most=NEWEST_COMMIT)
            return _outcomes(response.topics)

        await self.settled(wanted, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """kafka-python's name for alter_consumer_group_offsets. The coordinator is looked up, whichever is given."""
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
        """Set committed offsets to moments of the log (where no record is that late: to its end); what they are now."""
        found = await self.list_offsets(offset_specs, timeout_ms, errors=errors)
        late = {tp: OffsetSpec.latest() for tp, place in found.items() if place.offset < 0}
        found |= await self.list_offsets(late, timeout_ms, errors=errors)
        new = {tp: place.offset for tp, place in found.items()}
        await self.alter_consumer_group_offsets(group_id, new, timeout_ms, errors=errors)
        return {tp: offset for tp, offset in new.items() if errors is None or tp not in errors}

    async def delete_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Forget committed offsets of partitions that no member reads. Raises GroupSubscribedToTopicError otherwise."""

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            node = await self._coordinator_of(group_id)
            topics = _by_topic({tp: delete.OffsetDeleteRequestPartition(partition_index=tp.partition) for tp in left})
            parts = [delete.OffsetDeleteRequestTopic(name=name, partitions=some) for name, some in topics.items()]
            response = await self.connections.ask(node, delete.OffsetDeleteRequest(group_id=group_id, topics=parts))
            check(response.error_code, group_id)
            return _outcomes(response.topics)

        await self.settled(
            [TopicPartition(*tp) for tp in partitions],
            attempt,
            timeout_ms,
            errors,
            doubted=UnknownTopicOrPartitionError,
        )

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        timeout_ms: float | None = None,
        *,
        group_coordinator_id: int | None = None,
        errors: Errors | None = None,
    ) -> None:
        """kafka-python's name for delete_consumer_group_offsets. The coordinator is looked up, whichever is given."""
        await self.delete_consumer_group_offsets(group_id, partitions, timeout_ms, errors=errors)

    async def _coordinator_of(self, group_id: str) -> int:
        by_node, missing = await self.by_coordinator([group_id])
        for error in missing.values():
            raise error
        return next(iter(by_node))

    # Share groups

    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, int]:
        """Where a share group is in partitions (in all of its own with None): the first offset not yet done with."""
        topics = None
        if partitions is not None:
            topics = [
                describe_share.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in _by_topic({tp: tp[1] for tp in partitions}).items()
            ]
        group = describe_share.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)

        async def attempt() -> dict[TopicPartition, int]:
            node = await self._coordinator_of(group_id)
            request = describe_share.DescribeShareGroupOffsetsRequest(groups=[group])
            (answer,) = (await self.connections.ask(node, request)).groups
            check(answer.error_code, group_id, answer.error_message)
            found: dict[TopicPartition, int] = {}
            for topic in answer.topics:
                for p in topic.partitions:
                    tp = TopicPartition(topic.topic_name, p.partition_index)
                    error = failure(p.error_code, tp, p.error_message)
                    if error is None and p.start_offset >= 0:
                        found[tp] = p.start_offset
                    elif error is not None:
                        _collect(errors, tp, error)
            return found

        return await self.retried(attempt, timeout_ms)

    async def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set where a share group without members begins. Raises NonEmptyGroupError while it has some."""
        wanted = {TopicPartition(*tp): offset for tp, offset in offsets.items()}

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            node = await self._coordinator_of(group_id)
            topics = _by_topic(
                {
                    tp: alter_share.AlterShareGroupOffsetsRequestPartition(
                        partition_index=tp.partition, start_offset=wanted[tp]
                    )
                    for tp in left
                }
            )
            parts = [
                alter_share.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=some)
                for name, some in topics.items()
            ]
            request = alter_share.AlterShareGroupOffsetsRequest(group_id=group_id, topics=parts)
            response = await self.connections.ask(node, request)
            check(response.error_code, group_id, response.error_message)
            return {
                TopicPartition(t.topic_name, p.partition_index): failure(
                    p.error_code, f"{t.topic_name}-{p.partition_index}", p.error_message
                )
                for t in response.responses
                for p in t.partitions
            }

        await self.settled(wanted, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> None:
        """Forget how far a share group without members is in topics."""

        async def attempt(left: list[str]) -> dict[str, KafkaError | None]:
            node = await self._coordinator_of(group_id)
            names = [delete_share.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in left]
            request = delete_share.DeleteShareGroupOffsetsRequest(group_id=group_id, topics=names)
            response = await self.connections.ask(node, request)
            check(response.error_code, group_id, response.error_message)
            return {t.topic_name: failure(t.error_code, t.topic_name, t.error_message) for t in response.responses}

        await self.settled(topics, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)


def _fetch_request(group_id: str, wanted: Collection[TopicPartition] | None, require_stable: bool) -> Any:
    def make(version: int) -> fetch.OffsetFetchRequest:
        stable = require_stable and version >= 7
        numbers = None if wanted is None else _by_topic({tp: tp.partition for tp in wanted})
        if version >= 8:
            topics = None
            if numbers is not None:
                topics = [
                    fetch.OffsetFetchRequestTopics(name=name, partition_indexes=some) for name, some in numbers.items()
                ]
            group = fetch.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
            return fetch.OffsetFetchRequest(groups=[group], require_stable=stable)
        old = None
        if numbers is not None:
            old = [fetch.OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in numbers.items()]
        return fetch.OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)

    return make


def _committed(answer: Any, wanted: Collection[TopicPartition] | None, failed: Errors | None) -> Committed:
    found: Committed = {}
    for topic in answer.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            error = failure(p.error_code, tp)
            if error is not None:
                _collect(failed, tp, error)
            elif p.committed_offset >= 0 and (wanted is None or tp in wanted):
                found[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    return found


def _collect(failed: Errors | None, key: object, error: KafkaError) -> None:
    """Keep an error where the caller wants it; raise it otherwise, or when it may pass."""
    if failed is None or error.retriable:
        raise error
    failed[key] = error


def _commit(tp: TopicPartition, offset: OffsetAndMetadata) -> commit.OffsetCommitRequestPartition:
    return commit.OffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _outcomes(topics: Iterable[Any]) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.name, p.partition_index): failure(p.error_code, f"{topic.name}-{p.partition_index}")
        for topic in topics
        for p in topic.partitions
    }


def _by_topic(wanted: Mapping[TopicPartition, Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for tp, one in wanted.items():
        found.setdefault(tp[0], []).append(one)
    return found
