"""What a client may do with a resource, as the bits that it can ask for (KIP-430): all, or what rules allow.

Only resources that the client may describe are asked about, but for the cluster: who may not describe that hears of
nothing that it may do there, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.services import Call
from ottla.model import ACLOperation
from ottla.security.acl import CLUSTER_NAME, OPERATIONS, ResourceType

UNASKED = -0x8000_0000
"""What stands in an answer whose request did not ask."""


def _sum(operations: Iterable[ACLOperation]) -> int:
    return sum(1 << operation for operation in operations)


ALL = {kind: _sum(operations) for kind, operations in OPERATIONS.items()}
"""What everybody may do where nothing restricts clients, by the type of the resource."""


def on_topic(call: Call, name: str) -> int:
    """What the client may do with a topic."""
    return _bits(call, ResourceType.TOPIC, name)


def on_group(call: Call, name: str) -> int:
    """What the client may do with a group."""
    return _bits(call, ResourceType.GROUP, name)


def on_cluster(call: Call) -> int:
    """What the client may do with the cluster."""
    if not call.allows(ACLOperation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return _bits(call, ResourceType.CLUSTER, CLUSTER_NAME)


def _bits(call: Call, kind: ResourceType, name: str) -> int:
    if call.services.authorizer is None:
        return ALL[kind]
    return _sum(operation for operation in OPERATIONS[kind] if call.allows(operation, kind, name))
