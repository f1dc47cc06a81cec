"""Checks that group members, and clients that describe groups, have DESCRIBE on the topics of the group."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.classic.classic_groups import GroupClient
from ottla.errors import TopicAuthorizationFailedError
from ottla.model import ACLOperation, TopicIdPartition
from ottla.security.acl import ResourceType


def client_of(context: RequestContext) -> GroupClient:
    """Return the client of a group member, with the check whether it may DESCRIBE a topic (None: no authorizer)."""
    may_describe = (
        None
        if context.broker.authorizer is None
        else partial(context.allows, ACLOperation.DESCRIBE, ResourceType.TOPIC)
    )
    return GroupClient(context.client_id, "/" + context.connection.peer.rpartition(":")[0], may_describe)


def check_subscription(names: Iterable[str] | None, context: RequestContext) -> None:
    """Raise TopicAuthorizationFailedError if the client lacks DESCRIBE on one of these topics."""
    for error in context.unauthorized_errors(ACLOperation.DESCRIBE, ResourceType.TOPIC, names or ()).values():
        raise error


def check_described(partitions: Iterable[TopicIdPartition], context: RequestContext) -> None:
    """Raise TopicAuthorizationFailedError if the client lacks DESCRIBE on the topic of one of these partitions. Topics
    that no longer exist are ignored.
    """
    names = context.broker.image.names
    read = (names[partition.topic_id] for partition in partitions if partition.topic_id in names)
    if context.unauthorized_errors(ACLOperation.DESCRIBE, ResourceType.TOPIC, read):
        raise TopicAuthorizationFailedError("The group reads topics that the client is not authorized to describe.")
