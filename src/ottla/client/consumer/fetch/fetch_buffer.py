"""The fetched data that poll() has not returned yet. Kafka's `FetchBuffer` and `FetchCollector`.

The event loop appends data, and sets `is_full`. Everything else is called by the polling thread, or by the event loop
while the polling thread waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.consumer.fetch.completed_fetch import CompletedFetch, Convert
from ottla.client.consumer.fetch.fetch_metrics import FetchMetrics
from ottla.client.consumer.subscription import PartitionState
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.records.column_decoder import MAX_OFFSET, ColumnDecoder
from ottla.records.columns import Columns
from ottla.records.compression import MAX_DECOMPRESSED_BYTES
from ottla.records.consumer_record import ConsumerRecord

Records = dict[TopicPartition, list[ConsumerRecord]]

Before = dict[PartitionState, tuple[int | None, int]]
"""The positions and leader epochs of partitions before a poll."""

COLUMN_BYTES = 16 * 1024 * 1024
"""Limit in bytes for the columns of a partition in one poll. It is checked between the batches of a response, so that
columns may be larger. Compressed data may be a thousand times larger once it is decompressed.
"""


class FetchBuffer:
    """Fetched data in the order of the responses, so that partitions take turns."""

    def __init__(self, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES) -> None:
        self.max_decompressed_bytes = max_decompressed_bytes
        self.completed: deque[CompletedFetch] = deque()
        self.is_full = False
        """Whether the fetcher has paused because the buffer is full. A poll that has returned all data of a partition
        from one response calls `wake`, so that the fetcher checks again.
        """
        self.unreturned: list[PartitionState] = []
        """The partitions of which a poll has taken records without returning them, because an exception such as Ctrl+C
        interrupted it. Their positions are those of before; `drop_stale` lets the records be fetched again.
        """
        self._at_end: list[PartitionState] = []
        """The partitions whose `at_end` is set."""
        self._current: CompletedFetch | None = None
        self.metrics: FetchMetrics | None = None

    def begin_poll(self) -> None:
        """Resume the partitions of which the last poll has returned all records before their offset in `until`."""
        for state in self._at_end:
            state.at_end = False
        self._at_end.clear()

    def drop_stale(self) -> None:
        """Drop data of partitions that are no longer assigned, data that was fetched before a seek, and that of which
        an interrupted poll has taken records. Event loop only.
        """
        while self.unreturned:
            state = self.unreturned.pop()
            if state.position is not None:
                state.restart_fetch()
        stale = [fetched for fetched in self.completed if not fetched.is_current]
        if stale:
            stay = [fetched for fetched in self.completed if fetched.is_current]
            self.completed.clear()
            self.completed.extend(stay)
        if self._current is not None and not self._current.is_current:
            stale.append(self._current)
            self._current = None
        for fetched in stale:
            self._measure(fetched)

    def clear(self) -> None:
        """Drop all data."""
        self.completed.clear()
        self._current = None

    @property
    def has_records(self) -> bool:
        """Whether there is data of a partition that is not paused."""
        current = [self._current] if self._current is not None else []
        return any(not fetched.state.is_paused for fetched in [*current, *self.completed])

    def next_records(
        self, at_most: int, wake: Callable[[], Any], key: Convert | None, value: Convert | None
    ) -> Records:
        """Return up to `at_most` records, and advance the positions. `wake` is called after data was removed, if
        fetching was suspended.
        """
        out: Records = {}
        left = at_most
        skipped: list[CompletedFetch] = []
        before: Before = {}
        try:
            while left > 0:
                fetched = self._next(skipped)
                if fetched is None:
                    break
                before.setdefault(fetched.state, (fetched.state.position, fetched.state.epoch))
                try:
                    rows = fetched.next_records(left, key, value)
                except KafkaError:
                    if out:
                        break
                    raise
                fetched.state.position = fetched.position
                fetched.state.epoch = fetched.epoch
                if not rows:
                    self._drop_empty(fetched, wake)
                    continue
                earlier = out.get(fetched.tp)
                if earlier is None:
                    out[fetched.tp] = rows
                else:
                    earlier += rows
                left -= len(rows)
        except KafkaError:
            raise
        except BaseException:
            self._undo(before)
            raise
        finally:
            self.completed.extendleft(reversed(skipped))
        return out

    def next_columns(
        self, wake: Callable[[], Any], headers: bool, until: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Columns]:
        """Return the data of all partitions that are not paused as columns, and advance the positions. Of a partition
        in `until`, only records before the offset there are returned; the others are left for a later call.

        When a partition has reached COLUMN_BYTES, the remaining data of all partitions is left for the next call.
        """
        decoders: dict[TopicPartition, ColumnDecoder] = {}
        skipped: list[CompletedFetch] = []
        before: Before = {}
        try:
            while (fetched := self._next(skipped)) is not None:
                decoder = decoders.get(fetched.tp)
                if decoder is None:
                    bound = self.max_decompressed_bytes
                    decoder = decoders[fetched.tp] = ColumnDecoder(headers=headers, max_decompressed_bytes=bound)
                end = until.get(fetched.tp, MAX_OFFSET)
                before.setdefault(fetched.state, (fetched.state.position, fetched.state.epoch))
                try:
                    if not _decode(fetched, decoder, end):
                        break
                except KafkaError:
                    if any(decoder.row_count for decoder in decoders.values()):
                        break  # return what was intact; the next call raises again
                    raise
                if fetched.position < fetched.end_offset:
                    fetched.state.at_end = True
                    self._at_end.append(fetched.state)
                else:
                    self._drop_empty(fetched, wake)
        except KafkaError:
            raise
        except BaseException:
            self._undo(before)
            raise
        finally:
            self.completed.extendleft(reversed(skipped))
        return {tp: decoder.drain() for tp, decoder in decoders.items() if decoder.row_count}

    def _undo(self, before: Before) -> None:
        """Restore the positions of before an interrupted poll. Otherwise, a commit would include its records."""
        for state, (position, epoch) in before.items():
            state.position, state.epoch = position, epoch
            self.unreturned.append(state)

    def _next(self, skipped: list[CompletedFetch]) -> CompletedFetch | None:
        """Return the next data to decode. Data of paused partitions is put into `skipped`, outdated data is dropped."""
        while True:
            fetched = self._current
            if fetched is None:
                if not self.completed:
                    return None
                fetched = self._current = self.completed.popleft()
                if self.metrics is not None:
                    self.metrics.partition_metrics(fetched.state)
            if not fetched.is_current:
                self._measure(fetched)
                self._current = None
            elif fetched.state.is_paused:
                skipped.append(fetched)
                self._current = None
            else:
                return fetched

    def _drop_empty(self, fetched: CompletedFetch, wake: Callable[[], Any]) -> None:
        state = fetched.state
        state.taken_bytes += fetched.nbytes
        self._current = None
        self._measure(fetched)
        if state.fetch_suspended or self.is_full:
            state.fetch_suspended = False
            wake()

    def _measure(self, fetched: CompletedFetch) -> None:
        if self.metrics is not None and fetched.totals is not None:
            self.metrics.partition_drained(fetched.state, fetched.nbytes, fetched.returned, fetched.totals)


def _decode(fetched: CompletedFetch, decoder: ColumnDecoder, end: int) -> bool:
    """Decode the records before the offset `end`, and advance to it, or past all data. Return False if other data
    remains for the next poll, because a limit was reached.

    Raises CorruptBatchError for a batch that cannot be decoded, after advancing past the batches before it.
    """
    before = decoder.row_count
    try:
        while fetched.position < end:
            batch = fetched.next_header()
            if batch is None:
                fetched.move(fetched.end_offset, fetched.last_epoch)
                break
            header, start = batch
            if header.base_offset >= end:
                fetched.move(end, fetched.state.epoch)
                break
            try:
                has_room = decoder.add_batch(fetched.data, start, header, fetched.position, end)
            except KafkaError as error:
                raise fetched.unreadable(header, error) from error
            if not has_room:
                return False  # 2 GiB: the next poll starts with this batch
            if header.next_offset > end:
                fetched.move(end, header.leader_epoch)
                break
            fetched.decoded()
            if header.next_offset < fetched.end_offset:
                fetched.move(header.next_offset, header.leader_epoch)
                if decoder.nbytes >= COLUMN_BYTES:
                    return False
    finally:
        fetched.returned += decoder.row_count - before
    return True
