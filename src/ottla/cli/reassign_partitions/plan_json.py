"""The JSON files of kafka-reassign-partitions.sh, read with their faults named by place, and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.framework.broker_ids import broker_ids
from ottla.cli.framework.json_file import VERSION, Place, read_list, twice_in
from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

ANY_LOG_DIR: Final = "any"
PARTITIONS_FORM: Final = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
TOPICS_FORM: Final = '{"version":1,"topics":[{"topic":"t"}]}'

Assignment = Mapping[TopicPartition, Sequence[int]]
"""Brokers by partition, the preferred leader first."""
LogDirs = Mapping[TopicPartitionReplica, str]
"""Data directories by replica, as far as they are known or wanted."""
NO_LOG_DIRS: Final[LogDirs] = {}


class Move(NamedTuple):
    """Where a partition shall be: its brokers, their data directories (`any` where that is left to them).

    `place` is where the file says so.
    """

    partition: TopicPartition
    replicas: tuple[int, ...]
    log_dirs: tuple[str, ...]
    place: str


class WantedTopic(NamedTuple):
    """A topic to move, and where the file says so."""

    name: str
    place: str


def read_moves(file: str) -> list[Move]:
    """The partitions of a --reassignment-json-file, in its order.

    Raises ConfigurationError for a file that cannot be read, is no JSON, has a version other than 1, no partitions,
    or partitions or brokers twice.
    """
    moves = [_move(item) for item in read_list(file, "partitions", PARTITIONS_FORM).items()]
    if not moves:
        raise ConfigurationError(f"{file}: Partition reassignment list cannot be empty")
    twice = twice_in(move.partition for move in moves)
    if twice:
        place = next(move.place for move in reversed(moves) if move.partition == twice[0])
        told = ",".join(map(str, twice))
        raise ConfigurationError(f"{place}: Partition reassignment contains duplicate topic partitions: {told}")
    return moves


def read_topics(file: str) -> list[WantedTopic]:
    """The topics of a --topics-to-move-json-file. ConfigurationError as for `read_moves`."""
    fields = [item.field("topic") for item in read_list(file, "topics", TOPICS_FORM).items()]
    topics = [WantedTopic(field.text(), str(field)) for field in fields]
    if not topics:
        raise ConfigurationError(f"{file}: the list of topics is empty: {TOPICS_FORM} is wanted")
    twice = twice_in(topic.name for topic in topics)
    if twice:
        place = next(topic.place for topic in reversed(topics) if topic.name == twice[0])
        told = ", ".join(twice)
        raise ConfigurationError(f"{place}: List of topics to reassign contains duplicate entries: [{told}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """The brokers of a --broker-list. ConfigurationError for what is no broker's number, and for one given twice."""
    brokers = broker_ids(text.split(","))
    twice = twice_in(brokers)
    if twice:
        raise ConfigurationError(f"--broker-list: Broker list contains duplicate entries: {twice}")
    return brokers


def as_json(assignment: Assignment, log_dirs: LogDirs = NO_LOG_DIRS) -> dict[str, Any]:
    """An assignment as --reassignment-json-file takes it, in the order of topics and partitions."""
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


def wanted_log_dirs(moves: Iterable[Move]) -> dict[TopicPartitionReplica, str]:
    """The data directories that are named, by replica."""
    return {
        TopicPartitionReplica(*move.partition, broker): path
        for move in moves
        for broker, path in zip(move.replicas, move.log_dirs, strict=True)
        if path != ANY_LOG_DIR
    }


def _move(item: Place) -> Move:
    tp = item.topic_partition()
    brokers = item.field("replicas")
    replicas = tuple(broker.number() for broker in brokers.items())
    if not replicas:
        brokers.refuse("Partition replica list cannot be empty")
    twice = twice_in(replicas)
    if twice:
        told = ",".join(map(str, twice))
        why = f"{tp} contains multiple entries for {told}"
        brokers.refuse(f"Partition replica lists may not contain duplicate entries: {why}")
    given = item.optional("log_dirs")
    log_dirs = (ANY_LOG_DIR,) * len(replicas) if given is None else tuple(path.text() for path in given.items())
    if given is not None and len(log_dirs) != len(replicas):
        given.refuse(
            f"Size of replicas list {list(replicas)} is different from size of log dirs list {list(log_dirs)} "
            f"for partition {tp}"
        )
    return Move(tp, replicas, log_dirs, str(item))
