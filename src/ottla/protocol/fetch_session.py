"""What a broker remembers of a reader's fetches (KIP-227), so that requests only name what has changed.

The reader's side, for consumers and for replicas.
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
"""The last version that names topics; from 13 on they have their ids."""
BY_ID: Final = 18
FULL: Final = 0
FINAL: Final = -1
"""Epochs of a request: that begins a session, and that ends it; without a session, the latter wants none."""
NO_SESSION: Final = 0
NO_ID: Final = UUID(int=0)


class FetchPosition(NamedTuple):
    """Where a partition is to be fetched from."""

    offset: int
    leader_epoch: int
    topic_id: UUID = NO_ID
    last_fetched_epoch: int = -1
    log_start: int = -1
    """Of a replica, as is the epoch of its last record."""


class FetchLimits(NamedTuple):
    """What holds for a request as a whole."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    isolation_level: int = 0
    rack_id: str = ""
    replica: ReplicaState | None = None
    sessions: bool = True
    """Whether the broker is asked to keep a session."""


class FetchSessionHandler:
    """The session with one broker. One request is on its way at a time."""

    __slots__ = ("_by_id", "epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FULL
        self.sent: dict[TopicPartition, FetchPosition] = {}
        """Partitions of the session, and the places that the broker goes by."""
        self._by_id = True

    def forget(self) -> None:
        """Begin a new session with the next request; the broker has lost the old one."""
        self.id = NO_SESSION
        self.restart()

    def restart(self) -> None:
        """Begin a new session with the next request; the broker drops the old one then, if it has it."""
        self.epoch = FULL
        self.sent = {}

    def request(self, partitions: dict[TopicPartition, FetchPosition], terms: FetchLimits) -> tuple[FetchRequest, int]:
        """The request for `wanted` and the newest version for it: all of it at first, then the differences."""
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
        """Return whether a partition was removed; so is one of a topic that was created again, with another id."""
        return now is None or now.topic_id != sent.topic_id

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
        """What ends the session at the broker, so that it need not keep it until others take its place."""
        if self.id == NO_SESSION:
            return None
        return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=self.id, session_epoch=FINAL)

    def answered(self, response: FetchResponse) -> bool:
        """Apply a response; return False if the session was lost and the request must be sent again in full."""
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
