"""The history of a load: everything that its clients have seen, in that order. Threads may add to its lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

ORDERED: Final = "ordered"
"""The topic of the idempotent producers."""
TRANSFERS: Final = "transfers"
"""The topic of the transactional producers."""
UNCLEAN: Final = "unclean"
"""The topic of which replicas may lead that are not in sync."""


class Sent(NamedTuple):
    """A record of an ordered producer, and what it says."""

    producer: str
    partition: int
    sequence: int

    @property
    def value(self) -> bytes:
        return f"{self.producer} {self.partition} {self.sequence}".encode()

    @classmethod
    def of(cls, value: bytes) -> Sent:
        producer, partition, sequence = value.decode().split(" ")
        return cls(producer, int(partition), int(sequence))


class Ack(NamedTuple):
    """The broker has confirmed that this record is written; offset None: that it was written earlier."""

    at: float
    sent: Sent
    offset: int | None


class Outcome(Enum):
    """The end of a transaction, as its client has seen it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Half(NamedTuple):
    """One of the two records that a transfer makes of a source record."""

    worker: str
    attempt: int
    source: int
    side: int

    @property
    def value(self) -> bytes:
        return f"{self.worker} {self.attempt} {self.source} {self.side}".encode()

    @classmethod
    def of(cls, value: bytes) -> Half:
        worker, attempt, source, side = value.decode().split(" ")
        return cls(worker, int(attempt), int(source), int(side))


@dataclass
class Attempt:
    """One transaction: the source records it took, and how it ended."""

    worker: str
    number: int
    sources: tuple[int, ...]
    outcome: Outcome = Outcome.UNKNOWN
    at: float = 0.0

    @property
    def halves(self) -> set[Half]:
        return {Half(self.worker, self.number, source, side) for source in self.sources for side in (0, 1)}


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


class Assigned(NamedTuple):
    """A member of the group was assigned a partition."""

    at: float
    member: str
    place: Place
    generation: int = -1
    """Of the classic protocol; -1 otherwise."""


class Taken(NamedTuple):
    """A member of the group received a record."""

    at: float
    member: str
    place: Place
    offset: int


class Committed(NamedTuple):
    """The coordinator has confirmed that this position is committed."""

    at: float
    member: str
    place: Place
    position: int


class Stored(NamedTuple):
    """A record that is in the log at the end of the run."""

    place: Place
    offset: int
    value: bytes


@dataclass
class History:
    """Everything that was seen in a run."""

    acks: list[Ack] = field(default_factory=list)
    refused: list[tuple[float, Sent, str]] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    """Producers that ended before they were stopped, and why."""
    attempts: list[Attempt] = field(default_factory=list)
    transferred: dict[str, int | None] = field(default_factory=dict)
    """Per worker, the source offset that is committed in the end."""
    group: list[Assigned | Taken | Committed] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the load is to end."""
    calm: threading.Event = field(default_factory=threading.Event)
    """Set when the faults have ended: the cluster has to recover, and topics are not changed any more."""
    on_ack: Callable[[Ack], object] | None = None
    """Called with each acknowledgement."""
    violations: list[str] = field(default_factory=list)
    """Requests that were answered although they had to be rejected."""

    def acknowledged(self, ack: Ack) -> None:
        """Add an acknowledgement."""
        self.acks.append(ack)
        if self.on_ack is not None:
            self.on_ack(ack)

    def written_since(self, moment: float) -> set[int]:
        """Partitions of which a record was acknowledged since then."""
        later = takewhile(lambda ack: ack.at > moment, reversed(list(self.acks)))
        return {ack.sent.partition for ack in later}

    def taken_since(self, moment: float) -> set[Place]:
        """Partitions of which the group has received a record since then."""
        later = takewhile(lambda event: event.at > moment, reversed(list(self.group)))
        return {event.place for event in later if isinstance(event, Taken)}

    def write(self, path: Path) -> None:
        """Write a line per event, for the analysis of a failed run."""
        seen = [*self.acks, *self.refused, *self.ended.items(), *self.attempts, *self.transferred.items(), *self.group]
        path.write_text("".join(f"{one}\n" for one in seen))
