"""The client's side of a share session with one broker. Kafka's `ShareSessionHandler`.

The broker stores the partitions of the session; a request contains the session's epoch and only the changes.
Acknowledgements belong to the session: the request that opens a session cannot contain any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla.client.consumer.share.acknowledgements import Acknowledgements, acknowledgement_batches
from ottla.model import TopicIdPartition
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

Batches = dict[TopicIdPartition, list[AcknowledgementBatch]]


class ShareFetchLimits(NamedTuple):
    """The limits of all share fetches of a consumer."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    acquire_mode: int


class ShareSessionHandler:
    """The epoch and the partitions of the share session with one broker. Creates its requests."""

    def __init__(self, group_id: str, limits: ShareFetchLimits) -> None:
        self.group_id = group_id
        self.limits = limits
        self.epoch = INITIAL_EPOCH
        self.partitions: set[TopicIdPartition] = set()

    @property
    def is_open(self) -> bool:
        """Whether the broker has a session for this client, as far as known, so that it accepts acknowledgements."""
        return self.epoch != INITIAL_EPOCH

    def succeeded(self) -> None:
        """Advance the epoch after a response without a top-level error."""
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def restart(self) -> None:
        """Let the next fetch open a new session, because this one has ended or its state is unknown."""
        self.epoch = INITIAL_EPOCH
        self.partitions = set()

    def fetch_request(
        self, member_id: str, partitions: Iterable[TopicIdPartition], acknowledgements: Iterable[Acknowledgements]
    ) -> ShareFetchRequest:
        """Return a request that fetches from `partitions` and contains acknowledgements."""
        current = set(partitions)
        batches = _batches(acknowledgements)
        added = current - self.partitions
        forgotten = self.partitions - current
        self.partitions = current
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=self.limits.max_wait_ms,
            min_bytes=self.limits.min_bytes,
            max_bytes=self.limits.max_bytes,
            max_records=self.limits.max_records,
            batch_size=self.limits.max_records,
            share_acquire_mode=self.limits.acquire_mode,
        )
        request.topics = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition_index=tip.partition, acknowledgement_batches=batches.get(tip, []))
                    for tip in tips
                ],
            )
            for topic_id, tips in by_topic({*added, *batches}).items()
        ]
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=topic_id, partitions=[tip.partition for tip in tips])
            for topic_id, tips in by_topic(forgotten).items()
        ]
        return request

    def acknowledge_request(
        self, member_id: str, acknowledgements: Iterable[Acknowledgements], *, final: bool = False
    ) -> ShareAcknowledgeRequest:
        """Return a request with acknowledgements only. If `final` is set, it also closes the session."""
        sent = list(acknowledgements)
        batches = _batches(sent)
        return ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=member_id,
            share_session_epoch=FINAL_EPOCH if final else self.epoch,
            is_renew_ack=any(some.renews for some in sent),
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        AcknowledgePartition(partition_index=tip.partition, acknowledgement_batches=batches[tip])
                        for tip in tips
                    ],
                )
                for topic_id, tips in by_topic(batches).items()
            ],
        )


def _batches(acknowledgements: Iterable[Acknowledgements]) -> Batches:
    types: dict[TopicIdPartition, dict[int, int]] = {}
    for some in acknowledgements:
        types.setdefault(TopicIdPartition(some.source.topic_id, some.source.tp.partition), {}).update(some.types)
    return {tip: acknowledgement_batches(by_offset) for tip, by_offset in types.items()}


def by_topic(partitions: Iterable[TopicIdPartition]) -> Mapping[UUID, list[TopicIdPartition]]:
    """Return the partitions by topic id, in a stable order."""
    topics: dict[UUID, list[TopicIdPartition]] = {}
    for tip in sorted(partitions, key=lambda tip: (tip.topic_id.int, tip.partition)):
        topics.setdefault(tip.topic_id, []).append(tip)
    return topics
