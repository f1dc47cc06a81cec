"""The offsets up to which the source was copied, in a compacted topic of the target.

The topic and its records are those in which MirrorMaker 2 in dedicated mode stores Kafka Connect's source offsets, so
this tool continues where such a MirrorMaker has stopped, and vice versa. Offsets committed for a consumer group could
be used instead, but by default a cluster removes the offsets of a group without members after a week
(offsets.retention.minutes), and all records would then be copied again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from ottla.model import TopicPartition

CONNECTOR: Final = "MirrorSourceConnector"
"""The name of the connector in the keys, as in MirrorMaker's dedicated mode."""


def offset_key(source: str, partition: TopicPartition) -> bytes:
    """Return the key of the record that stores the offset of a partition. `source`: the alias of its cluster."""
    place = {"cluster": source, "partition": partition.partition, "topic": partition.topic}
    return json.dumps([CONNECTOR, place], separators=(",", ":"), ensure_ascii=False).encode()


def offset_value(offset: int) -> bytes:
    """Return the value of the record that stores an offset. `offset`: the source offset of the last copied record."""
    return json.dumps({"offset": offset}, separators=(",", ":")).encode()


def next_offsets(source: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[TopicPartition, int]:
    """Return, for each partition, the next offset to copy. `records`: keys and values in the order of the log.

    Records of other clusters and connectors are ignored. A tombstone, or a value without an offset, removes the offset
    of its partition.
    """
    offsets: dict[TopicPartition, int] = {}
    for key, value in records:
        partition = _partition(source, key)
        if partition is None:
            continue
        last = _offset(value)
        if last is None:
            offsets.pop(partition, None)
        else:
            offsets[partition] = last + 1
    return offsets


def _partition(source: str, key: bytes | None) -> TopicPartition | None:
    try:
        connector, place = json.loads(key or b"")
        if connector == CONNECTOR and place["cluster"] == source:
            return TopicPartition(str(place["topic"]), int(place["partition"]))
    except (ValueError, TypeError, KeyError):
        pass
    return None


def _offset(value: bytes | None) -> int | None:
    try:
        return int(json.loads(value or b"")["offset"])
    except (ValueError, TypeError, KeyError):
        return None
