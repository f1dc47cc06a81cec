"""Loading and unloading the partitions of an internal topic. Kafka's `CoordinatorLoader`.

When this broker becomes the leader of a partition of the topic, it replays the partition from its beginning. When it
resigns, it drops the state. Until a partition is loaded, requests for its keys fail. Partitions are read in slices, so
that loading alternates with other partitions and with requests.

A broker that stays the leader in a new epoch keeps the state: no other broker has written to the partition since.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final, Protocol, TypeVar

from ottla.errors import CoordinatorLoadInProgressError, NotCoordinatorError
from ottla.latency import LatencyHistogram
from ottla.model import TopicPartition
from ottla.page_cache import NotCachedError, cached_only
from ottla.records.batch import BatchHeader
from ottla.replication.partition import Partition
from ottla.storage.log import Log

log = logging.getLogger("ottla.coordinator")

SLICE_RECORDS: Final = 500
"""Number of records after which a slice ends, at the end of the current batch. A slice takes some milliseconds."""

K = TypeVar("K")
V = TypeVar("V")


class Shards(Protocol):
    """The state that records are replayed into.

    Kafka's `CoordinatorShard`, but one object for all partitions of the broker.
    """

    def replay_batch(self, index: int, header: BatchHeader, data: memoryview) -> int:
        """Replay a batch of a partition that is being loaded. Return the number of replayed records; 1 for a marker."""
        ...

    def on_loaded(self, index: int) -> None:
        """Called when a partition has been loaded completely."""
        ...

    def on_unloaded(self, index: int) -> None:
        """Drop the state of a partition.

        Fail requests that wait in that state, if there are any, so that clients look up the new coordinator.
        """
        ...


class CoordinatorShard:
    """A partition that this broker leads, and the progress of loading it."""

    __slots__ = ("_batches", "_log", "_missing", "_position", "began", "failed", "loaded", "partition", "records")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.began = time.perf_counter()
        self.loaded = False
        self.failed = False
        self.records = 0
        """The number of records that have been replayed."""
        self._missing: asyncio.Future[None] | None = None
        """The read or write of the log that the next slice has to wait for; None if there is none."""
        self._position = 0
        self._log: Log | None = None
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())

    @property
    def index(self) -> int:
        return self.partition.topic_partition.partition

    def load_slice(self, state: Shards) -> bool:
        """Replay the next slice.

        Return whether the partition is loaded up to the end of the log, including what was appended meanwhile.

        A slice also ends where the log has to be read from disk.
        """
        if self._log is not self.partition.log:  # at first, and after a move to another log directory
            self._log = self.partition.log
            self._batches = self._log.batches_from(self._position)
        end = self.records + SLICE_RECORDS
        try:
            with cached_only():
                for header, data in self._batches:
                    self._position = header.next_offset
                    self.records += state.replay_batch(self.index, header, data)
                    if self.records >= end:
                        return False
        except NotCachedError as missing:
            self._missing, self._log = missing.load(), None
            return False
        self._missing = self.partition.when_written()
        if self._missing is not None:
            self._log = None
            return False
        return True

    async def load_missing(self) -> None:
        """Wait for the read or write that the next slice needs. If there is none, only let other tasks run."""
        missing, self._missing = self._missing, None
        if missing is None:
            await asyncio.sleep(0)
        else:
            await asyncio.wait([missing])  # if it fails, the next slice raises the error


class CoordinatorShards:
    """The partitions of one topic that this broker leads. A LeadershipListener."""

    def __init__(self, topic: str, state: Shards) -> None:
        self._topic = topic
        self._state = state
        self._shards: dict[int, CoordinatorShard] = {}
        self._unloaded: deque[CoordinatorShard] = deque()
        self._loading: asyncio.Task[None] | None = None
        self._closed = False
        self.load_times = LatencyHistogram()
        """Durations of loading a partition in seconds, including the time that it waits for others."""

    def on_leader(self, partition: Partition) -> None:
        """Start to load a partition that this broker leads, unless it is loaded or being loaded already.

        Partitions of other topics are ignored.
        """
        tp = partition.topic_partition
        if tp.topic != self._topic or self._closed:
            return
        shard = self._shards.get(tp.partition)
        if shard is not None and shard.partition is partition and not shard.failed:
            return
        self.on_resigned(tp)
        shard = self._shards[tp.partition] = CoordinatorShard(partition)
        if self._unloaded or not self._load(shard):
            self._unloaded.append(shard)
            if self._loading is None:
                self._loading = asyncio.get_running_loop().create_task(self._load_all())

    def on_resigned(self, tp: TopicPartition) -> None:
        """Drop the state of a partition. Partitions of other topics are ignored."""
        if tp.topic == self._topic and self._shards.pop(tp.partition, None) is not None:
            self._state.on_unloaded(tp.partition)

    def partition(self, index: int) -> Partition:
        """Return a loaded partition.

        Raises NotCoordinatorError if this broker does not lead it, failed to load it, or is closing, and
        CoordinatorLoadInProgressError while it is being loaded.
        """
        shard = self._shards.get(index)
        if shard is None or shard.failed or self._closed:
            raise NotCoordinatorError
        if not shard.loaded:
            raise CoordinatorLoadInProgressError
        return shard.partition

    def is_loaded(self, index: int) -> bool:
        """Return whether this broker leads the partition and has loaded it."""
        shard = self._shards.get(index)
        return shard is not None and shard.loaded

    @property
    def are_loading(self) -> bool:
        return bool(self._unloaded)

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of partitions that are loaded, that are being loaded, and that failed to load."""
        shards = self._shards.values()
        loaded, failed = sum(shard.loaded for shard in shards), sum(shard.failed for shard in shards)
        return loaded, len(shards) - loaded - failed, failed

    @property
    def indexes(self) -> list[int]:
        return [shard.index for shard in self._shards.values() if shard.loaded]

    async def all_loaded(self) -> None:
        while self._loading is not None:
            await asyncio.wait([self._loading])

    def close(self) -> None:
        """Stop loading. `partition` then raises NotCoordinatorError."""
        self._closed = True
        if self._loading is not None:
            self._loading.cancel()

    async def _load_all(self) -> None:
        try:
            while self._unloaded:
                shard = self._unloaded.popleft()
                if self._shards.get(shard.index) is not shard:
                    continue  # this broker has resigned
                if not self._load(shard):
                    self._unloaded.append(shard)
                await shard.load_missing()
        finally:
            self._loading = None

    def _load(self, shard: CoordinatorShard) -> bool:
        """Load the next slice. Return whether the shard is loaded, or has failed."""
        try:
            if not shard.load_slice(self._state):
                return False
            shard.loaded = True
            self.load_times.record(time.perf_counter() - shard.began)
            self._state.on_loaded(shard.index)
        except Exception:
            # After a disk error or a bug, this broker cannot coordinate the keys of this partition, but continues with
            # the others.
            log.exception(
                "Cannot load %s, so this broker cannot coordinate the groups, transactional ids or share partitions in "
                "it. Restart this broker, or move the leader to another broker.",
                shard.partition.topic_partition,
            )
            shard.loaded, shard.failed = False, True
            self._state.on_unloaded(shard.index)
        if shard.loaded and shard.records:
            log.info("Loaded %s: records=%d", shard.partition.topic_partition, shard.records)
        return True


class ShardedMap(MutableMapping[K, V]):
    """A mapping that records to which partition of the topic each key belongs, so that all keys of a partition can be
    dropped together. `index` returns the partition of a key.
    """

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
        # The key is removed from all sets, because its partition cannot be computed once the topic is deleted. A topic
        # has about fifty partitions.
        for keys in self._keys.values():
            keys.discard(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys_in(self, index: int) -> list[K]:
        return list(self._keys.get(index, ()))

    def values_in(self, index: int) -> list[V]:
        return [self._values[key] for key in self.keys_in(index)]

    def drop(self, index: int) -> dict[K, V]:
        """Remove and return the entries of a partition."""
        return {key: self._values.pop(key) for key in self._keys.pop(index, ())}
