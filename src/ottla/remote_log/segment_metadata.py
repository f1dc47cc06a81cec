"""The metadata of a segment in remote storage, and its states. Kafka's RemoteLogSegmentMetadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.model import TopicPartition


class RemoteLogSegmentState(IntEnum):
    """The states of a segment, with Kafka's numbers."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


State = RemoteLogSegmentState
TRANSITIONS: Final = {
    State.COPY_SEGMENT_STARTED: frozenset({State.COPY_SEGMENT_FINISHED, State.DELETE_SEGMENT_STARTED}),
    State.COPY_SEGMENT_FINISHED: frozenset({State.DELETE_SEGMENT_STARTED}),
    State.DELETE_SEGMENT_STARTED: frozenset({State.DELETE_SEGMENT_FINISHED}),
    State.DELETE_SEGMENT_FINISHED: frozenset[State](),
}
"""The states that may follow each state. Other updates are ignored, for example those of a former leader."""


class RemotePartition(NamedTuple):
    """A partition, identified by the id of its topic: a new topic of the same name is another one."""

    topic_id: UUID
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SegmentEpoch(NamedTuple):
    """A leader epoch and its first offset in a segment."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """One copy of a segment. `end_offset` is that of its last record; `size` that of its `.log` file in bytes."""

    partition: RemotePartition
    id: UUID
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    size: int
    leader_epochs: tuple[SegmentEpoch, ...]
    """The epochs of its records, in ascending order."""
    state: RemoteLogSegmentState = State.COPY_SEGMENT_STARTED
    custom_metadata: bytes | None = None
    txn_index_empty: bool = False

    @property
    def next_offset(self) -> int:
        """The offset after the last record."""
        return self.end_offset + 1

    @property
    def is_readable(self) -> bool:
        """Whether the copy is complete, and not being deleted."""
        return self.state is State.COPY_SEGMENT_FINISHED

    def update(self, event: RemoteLogSegmentUpdate) -> RemoteLogSegmentMetadata:
        """Return the metadata after an update."""
        custom = self.custom_metadata if event.custom_metadata is None else event.custom_metadata
        return replace(
            self,
            state=event.state,
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            custom_metadata=custom,
        )

    def epoch_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Yield each epoch that has offsets in the segment, with the first and the last of them."""
        ends = [epoch.start_offset - 1 for epoch in self.leader_epochs[1:]] + [self.end_offset]
        for (epoch, start), end in zip(self.leader_epochs, ends, strict=True):
            if start <= end:
                yield epoch, max(start, self.start_offset), end


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentUpdate:
    """A new state of a segment."""

    partition: RemotePartition
    id: UUID
    state: RemoteLogSegmentState
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None = None


class RemotePartitionDeletion(NamedTuple):
    """A state of the deletion of a whole partition, which Kafka's brokers write. It has no effect here, because the
    segments are deleted one by one.
    """

    partition: RemotePartition
    state: int
    broker_id: int
    event_timestamp_ms: int


RemoteLogEvent = RemoteLogSegmentMetadata | RemoteLogSegmentUpdate | RemotePartitionDeletion
