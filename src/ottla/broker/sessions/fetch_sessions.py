"""Fetch sessions (KIP-227): a client sends its partitions once; later requests and responses contain only changes.

A session belongs to a client and has an id; each request carries the next epoch. Epoch 0 opens a session, -1 fetches
without one or closes the one that it names. The number of sessions is limited. At the limit, a new session evicts the
one that was idle longest, if that was for at least two minutes. Without that minimum, clients would evict each other's
sessions all the time. A client without a session gets full responses. Not thread-safe: event loop only.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ottla.errors import FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

if TYPE_CHECKING:
    from ottla.replication.isr_state import Replica
    from ottla.replication.partition import Partition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
MAX_PARTITIONS = 10_000
"""Maximum number of partitions of a session, about 5 MB. A client with more gets no session."""
EVICTION_SECONDS = 120.0
"""Minimum idle time in seconds of a session that is evicted, as in Kafka, where it is a constant too."""


class PartitionKey(NamedTuple):
    """A partition as the client named it: by topic name up to version 12, by id from 13 on."""

    topic: str
    topic_id: UUID
    partition: int


class CachedPartition:
    """One partition of a fetch: the client's request for it, and the offsets to compare the next response with."""

    __slots__ = ("follower", "high_watermark", "log_start_offset", "partition", "request")

    def __init__(self, request: FetchPartition) -> None:
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1
        self.partition: Partition | None = None
        """In a follower's session: the partition on this broker; None until it is read, and again after `change`."""
        self.follower: Replica | None = None
        """In a follower's session: the leader's state of that follower; None until it has read the partition."""

    def change(self, request: FetchPartition) -> None:
        """Store the client's new offset or limits."""
        self.request = request
        self.partition = None

    def is_quiet(self, now: float, broker_epoch: int) -> bool:
        """Return whether there is certainly nothing to send to the follower, which then counts as caught up.

        Most partitions are quiet.

        Return False if the follower has registered again since its last fetch of the partition: the leader needs the
        new broker epoch, or the controller would reject the follower as a member of the ISR. Return False, too, if a
        fetch of an earlier session that was delayed in the network has set the follower's end offset back.
        """
        partition, follower = self.partition, self.follower
        if partition is None or follower is None or not partition.leads or partition.closed:
            return False
        if partition.leader_replica.needs_confirmation:
            return False
        log, request = partition.log, self.request
        if (
            request.fetch_offset != log.log_end_offset
            or request.current_leader_epoch != partition.image.leader_epoch
            or follower.broker_epoch < broker_epoch
            or follower.log_end != request.fetch_offset
            or self.high_watermark != log.high_watermark
            or self.log_start_offset != log.log_start_offset
        ):
            return False
        follower.caught_up_at = now
        return True

    def news(self, data: PartitionData) -> bool:
        """Return whether an incremental response must contain this partition, and store its offsets for the next
        comparison.
        """
        has_news = bool(
            data.error_code
            or (data.records is not None and data.records.nbytes)
            or data.high_watermark != self.high_watermark
            or data.log_start_offset != self.log_start_offset
            or data.diverging_epoch is not None
            or data.preferred_read_replica >= 0
        )
        # a client uses the other fields neither with an error nor if it has to truncate its log: it gets them again
        is_used = not data.error_code and data.diverging_epoch is None
        self.high_watermark = data.high_watermark if is_used else -1
        self.log_start_offset = data.log_start_offset
        return has_news


class FetchSession:
    """The session of one client: its partitions, in the order in which they are served."""

    __slots__ = ("answered_at", "epoch", "id", "partitions", "used", "uses_ids")

    def __init__(self, session_id: int, uses_ids: bool, now: float) -> None:
        self.used = now
        self.id = session_id
        self.epoch = 1
        self.uses_ids = uses_ids
        self.answered_at = float("-inf")
        """The time when the last response was created. The client sends its next request only after that."""
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Add, change and remove the partitions that the request names."""
        for key, request_partition in requested_partitions(request):
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(request_partition)
            else:
                cached.change(request_partition)
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                self.partitions.pop(PartitionKey(topic.topic, topic.topic_id, partition), None)

    def served(self, key: PartitionKey) -> None:
        """Move a partition that returned data to the end, so that the size limit does not starve other partitions."""
        self.partitions.move_to_end(key)


class FetchContext(NamedTuple):
    """The partitions that one request reads, and its fetch session; `session` is None for a request without one."""

    partitions: list[tuple[PartitionKey, CachedPartition]]
    session: FetchSession | None
    incremental: bool

    @property
    def session_id(self) -> int:
        """The session id of the response."""
        return self.session.id if self.session is not None else NO_SESSION


class FetchSessions:
    """All fetch sessions of this broker."""

    def __init__(self, slots: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._slots = slots
        self._monotonic = monotonic
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def partitions(self, session_id: int) -> list[PartitionKey]:
        """Return the keys of a session's partitions; an empty list if there is no such session."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def context(self, request: FetchRequest, version: int) -> FetchContext:
        """Return the partitions and the session of a request; open a session if the request asks for one and names
        partitions, and the limits allow it.

        Epochs 0 and -1 close the session that the request names.

        Raises FetchSessionIdNotFoundError, InvalidFetchSessionEpochError or FetchSessionTopicIdError, after which a
        client opens a new session.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            partitions = [
                (key, CachedPartition(request_partition)) for key, request_partition in requested_partitions(request)
            ]
            if len(partitions) > 1:
                partitions = list(dict(partitions).items())  # the last of duplicates counts, as in Kafka
            session = None
            if request.session_epoch == INITIAL_EPOCH and partitions:
                session = self._open(partitions, version)
            return FetchContext(partitions, session, incremental=False)
        return self._continue(request, version)

    def _open(self, partitions: list[tuple[PartitionKey, CachedPartition]], version: int) -> FetchSession | None:
        if len(partitions) > MAX_PARTITIONS:
            return None  # the client names all partitions each time, and nothing is kept
        now = self._monotonic()
        if len(self._sessions) >= self._slots and not self._make_room(now):
            return None
        session_id = random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = random.randrange(1, 2**31)
        session = self._sessions[session_id] = FetchSession(session_id, version >= 13, now)
        session.partitions.update(partitions)
        return session

    def _make_room(self, now: float) -> bool:
        """Evict the session that was idle longest, if it was idle for `EVICTION_SECONDS`.

        Return whether it was evicted.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.used < EVICTION_SECONDS:
            return False
        del self._sessions[oldest.id]
        return True

    def _continue(self, request: FetchRequest, version: int) -> FetchContext:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFoundError
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpochError
        if session.uses_ids != (version >= 13):
            raise FetchSessionTopicIdError
        self._sessions.move_to_end(session.id)
        session.used = self._monotonic()
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.update(request)
        if len(session.partitions) > MAX_PARTITIONS:
            del self._sessions[session.id]
            raise FetchSessionIdNotFoundError
        return FetchContext(list(session.partitions.items()), session, incremental=True)


def requested_partitions(request: FetchRequest) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    """Yield the key and the content of every partition in `request.topics`."""
    for topic in request.topics:
        for partition in topic.partitions:
            yield PartitionKey(topic.topic, topic.topic_id, partition.partition), partition
