"""Looking up offsets to plan ranges, and reading planned ranges: the client API for Spark's driver and executors.

    with Planner({"bootstrap.servers": "localhost:9092"}) as planner:
        ends = planner.end_offsets(planner.partitions(["topic"]))

    for columns in read_range("localhost:9092", TopicPartition("topic", 0), 0, 1000, {}):
        …

All calls block, with a time limit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from ottla.client.consumer.consumer import KafkaConsumer
from ottla.errors import KafkaTimeoutError
from ottla.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    OffsetAndTimestamp,
    TopicPartition,
)
from ottla.records.columns import Columns

PARTITION_FETCH_BYTES: Final = 4 * 1024 * 1024
"""Default of max.partition.fetch.bytes in `read_range`. It is larger than the consumer's, because whole ranges are
read.
"""
POLL_TIMEOUT_MS: Final = 120_000
"""Maximum time in milliseconds without progress in a range, as Spark's kafkaConsumer.pollTimeoutMs."""


class _TopicConsumer(KafkaConsumer):
    """A consumer that can look up the ids of topics."""

    def topic_ids(self) -> dict[str, UUID]:
        """Return the ids of all topics that this client is authorized to describe, by name."""
        return self._run(self._core.topic_metadata.topic_ids(self.config.default_api_timeout_ms / 1000))


class Planner:
    """Looks up topics, partitions and offsets. `options` are consumer configs with Kafka's names. There is no group."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._consumer = _TopicConsumer({**options, "group.id": None})
        self.topic_ids: dict[str, UUID] = {}
        """The ids of all topics by name, at the last call of `topics`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def topics(self, pattern: str | None = None) -> set[str]:
        """Return the names of all topics, or of those that match the regular expression `pattern` anywhere in the
        name.
        """
        self.topic_ids = self._consumer.topic_ids()
        if pattern is None:
            return set(self.topic_ids)
        compiled = re.compile(pattern)
        return {topic for topic in self.topic_ids if compiled.search(topic)}

    def partitions(self, topics: Iterable[str]) -> set[TopicPartition]:
        """Return the current partitions of topics; none of an unknown topic, unless the broker creates it."""
        numbered = set()
        for topic in topics:
            numbers = self._consumer.partitions_for_topic(topic)
            numbered |= {TopicPartition(topic, number) for number in numbers or ()}
        return numbered

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the earliest offset of each partition."""
        return self._consumer.beginning_offsets(partitions)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: the high watermark or, with read_committed, the last stable
        offset.
        """
        return self._consumer.end_offsets(partitions)

    def offsets_for(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the offset and timestamp of the first record at or after a time in milliseconds since 1970; None if
        there is no such record.

        -2 and -1 stand for the earliest and latest offset.
        """
        special = {tp: ts for tp, ts in timestamps.items() if ts in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)}
        times = {tp: ts for tp, ts in timestamps.items() if tp not in special}
        offsets = self._consumer.offsets_for_times(times) if times else {}
        for timestamp, look_up in (
            (EARLIEST_TIMESTAMP, self._consumer.beginning_offsets),
            (LATEST_TIMESTAMP, self._consumer.end_offsets),
        ):
            partitions = [tp for tp, ts in special.items() if ts == timestamp]
            if partitions:
                offsets.update({tp: OffsetAndTimestamp(offset, -1) for tp, offset in look_up(partitions).items()})
        return offsets

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


def offsets_for(
    bootstrap: str, timestamps: Mapping[TopicPartition, int], options: Mapping[str, Any]
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Look up offsets by time with a planner that is closed afterwards; see `Planner.offsets_for`."""
    with Planner({**options, "bootstrap.servers": bootstrap}) as planner:
        return planner.offsets_for(timestamps)


def read_range(
    bootstrap: str,
    tp: TopicPartition,
    start_offset: int,
    end_offset: int,
    options: Mapping[str, Any],
    *,
    headers: bool = False,
    poll_timeout_ms: float = POLL_TIMEOUT_MS,
) -> Iterator[Columns]:
    """Yield the records with start_offset <= offset < end_offset as columns, part by part.

    Offsets without a record (compacted, control and, with read_committed, aborted records) are skipped. Raises, for
    example, OffsetOutOfRangeError if the next offset to read is not (or no longer) in the log, and KafkaTimeoutError if
    there is no progress for `poll_timeout_ms`.
    """
    settings = {
        "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
        **options,
        "bootstrap.servers": bootstrap,
        "group.id": None,
        "auto.offset.reset": "none",
    }
    with KafkaConsumer(settings) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, start_offset)
        last_progress = time.monotonic()
        position = start_offset
        while position < end_offset:
            columns = consumer.poll_batch(1000, headers=headers, until={tp: end_offset})
            moved = consumer.position(tp)
            if moved > position:
                position, last_progress = moved, time.monotonic()
            elif time.monotonic() - last_progress > poll_timeout_ms / 1000:
                raise KafkaTimeoutError(f"{tp}: no record arrived at offset {position} within {poll_timeout_ms:g} ms")
            yield from columns.values()
