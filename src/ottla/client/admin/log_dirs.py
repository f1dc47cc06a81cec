"""Data directories of brokers, and the replicas in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, failure
from ottla.client.admin.partitions import Partitions, numbers_by_topic, partitions_of
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import alter_replica_log_dirs as move
from ottla.protocol.messages import describe_log_dirs as dirs


class ReplicaInfo(NamedTuple):
    """A replica in a directory: its bytes, and how far one that is moved there is behind."""

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A data directory; `error` where it is out of order, bytes None where the broker does not tell."""

    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    """One replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaLogDirInfo(NamedTuple):
    """Where a replica lies, and where it is being moved to; None where that is nowhere."""

    current_log_dir: str | None = None
    current_offset_lag: int = -1
    future_log_dir: str | None = None
    future_offset_lag: int = -1


class LogDirsAdmin(AdminCalls):
    """Calls about data directories."""

    async def describe_log_dirs(
        self,
        topic_partitions: Partitions | None = None,
        brokers: Iterable[int] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """The data directories of brokers (of all of them with None) and the replicas (of these partitions) in them."""
        topics = None
        if topic_partitions is not None:
            by_topic = numbers_by_topic(partitions_of(topic_partitions))
            topics = [dirs.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_topic.items()]

        async def attempt(left: list[int]) -> dict[int, dict[str, LogDirDescription] | KafkaError]:
            answers = await self.ask_each(dict.fromkeys(left, dirs.DescribeLogDirsRequest(topics=topics)))
            return {node: _dirs_of(node, answer) for node, answer in answers.items()}

        async def every() -> list[int]:
            return list(await self.nodes())

        wanted = list(brokers) if brokers is not None else await self.retried(every, timeout_ms)
        return await self.settled(wanted, attempt, timeout_ms, errors)

    async def describe_replica_log_dirs(
        self,
        replicas: Iterable[TopicPartitionReplica],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Where replicas lie in their brokers. Errors are by broker."""
        wanted = [TopicPartitionReplica(*replica) for replica in replicas]
        partitions = {TopicPartition(r.topic, r.partition) for r in wanted}
        found = await self.describe_log_dirs(partitions, {r.broker_id for r in wanted}, timeout_ms, errors=errors)
        return {r: _place(r, found[r.broker_id]) for r in wanted if r.broker_id in found}

    async def alter_replica_log_dirs(
        self,
        replica_assignments: Mapping[TopicPartitionReplica, str],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Move replicas to other data directories of their brokers, given as absolute paths."""
        wanted = {TopicPartitionReplica(*replica): path for replica, path in replica_assignments.items()}

        async def attempt(left: list[TopicPartitionReplica]) -> dict[TopicPartitionReplica, KafkaError | None]:
            by_node: dict[int, list[TopicPartitionReplica]] = {}
            for replica in left:
                by_node.setdefault(replica.broker_id, []).append(replica)
            return await self.ask_for((by_node, {}), lambda some: _move({r: wanted[r] for r in some}), _moved)

        await self.settled(wanted, attempt, timeout_ms, errors)


def _moved(node: int, answer: move.AlterReplicaLogDirsResponse) -> dict[TopicPartitionReplica, KafkaError | None]:
    replicas = (
        (TopicPartitionReplica(topic.topic_name, p.partition_index, node), p.error_code)
        for topic in answer.results
        for p in topic.partitions
    )
    return {replica: failure(code, replica) for replica, code in replicas}


def _dirs_of(node: int, answer: dirs.DescribeLogDirsResponse | KafkaError) -> dict[str, LogDirDescription] | KafkaError:
    if isinstance(answer, KafkaError):
        return answer
    return failure(answer.error_code, f"broker {node}") or {r.log_dir: _dir(r) for r in answer.results}


def _dir(result: dirs.DescribeLogDirsResult) -> LogDirDescription:
    replicas = {
        TopicPartition(topic.name, p.partition_index): ReplicaInfo(p.partition_size, p.offset_lag, p.is_future_key)
        for topic in result.topics
        for p in topic.partitions
    }
    return LogDirDescription(
        failure(result.error_code, result.log_dir),
        replicas,
        None if result.total_bytes < 0 else result.total_bytes,
        None if result.usable_bytes < 0 else result.usable_bytes,
        result.is_cordoned,
    )


def _place(replica: TopicPartitionReplica, found: Mapping[str, LogDirDescription]) -> ReplicaLogDirInfo:
    place = ReplicaLogDirInfo()
    for path, described in found.items():
        info = described.replicas.get(TopicPartition(replica.topic, replica.partition))
        if info is not None and info.is_future:
            place = place._replace(future_log_dir=path, future_offset_lag=info.offset_lag)
        elif info is not None:
            place = place._replace(current_log_dir=path, current_offset_lag=info.offset_lag)
    return place


def _move(wanted: Mapping[TopicPartitionReplica, str]) -> move.AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in wanted.items():
        by_path.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return move.AlterReplicaLogDirsRequest(
        dirs=[
            move.AlterReplicaLogDir(
                path=path,
                topics=[
                    move.AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in numbers_by_topic(partitions).items()
                ],
            )
            for path, partitions in by_path.items()
        ]
    )
