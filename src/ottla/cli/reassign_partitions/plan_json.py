"""The JSON files of kafka-reassign-partitions.sh. Errors about values in a file contain their position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.framework.json_file import VERSION, JsonValue, duplicates_in, read_list
from ottla.cli.framework.options import broker_ids
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

ANY_LOG_DIR: Final = "any"
PARTITIONS_FORM: Final = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
TOPICS_FORM: Final = '{"version":1,"topics":[{"topic":"t"}]}'

Assignment = Mapping[TopicPartition, Sequence[int]]
"""The broker ids of each partition's replicas, the preferred leader first."""
LogDirs = Mapping[TopicPartitionReplica, str]
"""The path of the log directory of each replica."""
NO_LOG_DIRS: Final[LogDirs] = {}


class Move(NamedTuple):
    """The target of a partition: broker ids and log directories of its replicas. The log directory `any` leaves the
    choice to the broker.

    `place` is the position in the file, for error messages.
    """

    partition: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]
    place: str


class TopicToMove(NamedTuple):
    """A topic in the file, and its position there."""

    name: str
    place: str


def read_moves(file: str) -> list[Move]:
    """Read the partitions in a --reassignment-json-file, in the order of the file.

    Raises ConfigurationError if the file cannot be read, is malformed, has a version other than 1, contains no
    partitions, or contains a partition, or a broker of a partition, twice.
    """
    moves = [_move(item) for item in read_list(file, "partitions", PARTITIONS_FORM).items()]
    if not moves:
        raise ConfigurationError(f"{file}: Partition reassignment list cannot be empty")
    duplicates = duplicates_in(move.partition for move in moves)
    if duplicates:
        place = next(move.place for move in reversed(moves) if move.partition == duplicates[0])
        names = ",".join(map(str, duplicates))
        raise ConfigurationError(f"{place}: Partition reassignment contains duplicate topic partitions: {names}")
    return moves


def read_topics(file: str) -> list[TopicToMove]:
    """Read the topics in a --topics-to-move-json-file, in the order of the file. Raises ConfigurationError if the file
    cannot be read, is malformed, has a version other than 1, contains no topics, or contains a topic twice.
    """
    fields = [item.field("topic") for item in read_list(file, "topics", TOPICS_FORM).items()]
    topics = [TopicToMove(field.text(), str(field)) for field in fields]
    if not topics:
        raise ConfigurationError(f"{file}: the list of topics is empty: expected {TOPICS_FORM}")
    duplicates = duplicates_in(topic.name for topic in topics)
    if duplicates:
        place = next(topic.place for topic in reversed(topics) if topic.name == duplicates[0])
        names = ", ".join(duplicates)
        raise ConfigurationError(f"{place}: List of topics to reassign contains duplicate entries: [{names}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """Parse the value of --broker-list. Raises ConfigurationError for invalid or duplicate broker ids."""
    brokers = broker_ids(text.split(","))
    duplicates = duplicates_in(brokers)
    if duplicates:
        raise ConfigurationError(f"--broker-list: Broker list contains duplicate entries: {duplicates}")
    return brokers


def as_json(assignment: Assignment, log_dirs: LogDirs = NO_LOG_DIRS) -> dict[str, Any]:
    """Return an assignment in the format of --reassignment-json-file, sorted by partition. Replicas without a log
    directory in `log_dirs` have `any`.
    """
    partitions = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(brokers),
            "log_dirs": [log_dirs.get(TopicPartitionReplica(*tp, broker), ANY_LOG_DIR) for broker in brokers],
        }
        for tp, brokers in sorted(assignment.items())
    ]
    return {"version": VERSION, "partitions": partitions}


def target_log_dirs(moves: Iterable[Move]) -> dict[TopicPartitionReplica, str]:
    """Return the target log directory of each replica for which the file contains one other than `any`."""
    return {
        TopicPartitionReplica(*move.partition, broker): path
        for move in moves
        for broker, path in zip(move.replicas, move.log_dirs, strict=True)
        if path != ANY_LOG_DIR
    }


def _move(item: JsonValue) -> Move:
    tp = item.topic_partition()
    brokers = item.field("replicas")
    replicas = tuple(broker.number() for broker in brokers.items())
    if not replicas:
        brokers.reject("Partition replica list cannot be empty")
    duplicates = ",".join(map(str, duplicates_in(replicas)))
    if duplicates:
        reason = f"{tp} contains multiple entries for {duplicates}"
        brokers.reject(f"Partition replica lists may not contain duplicate entries: {reason}")
    paths = item.optional("log_dirs")
    log_dirs = (ANY_LOG_DIR,) * len(replicas) if paths is None else tuple(path.text() for path in paths.items())
    if paths is not None and len(log_dirs) != len(replicas):
        paths.reject(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list {list(log_dirs)} "
            f"for partition {tp}"
        )
    return Move(tp, replicas, log_dirs, str(item))
