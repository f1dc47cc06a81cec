"""The history of a run: the results that its clients received, in order. Any thread may append to its lists."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

from ottla.model import TopicPartition

ORDERED: Final = "ordered"
"""The topic of the idempotent producers. Its records are also the source records of the transfers."""
TRANSFERS: Final = "transfers"
"""The topic to which transactional producers write."""
UNCLEAN: Final = "unclean"
"""The topic whose out-of-sync replicas may become leaders (unclean leader election)."""


class SentRecord(NamedTuple):
    """A record of an idempotent producer: the parts of its value."""

    producer: str
    partition: int
    sequence: int

    @property
    def value(self) -> bytes:
        return f"{self.producer} {self.partition} {self.sequence}".encode()

    @classmethod
    def parse(cls, value: bytes) -> SentRecord:
        producer, partition, sequence = value.decode().split(" ")
        return cls(producer, int(partition), int(sequence))


class Ack(NamedTuple):
    """The acknowledgement of a record. `offset` is None if the broker responded that the record is a duplicate."""

    at: float
    sent: SentRecord
    offset: int | None


class Outcome(Enum):
    """The outcome of a transaction, as far as its client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class TransferRecord(NamedTuple):
    """One of the two records that a transfer writes for a source record: the parts of its value."""

    worker: str
    attempt: int
    source: int
    side: int

    @property
    def value(self) -> bytes:
        return f"{self.worker} {self.attempt} {self.source} {self.side}".encode()

    @classmethod
    def parse(cls, value: bytes) -> TransferRecord:
        worker, attempt, source, side = value.decode().split(" ")
        return cls(worker, int(attempt), int(source), int(side))


@dataclass
class Attempt:
    """One transaction: the source records that it transferred, and its outcome."""

    worker: str
    number: int
    sources: tuple[int, ...]
    outcome: Outcome = Outcome.UNKNOWN
    at: float = 0.0

    @property
    def records(self) -> set[TransferRecord]:
        return {TransferRecord(self.worker, self.number, source, side) for source in self.sources for side in (0, 1)}


class Assigned(NamedTuple):
    """The event that a member of the group was assigned a partition."""

    at: float
    member: str
    tp: TopicPartition
    generation: int = -1
    """The generation in the classic protocol; -1 in the consumer protocol."""


class Consumed(NamedTuple):
    """The event that a member of the group received a record."""

    at: float
    member: str
    tp: TopicPartition
    offset: int


class Committed(NamedTuple):
    """The event that a member received the coordinator's confirmation of a committed position."""

    at: float
    member: str
    tp: TopicPartition
    position: int


class StoredRecord(NamedTuple):
    """A record that is in the log at the end of the run."""

    tp: TopicPartition
    offset: int
    value: bytes


@dataclass
class History:
    """The history of one run."""

    acks: list[Ack] = field(default_factory=list)
    failed_deliveries: list[tuple[float, SentRecord, str]] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    """The reasons why clients ended before they were stopped, or producers had wrong results, by name."""
    attempts: list[Attempt] = field(default_factory=list)
    transferred: dict[str, int | None] = field(default_factory=dict)
    """The source offset that is committed at the end of the run, by worker; None if it could not be determined."""
    group: list[Assigned | Consumed | Committed] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the clients have to stop."""
    calm: threading.Event = field(default_factory=threading.Event)
    """Set when the faults have ended: the cluster has to recover, and topics are no longer changed."""
    on_ack: Callable[[Ack], object] | None = None
    """Called with each acknowledgement."""
    violations: list[str] = field(default_factory=list)
    """Requests that brokers accepted although they had to reject them, and other violations found by clients."""

    def acknowledged(self, ack: Ack) -> None:
        """Add an acknowledgement, and call `on_ack` with it."""
        self.acks.append(ack)
        if self.on_ack is not None:
            self.on_ack(ack)

    def written_since(self, moment: float) -> set[int]:
        """Return the partitions of ORDERED in which a record was acknowledged after this virtual time."""
        later = takewhile(lambda ack: ack.at > moment, reversed(list(self.acks)))
        return {ack.sent.partition for ack in later}

    def consumed_since(self, moment: float) -> set[TopicPartition]:
        """Return the partitions from which the group has received a record after this virtual time."""
        later = takewhile(lambda event: event.at > moment, reversed(list(self.group)))
        return {event.tp for event in later if isinstance(event, Consumed)}

    def write(self, path: Path) -> None:
        """Write a line for each event, without the violations, for the analysis of a failed run."""
        events = [*self.acks, *self.failed_deliveries, *self.ended.items(), *self.attempts]
        events += [*self.transferred.items(), *self.group]
        path.write_text("".join(f"{event}\n" for event in events))
