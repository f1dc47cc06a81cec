"""Incremental fetch sessions (KIP-227) on the fetching side: after a full request, the next ones contain only changes.

Consumers and follower replicas use them. The broker's side is `broker.sessions`.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from ottla import errors
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)

BY_NAME: Final = 12
"""The last Fetch version with topic names; later ones have topic ids."""
BY_ID: Final = 18
FULL: Final = 0
FINAL: Final = -1
"""Session epochs of requests: FULL begins a session; FINAL ends it, or fetches without a session."""
NO_SESSION: Final = 0
NO_ID: Final = UUID(int=0)


class FetchPosition(NamedTuple):
    """The position from which a partition is fetched."""

    offset: int
    leader_epoch: int
    topic_id: UUID = NO_ID
    last_fetched_epoch: int = -1
    log_start: int = -1
    """The replica's log start offset; like `last_fetched_epoch`, only replicas set it."""


class FetchLimits(NamedTuple):
    """Limits and options of a whole fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    isolation_level: int = 0
    rack_id: str = ""
    replica: ReplicaState | None = None
    sessions: bool = True
    """Whether the broker is to keep a fetch session."""


class FetchSessionHandler:
    """The fetching side of a session with one broker."""

    __slots__ = ("_by_id", "epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FULL
        self.sent: dict[TopicPartition, FetchPosition] = {}
        """The partitions of the session, with the positions of the last request."""
        self._by_id = True

    def forget(self) -> None:
        """Forget the session, so that the next request does not refer to it."""
        self.id = NO_SESSION
        self.restart()

    def restart(self) -> None:
        """Let the next request contain all partitions. If it begins a new session, the broker drops the old one."""
        self.epoch = FULL
        self.sent = {}

    def request(self, partitions: dict[TopicPartition, FetchPosition], terms: FetchLimits) -> tuple[FetchRequest, int]:
        """Return the request for `partitions`, and its newest usable version.

        The request contains all partitions if it begins a session or fetches without one, otherwise only the
        differences from the last request.
        """
        if not terms.sessions:
            self.forget()
            self.epoch = FINAL
        by_id = all(place.topic_id != NO_ID for place in partitions.values())
        if by_id is not self._by_id:
            self._by_id = by_id
            self.sent = {}
            self.epoch = min(self.epoch, FULL)
        new = {tp: place for tp, place in partitions.items() if self.sent.get(tp) != place}
        removed = {tp: place for tp, place in self.sent.items() if self._is_gone(place, partitions.get(tp))}
        self.sent = dict(partitions)
        return self._request(new, removed, terms), BY_ID if by_id else BY_NAME

    def _is_gone(self, sent: FetchPosition, now: FetchPosition | None) -> bool:
        """Return whether a partition was removed, or its topic deleted and created again, with another id."""
        # Mostly the id is the same object, and UUIDs are compared in Python code.
        return now is None or (now.topic_id is not sent.topic_id and now.topic_id != sent.topic_id)

    def _request(
        self, new: dict[TopicPartition, FetchPosition], removed: dict[TopicPartition, FetchPosition], terms: FetchLimits
    ) -> FetchRequest:
        topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
        for tp, place in new.items():
            partition = FetchPartition(
                partition=tp.partition,
                current_leader_epoch=place.leader_epoch,
                fetch_offset=place.offset,
                last_fetched_epoch=place.last_fetched_epoch,
                log_start_offset=place.log_start,
                partition_max_bytes=terms.partition_max_bytes,
            )
            topics.setdefault((tp.topic, place.topic_id), []).append(partition)
        forgotten: dict[tuple[str, UUID], list[int]] = {}
        for tp, place in removed.items():
            forgotten.setdefault((tp.topic, place.topic_id), []).append(tp.partition)
        return FetchRequest(
            replica_state=terms.replica,
            max_wait_ms=terms.max_wait_ms,
            min_bytes=terms.min_bytes,
            max_bytes=terms.max_bytes,
            isolation_level=terms.isolation_level,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=name, topic_id=i, partitions=p) for (name, i), p in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic=name, topic_id=i, partitions=p) for (name, i), p in forgotten.items()
            ],
            rack_id=terms.rack_id,
        )

    def last_request(self) -> FetchRequest | None:
        """Return the request that closes the session at the broker; None if there is no session.

        The broker can then use the session's slot for another reader at once.
        """
        if self.id == NO_SESSION:
            return None
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=self.id, session_epoch=FINAL)

    def handle_response(self, response: FetchResponse) -> bool:
        """Apply a response. Return False if it has an error as a whole; the next request then has all partitions."""
        if response.error_code:
            if response.error_code == errors.FetchSessionIdNotFoundError.code:
                self.forget()
            else:
                self.restart()
            return False
        if response.session_id == NO_SESSION:
            self.forget()
        else:
            self.id = response.session_id
            self.epoch = 1 if self.epoch >= 0x7FFFFFFF else self.epoch + 1
        return True
