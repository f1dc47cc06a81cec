"""Validation of names and ids before they become a directory or a znode.

Names come from clients, the controller, ZooKeeper and directories on disk, and none of these is trusted to have checked
them. Kafka's `Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import InvalidPartitionsError, InvalidTopicError
from ottla.model import TopicPartition

MAX_TOPIC_NAME_LENGTH: Final = 249
"""Keeps the directory name `topic-partition` below 255 characters."""
MAX_PARTITION: Final = 2**20 - 1
"""The highest partition number. Kafka allows 2^31-1, but no broker could hold the partitions below that."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError if Kafka does not allow the name."""
    if not name:
        raise InvalidTopicError("topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"topic name must not be {name!r}")
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopicError(f"topic name has {len(name)} characters; the maximum is {MAX_TOPIC_NAME_LENGTH}")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(f"topic name {name!r} contains characters other than letters, digits, '.', '_' and '-'")


def check_partition(tp: TopicPartition) -> None:
    """Raise InvalidTopicError or InvalidPartitionsError unless this can be a partition."""
    check_topic_name(tp.topic)
    if not 0 <= tp.partition <= MAX_PARTITION:
        raise InvalidPartitionsError(f"partition {tp.partition} of topic {tp.topic} is out of range")


def directory_name(tp: TopicPartition) -> str:
    """Return the name of a partition's directory. Raises the errors of `check_partition`."""
    check_partition(tp)
    return str(tp)


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition of a directory name; None if it is not the name of a partition's directory."""
    topic, _, partition = name.rpartition("-")
    if not (partition.isascii() and partition.isdigit() and len(partition) < 11):
        return None
    tp = TopicPartition(topic, int(partition))
    try:
        check_partition(tp)
    except (InvalidTopicError, InvalidPartitionsError):
        return None
    return tp
