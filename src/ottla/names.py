"""Which names and ids may become a path: the one check before a log directory or a znode is named after them.

Names come from clients, from the controller, from ZooKeeper and from directories on disk; none of these is trusted to
have checked them. Kafka's `Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.errors import InvalidPartitionsError, InvalidTopicError
from ottla.model import TopicPartition

MAX_TOPIC_NAME_LENGTH: Final = 249
"""So that the directory name `topic-partition` stays below 255."""
MAX_PARTITION: Final = 2**20 - 1
"""The highest partition number. Kafka's is 2^31-1, of which nobody could have the partitions below."""
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicError for a name that Kafka does not allow."""
    if not name:
        raise InvalidTopicError("the topic name is empty")
    if name in (".", ".."):
        raise InvalidTopicError(f"the topic name may not be {name!r}")
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        raise InvalidTopicError(f"the topic name has {len(name)} characters; {MAX_TOPIC_NAME_LENGTH} are allowed")
    if not _LEGAL.fullmatch(name):
        raise InvalidTopicError(f"the topic name {name!r} may have letters, digits, '.', '_' and '-' only")


def check_partition(tp: TopicPartition) -> None:
    """Raise InvalidTopicError or InvalidPartitionsError unless this can be a partition of a topic."""
    check_topic_name(tp.topic)
    if not 0 <= tp.partition <= MAX_PARTITION:
        raise InvalidPartitionsError(f"{tp.topic} cannot have a partition {tp.partition}")


def directory_name(tp: TopicPartition) -> str:
    """Return the name of a partition's log directory. Raises what `check_partition` does."""
    check_partition(tp)
    return str(tp)


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition whose log directory has this name; None if it is not the name of a log directory."""
    topic, _, partition = name.rpartition("-")
    if not (partition.isascii() and partition.isdigit() and len(partition) < 11):
        return None
    tp = TopicPartition(topic, int(partition))
    try:
        check_partition(tp)
    except (InvalidTopicError, InvalidPartitionsError):
        return None
    return tp
