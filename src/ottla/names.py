"""Validation of topic names and partition numbers before they are used in a directory name or a znode path.

They come from clients, the controller, ZooKeeper and directories on disk. It is not assumed that any of these has
checked them. The rules for topic names are those of Kafka's `Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import InvalidPartitionsError, InvalidTopicError
from ottla.model import TopicPartition

MAX_TOPIC_NAME_LENGTH: Final = 249
"""The maximum length of topic names, as in Kafka. File systems allow 255 bytes for a directory name."""
MAX_PARTITION: Final = 2**20 - 1
"""The highest partition number. Kafka allows 2^31-1, but no broker can have that many partitions."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError if Kafka does not allow this topic name."""
    if not name:
        raise InvalidTopicError("topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"topic name must not be {name!r}")
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopicError(f"topic name has {len(name)} characters; the maximum is {MAX_TOPIC_NAME_LENGTH}")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(f"topic name {name!r} contains characters other than letters, digits, '.', '_' and '-'")


def check_partition(tp: TopicPartition) -> None:
    """Raise InvalidTopicError if the topic name is not allowed, and InvalidPartitionsError if the partition number is
    out of range.
    """
    check_topic_name(tp.topic)
    if not 0 <= tp.partition <= MAX_PARTITION:
        raise InvalidPartitionsError(f"partition {tp.partition} of topic {tp.topic} is out of range")


def directory_name(tp: TopicPartition) -> str:
    """Return the name of the directory of a partition. Raises the errors of `check_partition`."""
    check_partition(tp)
    return str(tp)


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition to which a directory belongs, or None if the name is not that of a partition's directory.

    Unlike Kafka, which parses t-007, accept no leading zeros: otherwise two directories could belong to the same
    partition.
    """
    topic, _, partition = name.rpartition("-")
    if not (partition.isascii() and partition.isdigit() and len(partition) < 11) or partition != str(int(partition)):
        return None
    tp = TopicPartition(topic, int(partition))
    try:
        check_partition(tp)
    except (InvalidTopicError, InvalidPartitionsError):
        return None
    return tp
