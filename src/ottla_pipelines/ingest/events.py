"""An event on its way into a topic, and the rules that make a replay resumable.

Events of a replay are numbered (`seq`) in the order in which they are sent, and the number leads their JSON. Which
partition an event goes to depends on nothing but the event. So each partition holds rising numbers without a gap in its
share, and its last number says all that has arrived: `is_missing` then finds what a killed replay still owes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import Topic


class Event(NamedTuple):
    """One record to be: `rest` is the JSON of its fields without braces, so that `seq` can be put before it."""

    topic: Topic
    key: bytes | None
    rest: bytes
    timestamp_ms: int | None
    """Event time; None: the time of sending."""


class Numbered(NamedTuple):
    """An event with its place in the replay."""

    seq: int
    topic: str
    partition: int
    key: bytes | None
    value: bytes
    timestamp_ms: int | None


def event(topic: Topic, key: str | None, fields: Mapping[str, Any], timestamp_ms: int | None) -> Event:
    """An event whose value is `fields` as JSON."""
    rest = _dumps(fields)[1:-1]
    return Event(topic, None if key is None else key.encode(), rest.encode(), timestamp_ms)


_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def number(events: Iterator[Event]) -> Iterator[Numbered]:
    """Give each event its number and partition."""
    for seq, (topic, key, rest, timestamp_ms) in enumerate(events):
        value = b'{"seq":%d,%b}' % (seq, rest)
        yield Numbered(seq, topic.name, partition_for(key, seq, topic.partitions), key, value, timestamp_ms)


def partition_for(key: bytes | None, seq: int, partitions: int) -> int:
    """Kafka's partition of the key. Without a key, in turn: a random choice could not be made again on resume."""
    from ottla.records.murmur2 import murmur2

    return seq % partitions if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def is_missing(event: Numbered, last: Mapping[TopicPartition, int]) -> bool:
    """Whether the event comes after the last one that its partition holds."""
    return event.seq > last.get(TopicPartition(event.topic, event.partition), -1)


def sequence_of(value: bytes) -> int:
    """The number in an event's value; MalformedMessageError where the record is not one of a replay."""
    prefix = b'{"seq":'
    digits = value[len(prefix) : value.find(b",")]
    if not value.startswith(prefix) or not digits.isdigit():
        raise MalformedMessageError(f"not an event of a replay: {value[:60]!r}; the topic holds other records")
    return int(digits)
