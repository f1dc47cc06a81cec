"""Leader election, and reassignment of partitions to other brokers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.admin.driver import (
    AdminCall,
    AdminDriver,
    Errors,
    by_topic,
    failure,
    numbers_by_topic,
    partition_results,
    successes,
    to_controller,
)
from ottla.errors import ElectionNotNeededError, KafkaError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.protocol.messages import alter_partition_reassignments as alter
from ottla.protocol.messages import elect_leaders as elect
from ottla.protocol.messages import list_partition_reassignments as ongoing


class ElectionType(IntEnum):
    """The type of a leader election."""

    PREFERRED = 0
    UNCLEAN = 1
    """Elect a replica that is not in sync if no replica is in sync. Records may be lost."""


class PartitionReassignment(NamedTuple):
    """An active reassignment: all current replicas, those being added and those being removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class NewPartitionReassignment(NamedTuple):
    """The target replicas of a partition, as broker ids with the preferred leader first. The name is Java's; a plain
    list of ids can be passed instead.
    """

    target_replicas: Sequence[int]


Partitions = Iterable[TopicPartition] | Mapping[str, Sequence[int]]
"""Partitions, or lists of partition numbers by topic."""


class PartitionsAdmin(AdminDriver):
    """Admin calls for leaders and replicas."""

    async def elect_leaders(
        self,
        election_type: ElectionType | int,
        topic_partitions: Partitions | None = None,
        timeout_ms: float | None = None,
        *,
        raise_errors: bool = True,
        errors: Errors | None = None,
    ) -> set[TopicPartition]:
        """Elect leaders of partitions (None: all), and return the partitions that have a new leader.

        It is not an error if a partition already has the right leader. With `raise_errors=False`, the errors of
        partitions are not raised.
        """

        def request(partitions: list[TopicPartition] | None) -> elect.ElectLeadersRequest:
            topics = None
            if partitions is not None:
                topics = [elect.TopicPartitions(topic=t, partitions=n) for t, n in numbers_by_topic(partitions).items()]
            return elect.ElectLeadersRequest(
                election_type=int(election_type), topic_partitions=topics, timeout_ms=self.milliseconds(timeout_ms)
            )

        collected = {} if errors is None and not raise_errors else errors
        call: AdminCall[TopicPartition, bool] = AdminCall(
            request,
            lambda response, *_: _elected(response),
            to_controller,
            name="leader election",
            final=(UnknownTopicOrPartitionError,),
        )
        if topic_partitions is None:
            every = await self.call(request(None), _elected, timeout_ms, "leader election", to_controller)
            outcomes = successes(every, collected)
        else:
            outcomes = await self.call_per_key(call, partitions_of(topic_partitions), timeout_ms, collected)
        return {tp for tp, is_new in outcomes.items() if is_new}

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, NewPartitionReassignment | Sequence[int] | None],
        timeout_ms: float | None = None,
        allow_replication_factor_change: bool = True,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Reassign partitions to brokers. The value of each partition is the list of its new replicas' broker ids, with
        the preferred leader first; None cancels an active reassignment.

        Returns when the reassignments have started. Raises NoReassignmentInProgressError if there is none to cancel.
        """
        targets = {TopicPartition(*tp): _target(target) for tp, target in reassignments.items()}

        def request(remaining: list[TopicPartition]) -> alter.AlterPartitionReassignmentsRequest:
            partitions = {
                tp: alter.ReassignablePartition(partition_index=tp.partition, replicas=targets[tp]) for tp in remaining
            }
            return alter.AlterPartitionReassignmentsRequest(
                timeout_ms=self.milliseconds(timeout_ms),
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    alter.ReassignableTopic(name=name, partitions=parts) for name, parts in by_topic(partitions).items()
                ],
            )

        call: AdminCall[TopicPartition, None] = AdminCall(
            request,
            lambda response, *_: partition_results(response.responses),
            to_controller,
            name="reassignments",
            final=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, targets, timeout_ms, errors)

    async def list_partition_reassignments(
        self, topic_partitions: Partitions | None = None, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the active reassignments of `topic_partitions` (None: of all partitions)."""
        topics = None
        if topic_partitions is not None:
            topics = [
                ongoing.ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in numbers_by_topic(partitions_of(topic_partitions)).items()
            ]
        return await self.call(
            ongoing.ListPartitionReassignmentsRequest(timeout_ms=self.milliseconds(timeout_ms), topics=topics),
            lambda response: {
                TopicPartition(t.name, p.partition_index): PartitionReassignment(
                    tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
                )
                for t in response.topics
                for p in t.partitions
            },
            timeout_ms,
            "reassignments",
            to_controller,
        )


def partitions_of(partitions: Partitions) -> list[TopicPartition]:
    """Return the partitions as a list, for either form of `Partitions`."""
    if isinstance(partitions, Mapping):
        return [TopicPartition(topic, number) for topic, numbers in partitions.items() for number in numbers]
    return [TopicPartition(*tp) for tp in partitions]


def _target(target: NewPartitionReassignment | Sequence[int] | None) -> list[int] | None:
    if isinstance(target, NewPartitionReassignment):
        return list(target.target_replicas)
    return None if target is None else list(target)


def _elected(response: elect.ElectLeadersResponse) -> dict[TopicPartition, bool | KafkaError]:
    """Return, for each partition, whether its leader is new, or the error."""
    outcomes: dict[TopicPartition, bool | KafkaError] = {}
    for topic in response.replica_election_results:
        for p in topic.partition_result:
            tp = TopicPartition(topic.topic, p.partition_id)
            not_needed = p.error_code == ElectionNotNeededError.code
            outcomes[tp] = False if not_needed else failure(p.error_code, tp, p.error_message) or True
    return outcomes
