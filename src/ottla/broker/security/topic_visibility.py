"""What members of groups, and those who describe groups, may know of topics: only of those that they may describe."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ottla.broker.services import Call
from ottla.coordinator.group.classic.classic_groups import Client
from ottla.coordinator.group.common.consumer_member import TopicIdPartition
from ottla.errors import TopicAuthorizationFailedError
from ottla.model import ACLOperation
from ottla.security.acl import ResourceType


def client_of(call: Call) -> Client:
    """Who wants to be a member."""
    sees = None if call.services.authorizer is None else partial(call.allows, ACLOperation.DESCRIBE, ResourceType.TOPIC)
    return Client(call.client_id, "/" + call.connection.peer.rpartition(":")[0], sees)


def check_subscription(names: Iterable[str] | None, call: Call) -> None:
    """Raise TopicAuthorizationFailedError for a member that names a topic that it may not describe."""
    for refused in call.refused(ACLOperation.DESCRIBE, ResourceType.TOPIC, names or ()).values():
        raise refused


def check_described(partitions: Iterable[TopicIdPartition], call: Call) -> None:
    """Raise TopicAuthorizationFailedError for a group that reads a topic that the client may not describe."""
    names = call.services.image.names
    read = (names[partition.topic_id] for partition in partitions if partition.topic_id in names)
    if call.refused(ACLOperation.DESCRIBE, ResourceType.TOPIC, read):
        raise TopicAuthorizationFailedError("The group reads topics that the client is not authorized to describe.")
