"""OffsetForLeaderEpoch: where a leader epoch ends, so that a reader notices a log that was cut (KIP-320).

Served in all versions. Who asks has to be allowed to describe the topic, or to act for the cluster, as followers do.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.broker.services import Call
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


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    """Look up each partition."""
    refused: Collection[str] = ()
    if not call.is_broker:
        names = {t.topic for t in request.topics}
        is_replica = request.replica_id >= 0
        refused = names if is_replica else call.refused(ACLOperation.DESCRIBE, ResourceType.TOPIC, names)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=t.topic, partitions=[_answer(t.topic, p, call, refused) for p in t.partitions]
            )
            for t in request.topics
        ]
    )


def _answer(topic: str, want: OffsetForLeaderPartition, call: Call, refused: Collection[str]) -> EpochEndOffset:
    services = call.services
    try:
        if topic in refused:
            raise TopicAuthorizationFailedError
        partition = services.partitions.leader(services.image, TopicPartition(topic, want.partition))
        partition.check_epoch(want.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=want.partition, error_code=code_of(error))
    log = partition.log
    if log.leader_epochs.latest < want.leader_epoch <= partition.image.leader_epoch:
        # an epoch in which nothing was written (each start has one) ends where the log ends
        return EpochEndOffset(partition=want.partition, leader_epoch=want.leader_epoch, end_offset=log.log_end_offset)
    epoch, end = log.end_offset_for_epoch(want.leader_epoch)
    return EpochEndOffset(partition=want.partition, leader_epoch=epoch, end_offset=end)
