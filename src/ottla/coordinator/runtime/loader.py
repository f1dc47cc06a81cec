"""Which partitions of an internal topic this broker coordinates, and how their state comes into memory and goes again.

A coordinator hears when this broker begins to lead a partition of its topic, which is then read from the beginning, and
when it leads no more: all that was kept in memory of that partition is forgotten. Keys of a partition that is being
read are not answered for. Long partitions are read in slices, one after the other and each in turn, so that nobody has
to wait for long; one that is short is there at once. Kafka's `CoordinatorLoader`. Loop thread.

A broker that goes on to lead under a new epoch keeps the state: nobody else has written to the partition since.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final, Protocol, TypeVar

from ottla.errors import CoordinatorLoadInProgressError, NotCoordinatorError
from ottla.model import TopicPartition
from ottla.records.batch import BatchHeader
from ottla.replication.partition import Partition
from ottla.storage.log import Log

log = logging.getLogger("ottla.coordinator")

SLICE_RECORDS: Final = 500
"""Records that are read before others have their turn: some milliseconds."""

K = TypeVar("K")
V = TypeVar("V")


class State(Protocol):
    """What a coordinator keeps in memory of its topic's partitions."""

    def read(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Take a batch of the partition's log over; how many records that were."""
        ...

    def loaded(self, index: int) -> None:
        """All of the partition is in memory."""
        ...

    def unload(self, index: int) -> None:
        """Forget everything of the partition; who waits is told to look for the coordinator again."""
        ...


class Shard:
    """One partition, for as long as this broker leads it."""

    __slots__ = ("_batches", "_log", "_position", "failed", "loaded", "partition", "records")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.loaded = False
        self.failed = False
        self.records = 0
        """How many were read."""
        self._position = 0
        self._log: Log | None = None
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())

    @property
    def index(self) -> int:
        """Its number."""
        return self.partition.topic_partition.partition

    def read_slice(self, state: State) -> bool:
        """Read on for a while; whether that was all. What is appended meanwhile is read, too."""
        if self._log is not self.partition.log:  # at first, and when the log has moved to another directory
            self._log = self.partition.log
            self._batches = self._log.batches_from(self._position)
        end = self.records + SLICE_RECORDS
        for header, data in self._batches:
            self._position = header.next_offset
            self.records += state.read(self.index, header, data)
            if self.records >= end:
                return False
        return True


class Shards:
    """The partitions of one topic that this broker coordinates. A LeadershipListener."""

    def __init__(self, topic: str, state: State) -> None:
        self._topic = topic
        self._state = state
        self._shards: dict[int, Shard] = {}
        self._unread: deque[Shard] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._closed = False

    def led(self, partition: Partition) -> None:
        """This broker leads a partition: read it."""
        tp = partition.topic_partition
        if tp.topic != self._topic or self._closed:
            return
        known = self._shards.get(tp.partition)
        if known is not None and known.partition is partition and not known.failed:
            return
        self.resigned(tp)
        shard = self._shards[tp.partition] = Shard(partition)
        if self._unread or not self._read(shard):
            self._unread.append(shard)
            if self._reading is None:
                self._reading = asyncio.get_running_loop().create_task(self._read_all())

    def resigned(self, tp: TopicPartition) -> None:
        """Another broker leads it, or nobody: forget it."""
        if tp.topic == self._topic and self._shards.pop(tp.partition, None) is not None:
            self._state.unload(tp.partition)

    def partition(self, index: int) -> Partition:
        """The partition of that number, to append to. Raises why there is no answer for its keys."""
        shard = self._shards.get(index)
        if shard is None or shard.failed or self._closed:
            raise NotCoordinatorError
        if not shard.loaded:
            raise CoordinatorLoadInProgressError
        return shard.partition

    def is_loaded(self, index: int) -> bool:
        """Whether the partition is led here, and in memory."""
        shard = self._shards.get(index)
        return shard is not None and shard.loaded

    @property
    def are_loading(self) -> bool:
        """Whether one of them is being read."""
        return bool(self._unread)

    @property
    def indexes(self) -> list[int]:
        """The partitions that are in memory."""
        return [shard.index for shard in self._shards.values() if shard.loaded]

    async def all_loaded(self) -> None:
        """Wait until nothing is being read."""
        while self._reading is not None:
            await asyncio.wait([self._reading])

    def close(self) -> None:
        """This broker coordinates nothing any more."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()

    async def _read_all(self) -> None:
        try:
            while self._unread:
                shard = self._unread.popleft()
                if self._shards.get(shard.index) is not shard:
                    continue  # led no more
                if not self._read(shard):
                    self._unread.append(shard)
                await asyncio.sleep(0)
        finally:
            self._reading = None

    def _read(self, shard: Shard) -> bool:
        """Read on; whether there is nothing left to do for it."""
        try:
            if not shard.read_slice(self._state):
                return False
            shard.loaded = True
            self._state.loaded(shard.index)
        except Exception:
            # a disk, or a bug: this broker cannot answer for the partition, but goes on with the others
            log.exception("%s cannot be read", shard.partition.topic_partition)
            shard.loaded, shard.failed = False, True
            self._state.unload(shard.index)
        if shard.records:
            log.info("%s: %d records read", shard.partition.topic_partition, shard.records)
        return True


class ShardedMap(MutableMapping[K, V]):
    """What a coordinator keeps, by its key, with the keys of each partition: those that go when it goes."""

    def __init__(self, index: Callable[[K], int]) -> None:
        self._index = index
        self._values: dict[K, V] = {}
        self._keys: dict[int, set[K]] = {}

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __setitem__(self, key: K, value: V) -> None:
        if key not in self._values:
            self._keys.setdefault(self._index(key), set()).add(key)
        self._values[key] = value

    def __delitem__(self, key: K) -> None:
        del self._values[key]
        # not by its index, which nobody knows once the topic is deleted; a topic has some fifty partitions
        for keys in self._keys.values():
            keys.discard(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys_of(self, index: int) -> list[K]:
        """The keys of a partition."""
        return list(self._keys.get(index, ()))

    def of(self, index: int) -> list[V]:
        """What is kept of a partition."""
        return [self._values[key] for key in self.keys_of(index)]

    def drop(self, index: int) -> dict[K, V]:
        """Forget a partition; what was kept of it."""
        return {key: self._values.pop(key) for key in self._keys.pop(index, ())}
