"""What a client may do with a resource, as the bits that it can ask for (KIP-430): all, or what rules allow.

Only resources that the client may describe are asked about, but for the cluster: who may not describe that hears of
nothing that it may do there, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.security.acl import CLUSTER_NAME, OPERATIONS, ResourceType

UNASKED = -0x8000_0000
"""What stands in an answer whose request did not ask."""


def _sum(operations: Iterable[ACLOperation]) -> int:
    return sum(1 << operation for operation in operations)


ALL = {kind: _sum(operations) for kind, operations in OPERATIONS.items()}
"""What everybody may do where nothing restricts clients, by the type of the resource."""


def on_topic(context: RequestContext, name: str) -> int:
    """What the client may do with a topic."""
    return _bits(context, ResourceType.TOPIC, name)


def on_group(context: RequestContext, name: str) -> int:
    """What the client may do with a group."""
    return _bits(context, ResourceType.GROUP, name)


def on_cluster(context: RequestContext) -> int:
    """What the client may do with the cluster."""
    if not context.allows(ACLOperation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return _bits(context, ResourceType.CLUSTER, CLUSTER_NAME)


def _bits(context: RequestContext, kind: ResourceType, name: str) -> int:
    if context.broker.authorizer is None:
        return ALL[kind]
    return _sum(operation for operation in OPERATIONS[kind] if context.allows(operation, kind, name))
