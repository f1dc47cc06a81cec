"""The JSON files of kafka-reassign-partitions.sh, read with their faults named by place, and written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from ottla.client.admin.log_dirs import TopicPartitionReplica
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

T = TypeVar("T")

VERSION: Final = 1
ANY_LOG_DIR: Final = "any"
MAX_INT: Final = 2**31 - 1
"""Of Kafka's numbers of partitions and brokers."""
MAX_SHOWN: Final = 60
"""Letters of a wrong value that an error repeats."""
PARTITIONS_FORM: Final = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
TOPICS_FORM: Final = '{"version":1,"topics":[{"topic":"t"}]}'

Assignment = Mapping[TopicPartition, Sequence[int]]
"""Brokers by partition, the preferred leader first."""


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


class Place(NamedTuple):
    """A value in a file, and the way to it."""

    file: str
    path: str
    value: Any

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file

    def refuse(self, why: str) -> NoReturn:
        """Raise ConfigurationError that names the place."""
        raise ConfigurationError(f"{self}: {why}")

    def field(self, name: str) -> Place:
        """A field of an object; ConfigurationError where there is no such."""
        if not isinstance(self.value, dict):
            self.refuse(f"{_shown(self.value)} is not allowed: an object is wanted")
        if name not in self.value:
            self.refuse(f'"{name}" is missing')
        return Place(self.file, f"{self.path}.{name}".lstrip("."), self.value[name])

    def optional(self, name: str) -> Place | None:
        """A field that may be left out."""
        return self.field(name) if not isinstance(self.value, dict) or name in self.value else None

    def items(self) -> list[Place]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self.refuse(f"{_shown(self.value)} is not allowed: a list is wanted")
        return [Place(self.file, f"{self.path}[{i}]", item) for i, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            self.refuse(f"{_shown(self.value)} is not allowed: a text is wanted")
        return self.value

    def number(self) -> int:
        """A whole number, as partitions and brokers have."""
        if type(self.value) is not int or not 0 <= self.value <= MAX_INT:  # true and false are integers, too
            self.refuse(f"{_shown(self.value)} is not allowed: a whole number of at least 0 is wanted")
        return self.value


def read_moves(file: str) -> list[Move]:
    """The partitions of a --reassignment-json-file, in its order.

    Raises ConfigurationError for a file that cannot be read, is no JSON, has a version other than 1, no partitions,
    or partitions or brokers twice.
    """
    moves = [_move(item) for item in _read(file, "partitions", PARTITIONS_FORM).items()]
    if not moves:
        raise ConfigurationError(f"{file}: Partition reassignment list cannot be empty")
    twice = _twice(move.partition for move in moves)
    if twice:
        place = next(move.place for move in reversed(moves) if move.partition == twice[0])
        told = ",".join(map(str, twice))
        raise ConfigurationError(f"{place}: Partition reassignment contains duplicate topic partitions: {told}")
    return moves


def read_topics(file: str) -> list[WantedTopic]:
    """The topics of a --topics-to-move-json-file. ConfigurationError as for `read_moves`."""
    fields = [item.field("topic") for item in _read(file, "topics", TOPICS_FORM).items()]
    topics = [WantedTopic(field.text(), str(field)) for field in fields]
    if not topics:
        raise ConfigurationError(f"{file}: the list of topics is empty: {TOPICS_FORM} is wanted")
    twice = _twice(topic.name for topic in topics)
    if twice:
        place = next(topic.place for topic in reversed(topics) if topic.name == twice[0])
        told = ", ".join(twice)
        raise ConfigurationError(f"{place}: List of topics to reassign contains duplicate entries: [{told}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """The brokers of a --broker-list. ConfigurationError for what is no broker's number, and for one given twice."""
    try:
        brokers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--broker-list: {text!r} is not allowed: broker,broker,… is wanted") from None
    twice = _twice(brokers)
    if twice:
        raise ConfigurationError(f"--broker-list: Broker list contains duplicate entries: {twice}")
    return brokers


def as_json(assignment: Assignment) -> dict[str, Any]:
    """An assignment as --reassignment-json-file takes it, in the order of topics and partitions."""
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(b), "log_dirs": [ANY_LOG_DIR] * len(b)}
        for tp, b in sorted(assignment.items())
    ]
    return {"version": VERSION, "partitions": partitions}


def as_text(assignment: Assignment) -> str:
    """The same in one line, as Kafka prints it."""
    return json.dumps(as_json(assignment), separators=(",", ":"))


def wanted_log_dirs(moves: Iterable[Move]) -> dict[TopicPartitionReplica, str]:
    """The data directories that are named, by replica."""
    return {
        TopicPartitionReplica(*move.partition, broker): path
        for move in moves
        for broker, path in zip(move.replicas, move.log_dirs, strict=True)
        if path != ANY_LOG_DIR
    }


def _read(file: str, content: str, form: str) -> Place:
    """The list that a file is about; a version that is left out is 1."""
    try:
        whole = Place(file, "", json.loads(Path(file).read_bytes()))
    except OSError as error:
        raise ConfigurationError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # no JSON, no text, or nested without end
        raise ConfigurationError(f"{file}: The input string is not a valid JSON: {error}: {form} is wanted") from None
    version = whole.optional("version")
    if version is not None and version.number() != VERSION:
        version.refuse(f"Not supported version field value {version.value}: {VERSION} is wanted")
    found = whole.optional(content)
    if found is None:
        whole.refuse(f'"{content}" is missing: {form} is wanted')
    return found


def _move(item: Place) -> Move:
    tp = TopicPartition(item.field("topic").text(), item.field("partition").number())
    brokers = item.field("replicas")
    replicas = tuple(broker.number() for broker in brokers.items())
    if not replicas:
        brokers.refuse("Partition replica list cannot be empty")
    twice = _twice(replicas)
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


def _twice(values: Iterable[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
