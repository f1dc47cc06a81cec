"""Reads committed records from brokers, for programs on any machine."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, Final

from ottla import KafkaConsumer, TopicPartition
from ottla.records.columns import Columns
from ottla_tables.errors import TableError

POLL_MS: Final = 500
STALL_SECONDS: Final = 30.0
"""Time in seconds without progress after which `read_tail` raises TableError."""


def read_tail(
    configs: Mapping[str, Any], starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Generator[tuple[int, Columns], None, None]:
    """Yield partition numbers and committed records: those with start <= offset < end of each partition.

    `configs`: consumer configs. Raises OffsetOutOfRangeError if the first records were deleted, and TableError if no
    position advances within `STALL_SECONDS`.
    """
    ends = {tp: end for tp, end in ends.items() if starts[tp] < end}
    if not ends:
        return
    own = {"isolation.level": "read_committed", "auto.offset.reset": "none", "enable.auto.commit": False}
    with KafkaConsumer({**configs, **own, "group.id": None}) as consumer:
        consumer.assign(ends)
        for tp in ends:
            consumer.seek(tp, starts[tp])
        deadline = time.monotonic() + STALL_SECONDS
        positions = dict(starts)
        open_partitions = set(ends)
        while open_partitions:
            for tp, columns in consumer.poll_batch(POLL_MS, headers=True, until=ends).items():
                yield tp.partition, columns
            before, positions = positions, {tp: consumer.position(tp) for tp in ends}
            if positions != before:
                # Not before the records are yielded, as the caller may take its time. Aborted ones are progress, too.
                deadline = time.monotonic() + STALL_SECONDS
            reached = {tp for tp in open_partitions if positions[tp] >= ends[tp]}
            consumer.pause(*reached)
            open_partitions -= reached
            if time.monotonic() > deadline:
                raise TableError(f"no records of {sorted(open_partitions)[0]} within {STALL_SECONDS:.0f} s")
