"""The client's authorized operations on a resource, as bits (KIP-430).

A client that may not DESCRIBE the cluster gets no operations on it, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.security.acl import CLUSTER_NAME, OPERATIONS, ResourceType

NOT_REQUESTED = -0x8000_0000
"""The value in a response if the request did not ask for authorized operations."""


def _sum(operations: Iterable[ACLOperation]) -> int:
    return sum(1 << operation for operation in operations)


ALL = {kind: _sum(operations) for kind, operations in OPERATIONS.items()}
"""All operations of each resource type, for brokers without an authorizer."""


def on_topic(context: RequestContext, name: str) -> int:
    """Return the client's authorized operations on a topic, one bit each."""
    return _bits(context, ResourceType.TOPIC, name)


def on_group(context: RequestContext, name: str) -> int:
    """Return the client's authorized operations on a group, one bit each."""
    return _bits(context, ResourceType.GROUP, name)


def on_cluster(context: RequestContext) -> int:
    """Return the client's authorized operations on the cluster, one bit each; 0 without DESCRIBE."""
    if not context.allows(ACLOperation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return _bits(context, ResourceType.CLUSTER, CLUSTER_NAME)


def _bits(context: RequestContext, kind: ResourceType, name: str) -> int:
    if context.broker.authorizer is None:
        return ALL[kind]
    return _sum(operation for operation in OPERATIONS[kind] if context.allows(operation, kind, name))
