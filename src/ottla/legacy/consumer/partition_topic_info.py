"""A partition that is read by a stream, and the queue between fetcher threads and a stream."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from ottla.legacy.requests import MessageAndOffset
from ottla.model import TopicPartition

INVALID_OFFSET: Final = -1
"""The offset of a partition without a committed offset. The start is then determined by auto.offset.reset."""


class PartitionTopicInfo:
    """A partition with the next offset to fetch, which the fetcher thread advances, and the next offset to consume,
    which the stream advances.

    After `drop()` no message is consumed, so that the offset can be committed before the partition is released.
    """

    def __init__(self, partition: TopicPartition, queue: ChunkQueue, offset: int) -> None:
        self.partition = partition
        self.queue = queue
        self.fetch_offset: int = offset
        self._consume_offset = offset
        self._dropped = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<{self.partition} fetched to {self.fetch_offset}, consumed to {self._consume_offset}>"

    @property
    def dropped(self) -> bool:
        """Whether `drop()` was called."""
        return self._dropped

    @property
    def consume_offset(self) -> int:
        """The next offset to consume. INVALID_OFFSET until the offset to start at is known."""
        return self._consume_offset

    def drop(self) -> None:
        """Let no further messages be consumed. Thread-safe."""
        with self._lock:
            self._dropped = True

    def reset(self, offset: int) -> None:
        """Set the next offset to fetch and consume. Called by the fetcher thread if there is no offset to start at, or
        if the offset is out of range.
        """
        with self._lock:
            self.fetch_offset = self._consume_offset = offset

    def consume(self, message: MessageAndOffset) -> bool:
        """Advance the next offset to consume past a message. Return False if the message must be skipped, because the
        partition was dropped or the message precedes that offset.
        """
        with self._lock:
            if self._dropped or message.offset < self._consume_offset:
                return False
            self._consume_offset = message.next_offset
            return True


class FetchedDataChunk(NamedTuple):
    """The messages of a partition from one fetch, from `fetch_offset` on. There are none if the first one exceeds
    fetch.message.max.bytes.
    """

    info: PartitionTopicInfo
    fetch_offset: int
    messages: tuple[MessageAndOffset, ...]


class ChunkQueue:
    """A queue of at most `capacity` chunks. Fetcher threads put chunks, and the user of the stream takes them."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._chunks: deque[FetchedDataChunk] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, chunk: FetchedDataChunk) -> bool:
        """Wait for space and add a chunk. Return False, without adding it, if its partition was dropped or the queue is
        closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or chunk.info.dropped or len(self._chunks) < self._capacity)
            if self._closed or chunk.info.dropped:
                return False
            self._chunks.append(chunk)
            self._changed.notify_all()
            return True

    def poll(self, timeout: float | None) -> FetchedDataChunk | None:
        """Return the next chunk. Return None if there is none within `timeout` seconds (None: wait without limit), or
        if the queue is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._chunks), timeout)
            if self._closed or not self._chunks:
                return None
            self._changed.notify_all()
            return self._chunks.popleft()

    def clear_dropped(self) -> None:
        """Remove the chunks of dropped partitions, and wake fetcher threads that wait for space."""
        with self._changed:
            self._chunks = deque(chunk for chunk in self._chunks if not chunk.info.dropped)
            self._changed.notify_all()

    def close(self) -> None:
        """Close the queue: remove all chunks, and wake all waiting threads."""
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the queue was closed."""
        return self._closed
