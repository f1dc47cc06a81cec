"""Share sessions: the partitions that a member of a share group reads, kept between its requests (KIP-932)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from ottla.clock import Clock
from ottla.errors import InvalidShareSessionEpochError, ShareSessionLimitReachedError, ShareSessionNotFoundError
from ottla.model import TopicIdPartition

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1


class SessionKey(NamedTuple):
    """The owner of a session."""

    group_id: str
    member_id: str


MAX_PARTITIONS = 10_000
"""Maximum number of partitions of a session."""


class ShareSession:
    """One session. Partitions that returned records move to the end, so that they do not starve the others."""

    __slots__ = ("epoch", "partitions", "used")

    def __init__(self) -> None:
        self.epoch = 1
        self.used = 0.0
        self.partitions: OrderedDict[TopicIdPartition, None] = OrderedDict()

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add and remove the partitions that a request names.

        Raises ShareSessionLimitReachedError if there are more than MAX_PARTITIONS partitions before any is removed.
        """
        for partition in added:
            self.partitions[partition] = None
            if len(self.partitions) > MAX_PARTITIONS:
                raise ShareSessionLimitReachedError(f"a share session may have at most {MAX_PARTITIONS} partitions")
        for partition in forgotten:
            self.partitions.pop(partition, None)


class ShareSessions:
    """All share sessions of this broker. At the limit, sessions of inactive members are evicted."""

    def __init__(self, limit: int, idle_ms: int, clock: Clock) -> None:
        self._limit = limit
        self._idle_seconds = idle_ms / 1000
        self._clock = clock
        self._sessions: dict[SessionKey, ShareSession] = {}
        self.evictions = 0
        """The number of sessions of inactive members that were closed to make room for others."""

    def open(self, key: SessionKey) -> ShareSession:
        """Open a session, which replaces the member's previous one.

        Raises ShareSessionLimitReachedError if the limit is reached and no session can be evicted.
        """
        if key not in self._sessions and len(self._sessions) >= self._limit:
            self._drop_silent()
        if key not in self._sessions and len(self._sessions) >= self._limit:
            raise ShareSessionLimitReachedError
        session = self._sessions[key] = ShareSession()
        session.used = self._clock.monotonic()
        return session

    def next_epoch(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request, and advance its epoch. The final epoch closes the session.

        Raises ShareSessionNotFoundError or InvalidShareSessionEpochError.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFoundError
        if epoch == FINAL_EPOCH:
            del self._sessions[key]
        elif epoch != session.epoch:
            raise InvalidShareSessionEpochError
        else:
            session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
            session.used = self._clock.monotonic()
        return session

    def is_current(self, key: SessionKey, session: ShareSession) -> bool:
        """Return whether a session is the member's current one."""
        return self._sessions.get(key) is session

    def close(self, key: SessionKey, session: ShareSession) -> bool:
        """Close a session, because its connection is closed. Return whether it was the member's current one."""
        if not self.is_current(key, session):
            return False
        del self._sessions[key]
        return True

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return any(key.group_id == group_id for key in self._sessions)

    def _drop_silent(self) -> None:
        since = self._clock.monotonic() - self._idle_seconds
        before = len(self._sessions)
        self._sessions = {key: session for key, session in self._sessions.items() if session.used >= since}
        self.evictions += before - len(self._sessions)

    @property
    def partition_count(self) -> int:
        """The number of partitions of all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)
