"""Events to send, and the rules that make it possible to resume a replay.

The events of a replay are numbered (`seq`) in the order in which they are sent; the number is the first field of their
JSON. The partition of an event depends only on its key, or on `seq` if it has none, so a resumed replay sends each
event to the same partition. Numbers within a partition increase, so a partition contains all of its events up to its
last number. `is_missing` returns whether an event comes after that number and must still be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla_pipelines.catalog import Topic


class Event(NamedTuple):
    """A record to send. `rest` is the JSON of its fields without braces; `seq` is put before it."""

    topic: Topic
    key: bytes | None
    rest: bytes
    timestamp_ms: int | None
    """The event time; None to use the time of sending."""


class Numbered(NamedTuple):
    """An event with its number and partition."""

    seq: int
    topic: str
    partition: int
    key: bytes | None
    value: bytes
    timestamp_ms: int | None


def event(topic: Topic, key: str | None, fields: Mapping[str, Any], timestamp_ms: int | None) -> Event:
    """Return an event with `fields` as its JSON value."""
    rest = _dumps(fields)[1:-1]
    return Event(topic, None if key is None else key.encode(), rest.encode(), timestamp_ms)


_dumps = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def number(events: Iterator[Event]) -> Iterator[Numbered]:
    """Yield the events with their numbers and partitions."""
    for seq, (topic, key, rest, timestamp_ms) in enumerate(events):
        value = b'{"seq":%d,%b}' % (seq, rest)
        yield Numbered(seq, topic.name, partition_for(key, seq, topic.partitions), key, value, timestamp_ms)


def partition_for(key: bytes | None, seq: int, partitions: int) -> int:
    """Return the partition of an event: Kafka's default partition for the key, or `seq` modulo `partitions` without a
    key.

    A sticky partition would not be the same after a restart.
    """
    from ottla.records.murmur2 import murmur2

    return seq % partitions if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions


def is_missing(event: Numbered, last: Mapping[TopicPartition, int]) -> bool:
    """Return whether the number of the event is greater than the last one in its partition, so that it must be sent."""
    return event.seq > last.get(TopicPartition(event.topic, event.partition), -1)


def sequence_of(value: bytes | None) -> int:
    """Return the number in an event's value. Raises MalformedMessageError if the value was not written by a replay."""
    prefix = b'{"seq":'
    value = value or b""
    digits = value[len(prefix) : value.find(b",")]
    if not value.startswith(prefix) or not digits.isdigit():
        raise MalformedMessageError(f"not an event of a replay: {value[:60]!r}; the topic contains other records")
    return int(digits)
