"""Sending many records as columns: `send_batch` takes lists or Arrow arrays, and usually creates no object per record.

There is no I/O here: `append_table` yields the size of each buffer that it needs, so that each of the two producers can
wait for memory in its own way.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Container, Generator, Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from ottla.client.core.futures import ProduceRequestResult
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import PartitionQueue, TopicQueues
from ottla.clock import now_ms
from ottla.errors import KafkaTimeoutError
from ottla.model import TopicPartition
from ottla.records.batch import HEADER_BYTES
from ottla.records.builder import record_size_upper_bound
from ottla.records.columns import BinaryColumn, Columns
from ottla.records.murmur2 import all_rows, bytes_in_list, list_rows_by_partition, rows_by_partition

LARGE_BATCH_BYTES: Final = 256 * 1024
"""Maximum size in bytes of a columnar batch, unless batch.size or its first record is larger."""


class Table(NamedTuple):
    """The records of one call as columns. `rows` is their number."""

    rows: int
    timestamps: memoryview | int
    """The timestamp of each row (int64), or one for all rows, in milliseconds since 1970."""
    keys: BinaryColumn | list[bytes | None] | None
    values: BinaryColumn | list[bytes | None]
    """Values and keys (if any) are both columns, or both lists of bytes and None."""
    nbytes: int
    """Bytes of all keys and values."""


class SentRange(NamedTuple):
    """Consecutive records in a partition. With acks=0 the base offset is -1."""

    topic_partition: TopicPartition
    base_offset: int
    records: int


class BatchFuture:
    """The future of send_batch, for all of its records. It can be awaited."""

    def __init__(self, parts: list[tuple[ProduceRequestResult, int]]) -> None:
        self._parts = parts

    def done(self) -> bool:
        """Return whether every record was acknowledged or has failed."""
        return all(outcome.done for outcome, _ in self._parts)

    def get(self, timeout: float | None = None) -> list[SentRange]:
        """Wait until each record is acknowledged or has failed, and return the ranges of offsets.

        Raises the error of the first range that failed, or KafkaTimeoutError after `timeout` seconds (None: no limit).
        In the event loop of an asyncio producer, raises IllegalStateError unless the future is done.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for outcome, _ in self._parts:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not outcome.wait(left):
                raise KafkaTimeoutError(f"{outcome.tp}: no acknowledgement within {timeout:g} s")
        return self._sent_ranges()

    result = get

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        for outcome, _ in self._parts:
            yield from outcome.wait_in_loop()
        return self._sent_ranges()

    def _sent_ranges(self) -> list[SentRange]:
        return [sent for outcome, count in self._parts for sent in _ranges(outcome, count)]


def _ranges(outcome: ProduceRequestResult, count: int) -> list[SentRange]:
    if outcome.parts is not None:
        ends = [first for first, _ in outcome.parts[1:]] + [count]
        return [r for (first, part), end in zip(outcome.parts, ends, strict=True) for r in _ranges(part, end - first)]
    if outcome.error is not None:
        raise outcome.error
    return [SentRange(outcome.tp, outcome.base_offset, count)]


def table(values: Any, keys: Any, timestamps_ms: Any) -> Table:
    """Create the columns of a call. Keys and values are lists of bytes, str or None, Arrow arrays of binary or string,
    or pandas or Polars series. Values can also be the `Columns` of a consumer, which have keys and timestamps. Raises
    ValueError if lengths differ, or for columns with headers, and TypeError for items of other types.
    """
    if isinstance(values, Columns):
        return _of_columns(values)
    rows = len(values)
    if keys is not None and len(keys) != rows:
        raise ValueError(f"{len(keys)} keys for {rows} values")
    times = _timestamps(timestamps_ms, rows)
    if isinstance(values, (list, tuple)) and (keys is None or isinstance(keys, (list, tuple))):
        value_list, nbytes = _bytes_list(values)
        key_list, key_bytes = (None, 0) if keys is None else _bytes_list(keys)
        return Table(rows, times, key_list, value_list, nbytes + key_bytes)
    return _of_binary(rows, times, None if keys is None else column(keys), column(values))


def _of_binary(rows: int, times: memoryview | int, keys: BinaryColumn | None, values: BinaryColumn) -> Table:
    nbytes = _bytes_of(values, rows) + (0 if keys is None else _bytes_of(keys, rows))
    return Table(rows, times, keys, values, nbytes)


def _of_columns(columns: Columns) -> Table:
    if columns.headers is not None and columns.headers.offsets[columns.rows]:
        raise ValueError("send_batch() sends no headers; use send() for these records")
    return _of_binary(columns.rows, columns.timestamps, columns.keys, columns.values)


def column(items: Any) -> BinaryColumn:
    """Create a column from a list, an Arrow array, or a pandas or Polars series."""
    if not isinstance(items, (list, tuple)) and _is_arrow(items):
        return BinaryColumn.from_arrow(items)
    rows, _ = _bytes_list(items)
    offsets = array("i", [0, *accumulate(0 if row is None else len(row) for row in rows)])
    validity = bytearray((len(rows) >> 3) + 1)
    for number, row in enumerate(rows):
        if row is not None:
            validity[number >> 3] |= 1 << (number & 7)
    return BinaryColumn(memoryview(offsets), b"".join(filter(None, rows)), validity, rows.count(None))


def _bytes_list(items: Iterable[Any]) -> tuple[list[bytes | None], int]:
    """Return the items as bytes and None, and the number of bytes of all items. A str is encoded as UTF-8. Raises
    TypeError for items that are not bytes, bytearray, str or None.
    """
    rows = list(items)  # the caller may change its list while it waits for memory
    nbytes = bytes_in_list(rows)
    if nbytes < 0:
        rows = [_bytes(item) for item in rows]
        nbytes = bytes_in_list(rows)
    return rows, nbytes


