"""Reads records that are no longer in a partition's directory: if the topic is tiered, the broker reads them from
remote storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

from ottla.model import TopicPartition
from ottla_tables.log.lookup import EARLIEST, Lookup
from ottla_tables.log.segments import CHUNK_ROWS, Chunk
from ottla_tables.log.tail import read_tail

CONFIGS: Final = {"max.poll.records": CHUNK_ROWS, "client.id": "ottla-tables"}


class TieredRecords:
    """Reads records from brokers with a consumer.

    Args:
        lookup: looks up offsets.
        configs: configs of the consumer.
    """

    def __init__(self, lookup: Lookup, configs: Mapping[str, Any]) -> None:
        self._lookup = lookup
        self._configs = {**CONFIGS, **configs}

    def first_offset(self, tp: TopicPartition) -> int | None:
        """Return the first offset of a partition, including remote storage; None if it cannot be looked up, for
        example while the partition has no leader.
        """
        return self._lookup.offsets([tp], EARLIEST).get(tp)

    def read(self, tp: TopicPartition, start: int, end: int) -> Iterator[Chunk]:
        """Yield the committed records from the offset `start` up to, but not including, the offset `end`."""
        with closing(read_tail(self._configs, {tp: start}, {tp: end})) as batches:
            for _, columns in batches:
                if columns.rows:
                    yield Chunk(columns, columns.offsets[columns.rows - 1] + 1)
