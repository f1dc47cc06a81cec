"""OffsetForLeaderEpoch: the end offset of a leader epoch, with which clients detect that a log was truncated (KIP-320).

Requires DESCRIBE on the topic. Followers need CLUSTER_ACTION on the cluster instead.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.request_context import RequestContext
from ottla.errors import KafkaError, TopicAuthorizationFailedError, code_of
from ottla.model import ACLOperation, TopicPartition
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from ottla.security.acl import ResourceType


def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    unauthorized: Collection[str] = ()
    if not context.is_broker:
        names = {t.topic for t in request.topics}
        is_replica = request.replica_id >= 0
        unauthorized = (
            names if is_replica else context.unauthorized_errors(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)
        )
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=t.topic, partitions=[_answer(t.topic, p, context, unauthorized) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


def _answer(
    topic: str, requested: OffsetForLeaderPartition, context: RequestContext, unauthorized: Collection[str]
) -> EpochEndOffset:
    broker = context.broker
    try:
        if topic in unauthorized:
            raise TopicAuthorizationFailedError
        partition = broker.partitions.leader(broker.image, TopicPartition(topic, requested.partition))
        partition.check_epoch(requested.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=requested.partition, error_code=code_of(error))
    log = partition.log
    if log.leader_epochs.latest < requested.leader_epoch <= partition.image.leader_epoch:
        # the requested epoch has no records (each start of the broker begins one), so it ends at the log end offset
        return EpochEndOffset(
            partition=requested.partition, leader_epoch=requested.leader_epoch, end_offset=log.log_end_offset
        )
    epoch, end = log.end_offset_for_epoch(requested.leader_epoch)
    return EpochEndOffset(partition=requested.partition, leader_epoch=epoch, end_offset=end)
