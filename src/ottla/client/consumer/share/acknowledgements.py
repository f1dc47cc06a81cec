"""Acknowledgements of acquired records, and their form in requests. Kafka's `Acknowledgements`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple
from uuid import UUID

from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.protocol.messages.share_acknowledge import AcknowledgementBatch

GAP: Final = 0
"""The acknowledgement type of an acquired offset without a data record, for example after compaction, or with a control
record.
"""


class AcknowledgeType(IntEnum):
    """The result of processing a record: ACCEPT (done), RELEASE (deliver it again), REJECT (never deliver it again),
    RENEW (processing continues: extend the acquisition lock).
    """

    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Source(NamedTuple):
    """The source of acquired records. They must be acknowledged in the share session with the broker `node`."""

    tp: TopicPartition
    topic_id: UUID
    node: int


class Acknowledgements:
    """Acknowledgements of records from one source that are sent in the same request."""

    __slots__ = ("done", "source", "types")

    def __init__(self, source: Source, types: Mapping[int, int]) -> None:
        self.source = source
        self.types = types
        """The acknowledgement type of each offset."""
        self.done: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
        """The result: None for success, or the error with which the acknowledgements failed."""

    @property
    def renews(self) -> bool:
        """Whether any of the acknowledgements renews an acquisition lock."""
        return AcknowledgeType.RENEW in self.types.values()

    def complete(self, error: KafkaError | None) -> None:
        """Set the result, unless there is one already."""
        if not self.done.done():
            self.done.set_result(error)


def acknowledgement_batches(types: Mapping[int, int]) -> list[AcknowledgementBatch]:
    """Return the acknowledgements in the form of requests: one batch per run of consecutive offsets."""
    return [_batch(run, types) for run in _runs(sorted(types))]


def _runs(offsets: list[int]) -> Iterable[list[int]]:
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(offsets), 1) if b != a + 1), len(offsets)]
    return (offsets[start:end] for start, end in pairwise(starts) if end > start)


def _batch(run: list[int], types: Mapping[int, int]) -> AcknowledgementBatch:
    each = [types[offset] for offset in run]
    same = len(set(each)) == 1
    return AcknowledgementBatch(first_offset=run[0], last_offset=run[-1], acknowledge_types=each[:1] if same else each)
