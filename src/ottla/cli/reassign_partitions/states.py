"""How far reassignments are, of partitions to other brokers and of replicas to other data directories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.cli.framework.broker_ids import ids
from ottla.cli.reassign_partitions.plan_json import Assignment, Move
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import ReplicaLogDirInfo, TopicPartitionReplica
from ottla.client.admin.partitions import PartitionReassignment
from ottla.client.core.metadata import TopicInfo
from ottla.errors import KafkaError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition

Moving = Mapping[TopicPartition, PartitionReassignment]


class PartitionState(NamedTuple):
    """A partition: where it is (nowhere where there is no such), and where it shall be."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target_replicas: tuple[int, ...]
    is_moving: bool

    @property
    def status(self) -> str:
        """`in progress`, `completed` or `not reassigned`."""
        if self.is_moving:
            return "in progress"
        return "completed" if self.replicas == self.target_replicas else "not reassigned"

    def __str__(self) -> str:
        if self.status == "not reassigned":
            return (
                f"There is no active reassignment of partition {self.partition}, but replica set is "
                f"{ids(self.replicas)} rather than {ids(self.target_replicas)}."
            )
        done = "completed" if self.status == "completed" else "still in progress"
        return f"Reassignment of partition {self.partition} is {done}."

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        places = {"replicas": self.replicas, "target_replicas": self.target_replicas}
        return {**self.partition._asdict(), "status": self.status, **places}


class ReplicaState(NamedTuple):
    """A replica: the data directory where it lies, where it is being moved to, and where it shall be.

    `place` is None where its broker is not there.
    """

    replica: TopicPartitionReplica
    target_log_dir: str
    place: ReplicaLogDirInfo | None

    @property
    def is_moving(self) -> bool:
        """Whether it is on its way, to whatever directory."""
        return self.place is not None and None not in (self.place.current_log_dir, self.place.future_log_dir)

    def __str__(self) -> str:
        partition, broker = TopicPartition(*self.replica[:2]), self.replica.broker_id
        if self.place is None:
            return f"Partition {partition} cannot be found in any live log directory on broker {broker}."
        current, future = self.place.current_log_dir, self.place.future_log_dir
        if current is None:
            return (
                f"Partition {partition} is not found in any live log dir on broker {broker}. "
                "There is likely an offline log directory on the broker."
            )
        if future is None and current == self.target_log_dir:
            return f"Reassignment of replica {partition}-{broker} completed successfully."
        if future is None:
            return (
                f"Partition {partition} on broker {broker} is not being moved from log dir {current} "
                f"to {self.target_log_dir}."
            )
        if future == self.target_log_dir:
            return f"Reassignment of replica {partition}-{broker} is still in progress."
        return (
            f"Partition {partition} on broker {broker} is being moved to log dir {future} "
            f"instead of {self.target_log_dir}."
        )

    def as_json(self) -> dict[str, Any]:
        """For programs; directories are null where the replica lies, or goes, nowhere."""
        place = self.place or ReplicaLogDirInfo()
        return {
            **self.replica._asdict(),
            "log_dir": place.current_log_dir,
            "future_log_dir": place.future_log_dir,
            "target_log_dir": self.target_log_dir,
        }


def partition_states(moves: Iterable[Move], moving: Moving, topics: Mapping[str, TopicInfo]) -> list[PartitionState]:
    """The states of partitions, in their order; `moving` are all that are on their way."""
    return [
        PartitionState(
            move.partition,
            moving[move.partition].replicas if move.partition in moving else replicas_of(move.partition, topics) or (),
            move.replicas,
            move.partition in moving,
        )
        for move in sorted(moves)
    ]


def replica_states(
    admin: KafkaAdminClient, wanted: Mapping[TopicPartitionReplica, str], brokers: Collection[int]
) -> list[ReplicaState]:
    """The states of replicas that shall lie in certain data directories, in the order of their brokers."""
    there = [replica for replica in wanted if replica.broker_id in brokers]
    found = admin.describe_replica_log_dirs(there) if there else {}
    ordered = sorted(wanted, key=lambda replica: (replica.broker_id, *replica))
    return [ReplicaState(replica, wanted[replica], found.get(replica)) for replica in ordered]


def log_dirs_of(
    admin: KafkaAdminClient, assignment: Assignment, brokers: Collection[int]
) -> dict[TopicPartitionReplica, str]:
    """Where replicas lie, without those of brokers that are not there, or do not tell this client."""
    replicas = [TopicPartitionReplica(*tp, broker) for tp, own in assignment.items() for broker in own]
    there = [replica for replica in replicas if replica.broker_id in brokers]
    errors: dict[Any, KafkaError] = {}
    found = admin.describe_replica_log_dirs(there, errors=errors) if there else {}
    return {replica: place.current_log_dir for replica, place in found.items() if place.current_log_dir is not None}


def described(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Topics by name, without those that do not exist; raises what else is wrong."""
    errors: dict[Any, KafkaError] = {}
    found = admin.describe_topics(sorted(set(names)), errors=errors)
    for error in errors.values():
        if not isinstance(error, UnknownTopicOrPartitionError):
            raise error
    return found


def replicas_of(tp: TopicPartition, topics: Mapping[str, TopicInfo]) -> tuple[int, ...] | None:
    """The brokers of a partition; None where there is no such partition."""
    topic = topics.get(tp.topic)
    found = next((p for p in topic.partitions if p.partition == tp.partition), None) if topic else None
    return None if found is None else found.replicas
