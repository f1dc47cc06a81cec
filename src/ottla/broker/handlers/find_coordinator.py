"""FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

The coordinator is the leader of the key's partition of an internal topic, such as `__consumer_offsets`. A request
creates that topic if it does not exist. From version 4 on a request may have several keys.

From version 6 on brokers may look up the share coordinator of `group:topicId:partition`.
"""

from __future__ import annotations

from ottla.broker import topic_creation
from ottla.broker.request_context import RequestContext
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.coordinator.runtime.coordinator_log import partition_of
from ottla.errors import CoordinatorNotAvailableError, InvalidGroupIdError, InvalidRequestError, KafkaError, code_of
from ottla.model import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, ACLOperation, Node
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.security.acl import ResourceType

TOPICS = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE, 2: SHARE_GROUP_STATE}
"""The internal topics by key type: 0 for groups, 1 for transactional ids, 2 for share partitions."""
KINDS = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""The type of the resource on which DESCRIBE is required, by key type."""
SHARE = 2
SHARE_SINCE = 6
SHARE_KEY_COLONS = 2
"""The minimum number of colons in `group:topicId:partition`; the group id may contain more."""


async def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[await _find(key, request.key_type, context) for key in request.coordinator_keys]
        )
    coordinator = await _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


async def _find(key: str, kind: int, context: RequestContext) -> Coordinator:
    try:
        node = await _node(key, kind, context)
    except KafkaError as error:
        return Coordinator(
            key=key, node_id=-1, host="", port=-1, error_code=code_of(error), error_message=error.message
        )
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=None)


async def _node(key: str, kind: int, context: RequestContext) -> Node:
    name = TOPICS.get(kind)
    if kind == SHARE and context.version >= SHARE_SINCE:
        context.require(ACLOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if name is None or (kind == SHARE and context.version < SHARE_SINCE):
        raise InvalidRequestError(f"coordinators of type {kind} are not supported")
    if key is None:
        raise InvalidGroupIdError
    if kind != SHARE:
        context.require(ACLOperation.DESCRIBE, KINDS[kind], key)
    elif key.count(":") < SHARE_KEY_COLONS:
        raise InvalidRequestError(f"{key!r} is not a key group:topicId:partition")
    topic = await topic_creation.create_internal(context.broker, name)
    number = partition_of(key, len(topic.partitions))
    partition = topic.partitions[number]
    broker = context.broker.image.brokers.get(partition.leader)
    if partition.leader == NO_LEADER or broker is None:
        raise CoordinatorNotAvailableError(
            f"The coordinator is not available: {name}-{number} has no leader; start one of its brokers: "
            f"{', '.join(map(str, partition.isr))}."
        )
    return broker.node(context.connection.listener.name)
