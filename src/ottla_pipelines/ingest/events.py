"""An event on its way into a topic, and the rules that make a replay resumable.

Events of a replay are numbered (`seq`) in the order in which they are sent, and the number is the first field of
their JSON. The partition of an event depends on the event alone. So each partition holds increasing numbers, none of
its share is missing, and its last number shows which events have arrived: `is_missing` then finds those that a killed
replay has not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import Topic


class Event(NamedTuple):
    """One record to send: `rest` is the JSON of its fields without braces, so that `seq` can be put before it."""

    topic: Topic
    key: bytes | None
    rest: bytes
    timestamp_ms: int | None
    """The event time; None for the time of sending."""


class Numbered(NamedTuple):
    """An event with its number and partition in the replay."""

    seq: int
    topic: str
    partition: int
    key: bytes | None
    value: bytes
    timestamp_ms: int | None


def event(topic: Topic, key: str | None, fields: Mapping[str, Any], timestamp_ms: int | None) -> Event:
    """Return an event whose value is `fields` as JSON."""
    rest = _dumps(fields)[1:-1]
    return Event(topic, None if key is None else key.encode(), rest.encode(), timestamp_ms)


_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def number(events: Iterator[Event]) -> Iterator[Numbered]:
    """Assign each event its number and partition."""
    for seq, (topic, key, rest, timestamp_ms) in enumerate(events):
        value = b'{"seq":%d,%b}' % (seq, rest)
        yield Numbered(seq, topic.name, partition_for(key, seq, topic.partitions), key, value, timestamp_ms)


def partition_for(key: bytes | None, seq: int, partitions: int) -> int:
    """Return Kafka's partition of the key. Without a key partitions take turns, since a resumed run must repeat the
    choice.
    """
    from ottla.records.murmur2 import murmur2

    return seq % partitions if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def is_missing(event: Numbered, last: Mapping[TopicPartition, int]) -> bool:
    """Return whether the event comes after the last one that its partition holds."""
    return event.seq > last.get(TopicPartition(event.topic, event.partition), -1)


def sequence_of(value: bytes) -> int:
    """Return the number in an event's value. Raises MalformedMessageError if the record is not one of a replay."""
    prefix = b'{"seq":'
    digits = value[len(prefix) : value.find(b",")]
    if not value.startswith(prefix) or not digits.isdigit():
        raise MalformedMessageError(f"not an event of a replay: {value[:60]!r}; the topic holds other records")
    return int(digits)
