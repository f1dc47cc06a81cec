"""A partition that a stream reads, and the queue of chunks between its fetcher and its stream."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from ottla.legacy.requests import MessageAndOffset
from ottla.model import TopicPartition

INVALID_OFFSET: Final = -1
"""The offset if none was committed: auto.offset.reset selects the start."""


class PartitionTopicInfo:
    """The fetched offset of a partition (set by the fetcher), and its consumed offset (set by the stream).

    `drop()` ends fetching and consuming at once, so that the committed offset is final.
    """

    def __init__(self, partition: TopicPartition, queue: ChunkQueue, offset: int) -> None:
        self.partition = partition
        self.queue = queue
        self.fetch_offset = offset
        self._consume_offset = offset
        self._dropped = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.partition} fetched to {self.fetch_offset}, consumed to {self._consume_offset}>"

    @property
    def dropped(self) -> bool:
        """Whether the partition was released."""
        return self._dropped

    @property
    def consume_offset(self) -> int:
        """The offset after the last consumed message; INVALID_OFFSET before the start offset is known."""
        return self._consume_offset

    def drop(self) -> None:
        """Release the partition. Thread-safe."""
        with self._lock:
            self._dropped = True

    def reset(self, offset: int) -> None:
        """Continue at another offset. Called by the fetcher's thread while the queue has no older messages."""
        with self._lock:
            self.fetch_offset = self._consume_offset = offset

    def consume(self, message: MessageAndOffset) -> bool:
        """Consume a message: return False if the partition was released or the message was consumed before."""
        with self._lock:
            if self._dropped or message.offset < self._consume_offset:
                return False
            self._consume_offset = message.next_offset
            return True


class FetchedDataChunk(NamedTuple):
    """The messages of one fetch of a partition; without messages, the first was larger than fetch.message.max.bytes."""

    info: PartitionTopicInfo
    fetch_offset: int
    messages: tuple[MessageAndOffset, ...]


class ChunkQueue:
    """At most `capacity` chunks for one stream. Fetchers put, the stream's user takes."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._chunks: deque[FetchedDataChunk] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, chunk: FetchedDataChunk) -> bool:
        """Add a chunk when there is space, and return False if its partition is released, or the queue closed,
        before.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or chunk.info.dropped or len(self._chunks) < self._capacity)
            if self._closed or chunk.info.dropped:
                return False
            self._chunks.append(chunk)
            self._changed.notify_all()
            return True

    def poll(self, timeout: float | None) -> FetchedDataChunk | None:
        """Return the next chunk; None if none arrives within `timeout` seconds, and at once if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._chunks), timeout)
            if self._closed or not self._chunks:
                return None
            self._changed.notify_all()
            return self._chunks.popleft()

    def clear_dropped(self) -> None:
        """Drop chunks of released partitions, and wake the fetchers that wait with one."""
        with self._changed:
            self._chunks = deque(chunk for chunk in self._chunks if not chunk.info.dropped)
            self._changed.notify_all()

    def close(self) -> None:
        """Drop all chunks and wake the waiting threads."""
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the queue was closed."""
        return self._closed
