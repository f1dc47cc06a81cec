"""ShareAcknowledge: acknowledge records that a member of a share group has acquired (KIP-932)."""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker import leader_discovery
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.share_fetch import SharePartitionReader
from ottla.broker.sessions.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey
from ottla.errors import InvalidRequestError, InvalidShareSessionEpochError
from ottla.model import ACLOperation, TopicIdPartition
from ottla.protocol.messages import share_acknowledge as m
from ottla.security.acl import ResourceType


def handle(request: m.ShareAcknowledgeRequest, context: RequestContext) -> Awaitable[m.ShareAcknowledgeResponse]:
    """Apply the acknowledgements of each partition.

    The last request of a session releases all records that are still acquired.
    """
    if not request.group_id or not request.member_id:
        raise InvalidRequestError("group id and member id are required")
    context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
    if request.share_session_epoch == INITIAL_EPOCH:
        raise InvalidShareSessionEpochError
    key = SessionKey(request.group_id, request.member_id)
    context.broker.share_sessions.next_epoch(key, request.share_session_epoch)
    return _answer(request, SharePartitionReader(context, key), context)


async def _answer(
    request: m.ShareAcknowledgeRequest, reader: SharePartitionReader, context: RequestContext
) -> m.ShareAcknowledgeResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            tip = TopicIdPartition(topic.topic_id, partition.partition_index)
            code = await reader.acknowledge(tip, partition.acknowledgement_batches)
            answers.append(m.PartitionData(partition_index=partition.partition_index, error_code=code))
        topics.append(m.ShareAcknowledgeTopicResponse(topic_id=topic.topic_id, partitions=answers))
    if request.share_session_epoch == FINAL_EPOCH:
        reader.release()
    lock_ms = context.broker.share_partitions.configs.record_lock_ms(request.group_id or "")
    response = m.ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_ms, responses=topics)
    leader_discovery.add_leaders_to_share_response(context, response)
    return response
