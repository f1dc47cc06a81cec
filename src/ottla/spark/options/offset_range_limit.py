"""The start or end of a read, as options specify it, like Spark's `KafkaOffsetRangeLimit`. Each of the five forms has a
class, and offsets have a JSON form.

An offset is that of the next record to read. In JSON, -2 is the earliest and -1 the latest offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.errors import ConfigurationError
from ottla.model import TopicPartition

EARLIEST_MARK = -2
LATEST_MARK = -1

Offsets = dict[TopicPartition, int]
"""The offset of the next record to read, by partition."""


@dataclass(frozen=True)
class Earliest:
    """The first offset of each partition."""


@dataclass(frozen=True)
class Latest:
    """The end of each partition when the read is planned."""


@dataclass(frozen=True)
class Specific:
    """An offset for each partition of the read; -2 is the earliest, -1 the latest offset."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True)
class AtTimestamps:
    """A timestamp in milliseconds since 1970 for each partition of the read. It stands for the offset of the first
    record at or after it.
    """

    timestamps: Mapping[TopicPartition, int]
    latest_if_none: bool
    """Whether the timestamp stands for the end offset if there is no such record. If false, that is an error."""


@dataclass(frozen=True)
class AtTimestamp:
    """A timestamp in milliseconds since 1970. It stands for the offset of the first record at or after it in each
    partition.
    """

    timestamp: int
    latest_if_none: bool
    """Whether it stands for the end offset of partitions without such a record. If false, that is an error."""


OffsetRangeLimit = Earliest | Latest | Specific | AtTimestamps | AtTimestamp


def moves(bound: OffsetRangeLimit) -> bool:
    """Return whether the offsets depend on new records, so that a second lookup may return others."""
    match bound:
        case Earliest():
            return False
        case Latest():
            return True
        case Specific(offsets):
            return LATEST_MARK in offsets.values()
        case AtTimestamps(_, latest_if_none) | AtTimestamp(_, latest_if_none):
            return latest_if_none


def offsets_to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets in the form of Spark's checkpoints, {"topic": {"0": 12}}. They are sorted, because Spark compares
    the text.
    """
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def offsets_from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Parse offsets in the form that `offsets_to_json` returns."""
    return {TopicPartition(t, int(p)): int(n) for t, partitions in nested.items() for p, n in partitions.items()}


def parse_numbers(option: str, text: str) -> dict[TopicPartition, int]:
    """Parse `{"topic": {"0": 12, "1": -2}}`. Raises ConfigurationError, which contains the option and the text."""
    example = '{"topicA": {"0": 23, "1": -2}, "topicB": {"0": -1}}'
    try:
        return offsets_from_json({t: _integers(p) for t, p in _object(text).items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(f"{option}: {text!r} is not allowed ({error}); the form is {example}") from None


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Parse `{"topic": [0, 1]}`. Raises ConfigurationError, which contains the option and the text."""
    try:
        partitions_by_topic = {
            TopicPartition(topic, p) for topic, partitions in _object(text).items() for p in _list(partitions)
        }
    except (ValueError, TypeError) as error:
        example = '{"topicA": [0, 1], "topicB": [2, 4]}'
        raise ConfigurationError(f"{option}: {text!r} is not allowed ({error}); the form is {example}") from None
    if not partitions_by_topic:
        raise ConfigurationError(f"{option}: {text!r} names no partition")
    return frozenset(partitions_by_topic)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def _list(value: Any) -> list[int]:
    if not isinstance(value, list):
        raise ValueError("not a list of partition numbers")
    for number in value:
        if not _is_whole(number):
            raise ValueError(f"{number!r} is not a partition number")
    return value


def _integers(partitions: Mapping[str, Any]) -> dict[str, int]:
    for partition, number in partitions.items():
        if not _is_whole(number):
            raise ValueError(f"partition {partition} has {number!r}, not an integer")
    return dict(partitions)


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def partition_list(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as text for messages: `a-0, a-1`."""
    return ", ".join(map(str, sorted(partitions)))
