"""FindCoordinator: which broker keeps a group's state. Served in all versions; from version 4 on for several groups.

The coordinator of a group leads the partition of `__consumer_offsets` that the group's id falls into. The first
question makes that topic.

Left out on purpose: coordinators of transactions and share groups, which are refused with a message.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker import topic_creation
from ottla.broker.services import Call
from ottla.cluster.metadata import CONSUMER_OFFSETS, NO_LEADER
from ottla.coordinator.state_log import partition_of
from ottla.errors import CoordinatorNotAvailableError, InvalidGroupIdError, InvalidRequestError, KafkaError, code_of
from ottla.model import Node
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
KINDS = {1: "transactions", 2: "share groups"}


def handle(request: FindCoordinatorRequest, call: Call) -> Awaitable[FindCoordinatorResponse]:
    """Find each key's coordinator."""
    return _find_all(request, call)


async def _find_all(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    if call.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[await _find(key, request.key_type, call) for key in request.coordinator_keys]
        )
    found = await _find(request.key, request.key_type, call)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key: str, kind: int, call: Call) -> Coordinator:
    try:
        node = await _node(key, kind, call)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code_of(error), error_message=error.message
        )
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=None)


async def _node(key: str, kind: int, call: Call) -> Node:
    if kind != GROUP:
        what = KINDS.get(kind, f"coordinators of type {kind}")
        raise InvalidRequestError(f"{what} are not served by this version")
    if key is None:
        raise InvalidGroupIdError
    topic = await topic_creation.create_internal(call.services, CONSUMER_OFFSETS)
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    broker = call.services.image.brokers.get(leader)
    if leader == NO_LEADER or broker is None:
        raise CoordinatorNotAvailableError
    return broker.node(call.connection.listener.name)
