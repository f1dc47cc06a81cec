"""Checks of the topics in OffsetCommit and TxnOffsetCommit: they must exist, and the client must be authorized.

Authorization is checked before the partitions, so that an unauthorized client does not learn which of them exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol
from uuid import UUID

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError, UnknownTopicIdError, UnknownTopicOrPartitionError, code_of
from ottla.model import ACLOperation, TopicPartition
from ottla.security.acl import ResourceType


class CommitTopic(Protocol):
    """A topic of the request, identified by its name or its id."""

    name: str
    topic_id: UUID

    @property
    def partitions(self) -> Sequence[Any]:
        """The partitions, with the offsets to commit."""


class ResponseTopic(Protocol):
    """A topic of the response."""

    @property
    def partitions(self) -> Sequence[Any]: ...


def codes_of(
    topic: CommitTopic, context: RequestContext, ids_since: int, accept: Callable[[TopicPartition, Any], None]
) -> Iterable[tuple[int, int]]:
    """Return the index and error code of each partition, and call `accept` with those that pass the checks.

    A KafkaError that `accept` raises is the error of the partition.
    """
    try:
        name = readable(topic, context, ids_since)
    except KafkaError as error:
        return [(partition.partition_index, code_of(error)) for partition in topic.partitions]
    return [
        (p.partition_index, _code(TopicPartition(name, p.partition_index), p, context, accept))
        for p in topic.partitions
    ]


def readable(topic: CommitTopic, context: RequestContext, ids_since: int) -> str:
    """Return the name of a topic, which requests identify by its id from version `ids_since` on.

    Raises UnknownTopicIdError for an unknown id, and TopicAuthorizationFailedError if the client lacks READ.
    """
    name: str | None = topic.name
    if context.version >= ids_since:
        name = context.broker.image.names.get(topic.topic_id)
    if name is None:
        raise UnknownTopicIdError
    context.require(ACLOperation.READ, ResourceType.TOPIC, name)
    return name


def check_partition(tp: TopicPartition, context: RequestContext) -> None:
    """Raise UnknownTopicOrPartitionError for a partition that does not exist."""
    if context.broker.image.partition(tp) is None:
        raise UnknownTopicOrPartitionError


def fail(topics: Iterable[ResponseTopic], error: KafkaError) -> None:
    """Set the error code of each partition that has no error yet."""
    code = code_of(error)
    for topic in topics:
        for partition in topic.partitions:
            partition.error_code = partition.error_code or code


def _code(
    tp: TopicPartition, partition: Any, context: RequestContext, accept: Callable[[TopicPartition, Any], None]
) -> int:
    try:
        check_partition(tp, context)
        accept(tp, partition)
    except KafkaError as error:
        return code_of(error)
    return 0
