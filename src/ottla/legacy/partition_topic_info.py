"""A partition that a stream reads, and the queue of chunks between its fetcher and its stream."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final, NamedTuple

from ottla.legacy.requests import MessageAndOffset
from ottla.model import TopicPartition

INVALID_OFFSET: Final = -1
"""No offset was committed: auto.offset.reset decides where to start."""


class PartitionTopicInfo:
    """How far a partition was fetched (the fetcher's), and how far it was handed out (the stream's).

    `drop()` ends both at once: from then on nothing is fetched or handed out, so that what is committed is final.
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
        """Whether it was given up."""
        return self._dropped

    @property
    def consume_offset(self) -> int:
        """The offset behind the last message that was handed out; INVALID_OFFSET before where to begin is known."""
        return self._consume_offset

    def drop(self) -> None:
        """Give it up. Any thread."""
        with self._lock:
            self._dropped = True

    def reset(self, offset: int) -> None:
        """Begin at another offset. Fetcher's thread, when nothing is queued that could be older."""
        with self._lock:
            self.fetch_offset = self._consume_offset = offset

    def consume(self, message: MessageAndOffset) -> bool:
        """Hand a message out: False where the partition was given up, or the message was handed out before."""
        with self._lock:
            if self._dropped or message.offset < self._consume_offset:
                return False
            self._consume_offset = message.next_offset
            return True


class FetchedDataChunk(NamedTuple):
    """What one fetch brought of a partition; without messages, the first was larger than a fetch may be."""

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
        """Add a chunk when there is room; False where its partition is given up, or the queue closed, before."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or chunk.info.dropped or len(self._chunks) < self._capacity)
            if self._closed or chunk.info.dropped:
                return False
            self._chunks.append(chunk)
            self._changed.notify_all()
            return True

    def poll(self, timeout: float | None) -> FetchedDataChunk | None:
        """The next chunk; None when none comes within `timeout` seconds, and at once when the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._chunks), timeout)
            if self._closed or not self._chunks:
                return None
            self._changed.notify_all()
            return self._chunks.popleft()

    def clear_dropped(self) -> None:
        """Throw away chunks of partitions that are given up, and wake who waits with one."""
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
        """Whether nothing will come any more."""
        return self._closed
