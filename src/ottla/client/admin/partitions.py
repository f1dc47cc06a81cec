"""Leaders elected anew, and partitions moved to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.errors import ElectionNotNeededError, KafkaError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.protocol.messages import alter_partition_reassignments as alter
from ottla.protocol.messages import elect_leaders as elect
from ottla.protocol.messages import list_partition_reassignments as ongoing


class ElectionType(IntEnum):
    """Which replica becomes the leader."""

    PREFERRED = 0
    UNCLEAN = 1
    """One that is not in sync, where none is: records may be lost."""


class PartitionReassignment(NamedTuple):
    """A partition on its way: all replicas there are, those that come and those that go."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class NewPartitionReassignment(NamedTuple):
    """Where a partition shall be; Java's name for a list of brokers, the preferred leader first."""

    target_replicas: Sequence[int]


Partitions = Iterable[TopicPartition] | Mapping[str, Sequence[int]]
"""Partitions, or their numbers by topic."""


class PartitionsAdmin(AdminCalls):
    """Calls about leaders and replicas."""

    async def elect_leaders(
        self,
        election_type: ElectionType | int,
        topic_partitions: Partitions | None = None,
        timeout_ms: float | None = None,
        *,
        raise_errors: bool = True,
        errors: Errors | None = None,
    ) -> set[TopicPartition]:
        """Elect leaders of partitions (None: of all); the partitions that have a new one.

        Where the right one leads already nothing is changed, and that is no error.
        """
        wanted = None if topic_partitions is None else partitions_of(topic_partitions)

        async def ask(partitions: list[TopicPartition] | None) -> dict[TopicPartition, bool | KafkaError]:
            topics = None
            if partitions is not None:
                topics = [elect.TopicPartitions(topic=t, partitions=n) for t, n in numbers_by_topic(partitions).items()]
            request = elect.ElectLeadersRequest(
                election_type=int(election_type), topic_partitions=topics, timeout_ms=self.limit_ms(timeout_ms)
            )
            response = await self.ask_controller(request)
            check(response.error_code, "leader election")
            return _elected(response)

        collected = {} if errors is None and not raise_errors else errors
        if wanted is None:
            every = await self.retried(lambda: ask(None), timeout_ms)

            async def known(left: list[TopicPartition]) -> dict[TopicPartition, bool | KafkaError]:
                return {tp: every[tp] for tp in left}

            found = await self.settled(every, known, timeout_ms, collected, KafkaError)
        else:
            found = await self.settled(wanted, ask, timeout_ms, collected, UnknownTopicOrPartitionError)
        return {tp for tp, is_new in found.items() if is_new}

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | Sequence[int] | None],
        timeout_ms: float | None = None,
        allow_replication_factor_change: bool = True,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Move partitions to other brokers (the preferred leader first); None calls off a move that is going on.

        Returns when the moves have begun. Raises NoReassignmentInProgressError where there is nothing to call off.
        """
        wanted = {TopicPartition(*tp): _target(target) for tp, target in reassignments.items()}

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            topics: dict[str, list[Any]] = {}
            for tp in left:
                one = alter.ReassignablePartition(partition_index=tp.partition, replicas=wanted[tp])
                topics.setdefault(tp.topic, []).append(one)
            request = alter.AlterPartitionReassignmentsRequest(
                timeout_ms=self.limit_ms(timeout_ms),
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[alter.ReassignableTopic(name=name, partitions=parts) for name, parts in topics.items()],
            )
            response = await self.ask_controller(request)
            check(response.error_code, "reassignments", response.error_message)
            return {
                TopicPartition(t.name, p.partition_index): failure(
                    p.error_code, f"{t.name}-{p.partition_index}", p.error_message
                )
                for t in response.responses
                for p in t.partitions
            }

        await self.settled(wanted, attempt, timeout_ms, errors, UnknownTopicOrPartitionError)

    async def list_partition_reassignments(
        self, topic_partitions: Partitions | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The partitions (among these; of all with None) that are on their way to other brokers."""
        topics = None
        if topic_partitions is not None:
            topics = [
                ongoing.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in numbers_by_topic(partitions_of(topic_partitions)).items()
            ]

        async def attempt() -> dict[TopicPartition, PartitionReassignment]:
            request = ongoing.ListPartitionReassignmentsRequest(timeout_ms=self.limit_ms(timeout_ms), topics=topics)
            response = await self.ask_controller(request)
            check(response.error_code, "reassignments", response.error_message)
            return {
                TopicPartition(t.name, p.partition_index): PartitionReassignment(
                    tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
                )
                for t in response.topics
                for p in t.partitions
            }

        return await self.retried(attempt, timeout_ms)


def partitions_of(given: Partitions) -> list[TopicPartition]:
    """Partitions, of whatever shape."""
    if isinstance(given, Mapping):
        return [TopicPartition(topic, number) for topic, numbers in given.items() for number in numbers]
    return [TopicPartition(*tp) for tp in given]


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions' numbers by topic."""
    found: dict[str, list[int]] = {}
    for tp in partitions:
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


def _target(target: NewPartitionReassignment | Sequence[int] | None) -> list[int] | None:
    if isinstance(target, NewPartitionReassignment):
        return list(target.target_replicas)
    return None if target is None else list(target)


def _elected(response: elect.ElectLeadersResponse) -> dict[TopicPartition, bool | KafkaError]:
    found: dict[TopicPartition, bool | KafkaError] = {}
    for topic in response.replica_election_results:
        for p in topic.partition_result:
            tp = TopicPartition(topic.topic, p.partition_id)
            if p.error_code == ElectionNotNeededError.code:
                found[tp] = False
            else:
                found[tp] = failure(p.error_code, tp, p.error_message) or True
    return found