def _bytes(item: Any) -> bytes | None:
    if isinstance(item, str):
        return item.encode()
    if item is not None and not isinstance(item, (bytes, bytearray)):
        raise TypeError("each row must be bytes, str or None")
    return item if item is None else bytes(item)


def _is_arrow(items: Any) -> bool:
    """Return whether this is an Arrow array or can be converted to one."""
    return any(hasattr(items, name) for name in ("buffers", "chunks", "__arrow_c_stream__", "__arrow_array__", "dtype"))


def _timestamps(timestamps: Any, rows: int) -> memoryview | int:
    if timestamps is None:
        return now_ms()
    if isinstance(timestamps, int):
        return timestamps
    if len(timestamps) != rows:
        raise ValueError(f"{len(timestamps)} timestamps for {rows} values")
    if hasattr(timestamps, "buffers"):
        if timestamps.null_count or str(timestamps.type).partition("[")[0] not in ("int64", "timestamp"):
            raise TypeError("timestamps must be int64 or timestamp[ms], without nulls")
        if str(timestamps.type).startswith("timestamp") and not str(timestamps.type).startswith("timestamp[ms"):
            raise TypeError(f"timestamps must be in milliseconds, not {timestamps.type}")
        return memoryview(timestamps.buffers()[1]).cast("B").cast("q")[timestamps.offset : timestamps.offset + rows]
    return memoryview(array("q", timestamps))


def rows_by_key(rows_table: Table, queues: TopicQueues, sticky: Any, *, ignore_keys: bool) -> dict[int, array[int]]:
    """Return the row numbers by partition, which the hash of the key chooses. Rows without a key go to the sticky
    partition; with `ignore_keys`, all rows do.
    """
    if rows_table.keys is None or ignore_keys:
        keyless, by_partition = all_rows(rows_table.rows), {}
    else:
        if isinstance(rows_table.keys, list):
            *by_key, keyless = list_rows_by_partition(rows_table.keys, queues.count)
        else:
            *by_key, keyless = rows_by_partition(rows_table.keys, rows_table.rows, queues.count)
        by_partition = {number: rows for number, rows in enumerate(by_key) if rows}
    if keyless:
        chosen = sticky(queues, len(keyless) * 100)
        by_partition[chosen] = array("q", sorted([*by_partition.get(chosen, ()), *keyless]))
    return by_partition


def rows_by_choice(
    rows_table: Table, choose: Callable[[bytes | None, bytes | None, Container[int]], int]
) -> dict[int, array[int]]:
    """Return the row numbers by partition. `choose` gets the key and the value of each row, and the partitions of the
    rows before it.
    """
    by_partition: dict[int, array[int]] = {}
    keys, values = rows_table.keys, rows_table.values
    for row in range(rows_table.rows):
        partition = choose(None if keys is None else _value(keys, row), _value(values, row), by_partition)
        by_partition.setdefault(partition, array("q")).append(row)
    return by_partition


def append_table(
    accumulator: Accumulator,
    rows_table: Table,
    queue: PartitionQueue,
    rows: Sequence[int],
    check_size: Callable[[int], None],
    largest: int,
) -> Generator[int, bytearray, list[tuple[ProduceRequestResult, int]]]:
    """Append rows to batches of one partition. Yields the size of each buffer that it needs, and is sent the buffer.
    Returns the result and the number of records of each batch.

    `check_size` raises an error if the first row of a batch is too large. A row larger than `largest` is always the
    first one, so it is always checked.
    """
    numbers = memoryview(array("q", rows) if not isinstance(rows, array) else rows)
    parts: list[tuple[ProduceRequestResult, int]] = []
    at = 0
    while at < len(numbers):
        least = _row_bound(rows_table, numbers[at])
        check_size(least)
        buffer = yield max(min(_room(accumulator, rows_table, len(numbers) - at), largest), least)
        batch = accumulator.private_batch(queue, buffer)
        builder = batch.open.builder
        append: Any = builder.append_list if isinstance(rows_table.values, list) else builder.append_columns
        reached = append(rows_table.timestamps, rows_table.keys, rows_table.values, numbers, at)
        assert reached > at, "a new buffer has room for its first record"
        accumulator.add_closed(queue, batch)
        parts.append((batch.outcome, reached - at))
        at = reached
    return parts


def _room(accumulator: Accumulator, rows_table: Table, rows: int) -> int:
    """Return the size in bytes of the next buffer for `rows` remaining rows, estimated from the average of all rows.

    It may exceed batch.size, which is meant for batches that wait for further records. Here all records are available,
    and larger batches are cheaper; but one call must not use up the memory.
    """
    average = record_size_upper_bound(0, rows_table.nbytes // rows_table.rows + 1)
    most = min(LARGE_BATCH_BYTES, accumulator.pool.total // 16)
    return max(accumulator.batch_bytes, min(HEADER_BYTES + average * rows, most))


def _bytes_of(items: BinaryColumn, rows: int) -> int:
    return int(items.offsets[items.first + rows] - items.offsets[items.first])


def _row_bound(rows_table: Table, row: int) -> int:
    """Return the maximum size in bytes of a batch with only this row."""
    key = 0 if rows_table.keys is None else _size(rows_table.keys, row)
    return record_size_upper_bound(key, _size(rows_table.values, row))


def _value(items: BinaryColumn | list[bytes | None], row: int) -> bytes | None:
    return items[row] if isinstance(items, list) else items.get(row)


def _size(items: BinaryColumn | list[bytes | None], row: int) -> int:
    if isinstance(items, list):
        return len(items[row] or b"")
    i = items.first + row
    size: int = items.offsets[i + 1] - items.offsets[i]
    return size
