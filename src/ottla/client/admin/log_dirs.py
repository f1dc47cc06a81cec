"""Log directories of brokers, and the replicas in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.admin.driver import (
    AdminCall,
    AdminDriver,
    Errors,
    Shares,
    failure,
    numbers_by_topic,
    to_brokers,
)
from ottla.client.admin.topics.partitions import Partitions, partitions_of
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages import alter_replica_log_dirs as move
from ottla.protocol.messages import describe_log_dirs as dirs


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `size` is in bytes. `is_future`: the replica is being moved to this directory.
    `offset_lag`: number of offsets by which it is behind the high watermark or, if `is_future`, behind the current
    replica.
    """

    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log directory. `error` is set if it has one, for example because it is offline; `total_bytes` and
    `usable_bytes` are None if the broker does not report them. A cordoned directory gets no new replicas (KIP-1066).
    """

    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    is_cordoned: bool = False


class TopicPartitionReplica(NamedTuple):
    """A replica: a partition on a broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaLogDirInfo(NamedTuple):
    """The log directory of a replica, and the one that it is being moved to. The current path is None and its lag -1 if
    the replica has no log; the same applies to the future path if the replica is not being moved.
    """

    current_log_dir: str | None = None
    current_offset_lag: int = -1
    future_log_dir: str | None = None
    future_offset_lag: int = -1


class LogDirsAdmin(AdminDriver):
    """Admin calls for log directories."""

    async def describe_log_dirs(
        self,
        topic_partitions: Partitions | None = None,
        brokers: Iterable[int] | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of `brokers` (None: all), by broker id and path, with the replicas of
        `topic_partitions` (None: all). The keys of `errors` are broker ids.
        """
        topics = None
        if topic_partitions is not None:
            by_name = numbers_by_topic(partitions_of(topic_partitions))
            topics = [dirs.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in by_name.items()]
        call: AdminCall[int, dict[str, LogDirDescription]] = AdminCall(
            lambda _: dirs.DescribeLogDirsRequest(topics=topics),
            lambda response, _, broker: {
                broker: failure(response.error_code, f"broker {broker}")
                or {r.log_dir: _dir(r) for r in response.results}
            },
            to_brokers,
        )
        return await self.call_per_key(call, await self.broker_ids(brokers, timeout_ms), timeout_ms, errors)

    async def describe_replica_log_dirs(
        self,
        replicas: Iterable[TopicPartitionReplica],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Return the log directories of replicas. The keys of `errors` are broker ids."""
        targets = [TopicPartitionReplica(*replica) for replica in replicas]
        partitions = {TopicPartition(r.topic, r.partition) for r in targets}
        log_dirs = await self.describe_log_dirs(partitions, {r.broker_id for r in targets}, timeout_ms, errors=errors)
        return {r: _log_dirs_of(r, log_dirs[r.broker_id]) for r in targets if r.broker_id in log_dirs}

    async def alter_replica_log_dirs(
        self,
        replica_assignments: Mapping[TopicPartitionReplica, str],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Start to move replicas to other log directories of their brokers. The values are absolute paths."""
        paths = {TopicPartitionReplica(*replica): path for replica, path in replica_assignments.items()}
        call: AdminCall[TopicPartitionReplica, None] = AdminCall(
            lambda replicas: _move({r: paths[r] for r in replicas}),
            lambda response, _, broker: {
                replica: failure(p.error_code, replica)
                for topic in response.results
                for p in topic.partitions
                for replica in (TopicPartitionReplica(topic.topic_name, p.partition_index, broker),)
            },
            to_brokers_of_replicas,
        )
        await self.call_per_key(call, paths, timeout_ms, errors)


async def to_brokers_of_replicas(_: AdminDriver, replicas: list[TopicPartitionReplica]) -> Shares:
    """Route replicas to their brokers."""
    by_broker: dict[int | None, list[TopicPartitionReplica]] = {}
    for replica in replicas:
        by_broker.setdefault(replica.broker_id, []).append(replica)
    return by_broker, {}


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


def _log_dirs_of(replica: TopicPartitionReplica, log_dirs: Mapping[str, LogDirDescription]) -> ReplicaLogDirInfo:
    result = ReplicaLogDirInfo()
    for path, log_dir in log_dirs.items():
        info = log_dir.replicas.get(TopicPartition(replica.topic, replica.partition))
        if info is not None and info.is_future:
            result = result._replace(future_log_dir=path, future_offset_lag=info.offset_lag)
        elif info is not None:
            result = result._replace(current_log_dir=path, current_offset_lag=info.offset_lag)
    return result


def _move(paths: Mapping[TopicPartitionReplica, str]) -> move.AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for replica, path in paths.items():
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
