"""The progress of reassignments to other brokers, and of moves to other log directories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.cli.framework.output import ids
from ottla.cli.reassign_partitions.plan_json import Assignment, Move
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.log_dirs import ReplicaLogDirInfo, TopicPartitionReplica
from ottla.client.admin.topics.partitions import PartitionReassignment
from ottla.client.core.metadata import TopicInfo
from ottla.errors import KafkaError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition

Moving = Mapping[TopicPartition, PartitionReassignment]


class PartitionState(NamedTuple):
    """A partition, its current replicas (empty if it does not exist) and its target replicas."""

    partition: TopicPartition
    replicas: tuple[int, ...]
    target_replicas: tuple[int, ...]
    is_moving: bool

    @property
    def status(self) -> str:
        """The status: "in progress", "completed" or "not reassigned"."""
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
        """Return the state in the form that `--json` prints."""
        replicas = {"replicas": self.replicas, "target_replicas": self.target_replicas}
        return {**self.partition._asdict(), "status": self.status, **replicas}


class ReplicaState(NamedTuple):
    """A replica with its target log directory. `log_dirs` contains its current and future directories; None if its
    broker is not alive.
    """

    replica: TopicPartitionReplica
    target_log_dir: str
    log_dirs: ReplicaLogDirInfo | None

    @property
    def is_moving(self) -> bool:
        """Whether the replica is being moved to another log directory, even if that is not the target."""
        return self.log_dirs is not None and None not in (self.log_dirs.current_log_dir, self.log_dirs.future_log_dir)

    def __str__(self) -> str:
        partition, broker = TopicPartition(*self.replica[:2]), self.replica.broker_id
        if self.log_dirs is None:
            return f"Partition {partition} cannot be found in any live log directory on broker {broker}."
        current, future = self.log_dirs.current_log_dir, self.log_dirs.future_log_dir
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
        """Return the state in the form that `--json` prints. Directories that are unknown or do not exist are None."""
        log_dirs = self.log_dirs or ReplicaLogDirInfo()
        return {
            **self.replica._asdict(),
            "log_dir": log_dirs.current_log_dir,
            "future_log_dir": log_dirs.future_log_dir,
            "target_log_dir": self.target_log_dir,
        }


def partition_states(moves: Iterable[Move], moving: Moving, topics: Mapping[str, TopicInfo]) -> list[PartitionState]:
    """Return the states of the partitions in `moves`, sorted by partition. `moving` contains all active reassignments,
    `topics` the descriptions of the topics that exist.
    """
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
    admin: KafkaAdminClient, targets: Mapping[TopicPartitionReplica, str], brokers: Collection[int]
) -> list[ReplicaState]:
    """Return the states of the replicas in `targets`, sorted by broker. `targets` are the target log directories,
    `brokers` the ids of the brokers that are alive.
    """
    reachable = [replica for replica in targets if replica.broker_id in brokers]
    log_dirs = admin.describe_replica_log_dirs(reachable) if reachable else {}
    ordered = sorted(targets, key=lambda replica: (replica.broker_id, *replica))
    return [ReplicaState(replica, targets[replica], log_dirs.get(replica)) for replica in ordered]


def log_dirs_of(
    admin: KafkaAdminClient, assignment: Assignment, brokers: Collection[int]
) -> dict[TopicPartitionReplica, str]:
    """Return the current log directories of replicas. Replicas whose directory is unknown, for example because their
    broker is not alive, are left out.
    """
    replicas = [TopicPartitionReplica(*tp, broker) for tp, own in assignment.items() for broker in own]
    reachable = [replica for replica in replicas if replica.broker_id in brokers]
    errors: dict[Any, KafkaError] = {}
    log_dirs = admin.describe_replica_log_dirs(reachable, errors=errors) if reachable else {}
    return {replica: info.current_log_dir for replica, info in log_dirs.items() if info.current_log_dir is not None}


def described(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, TopicInfo]:
    """Return the descriptions of those topics in `names` that exist. Raises the first error other than
    UnknownTopicOrPartitionError.
    """
    errors: dict[Any, KafkaError] = {}
    topics = admin.describe_topics(sorted(set(names)), errors=errors)
    for error in errors.values():
        if not isinstance(error, UnknownTopicOrPartitionError):
            raise error
    return topics


def replicas_of(tp: TopicPartition, topics: Mapping[str, TopicInfo]) -> tuple[int, ...] | None:
    """Return the replicas of a partition; None if it does not exist."""
    topic = topics.get(tp.topic)
    partition = next((p for p in topic.partitions if p.partition == tp.partition), None) if topic else None
    return None if partition is None else partition.replicas
