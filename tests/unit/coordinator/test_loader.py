"""Loading of coordinator partitions in slices: leader changes, log directory moves and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.coordinator.runtime.loader import SLICE_RECORDS, CoordinatorShards, ShardedMap
from ottla.errors import CoordinatorLoadInProgressError, NotCoordinatorError
from ottla.model import TopicPartition

TOPIC = "__states"


class Log:
    """A log of batches with one record each."""

    def __init__(self, count: int) -> None:
        self.end = count
        self.broken = False

    def batches_from(self, offset: int) -> Iterator[tuple[Any, memoryview]]:
        while offset < self.end:
            if self.broken:
                raise OSError("the disk has failed")
            offset += 1
            yield SimpleNamespace(next_offset=offset), memoryview(b"")


class ReplayedRecords:
    """Replayed records by partition, and the partitions that are loaded."""

    def __init__(self) -> None:
        self.by_partition: dict[int, list[int]] = {}
        self.ready: list[int] = []

    def replay_batch(self, index: int, header: Any, data: memoryview) -> int:
        self.by_partition.setdefault(index, []).append(header.next_offset)
        return 1

    def on_loaded(self, index: int) -> None:
        self.ready.append(index)

    def on_unloaded(self, index: int) -> None:
        self.by_partition.pop(index, None)


def partition(index: int, records: int) -> Any:
    return SimpleNamespace(topic_partition=TopicPartition(TOPIC, index), log=Log(records), when_written=lambda: None)


def run(test: Callable[[CoordinatorShards, ReplayedRecords], Awaitable[None]]) -> None:
    async def body() -> None:
        replayed = ReplayedRecords()
        shards = CoordinatorShards(TOPIC, replayed)
        await test(shards, replayed)
        shards.close()

    asyncio.run(body())


def test_short_partition_is_loaded_at_once() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        short = partition(3, 10)
        shards.on_leader(short)
        assert shards.partition(3) is short
        assert replayed.ready == [3]
        assert not shards.are_loading

    run(test)


def test_partitions_of_other_topics_are_ignored() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        other = partition(0, 1)
        other.topic_partition = TopicPartition("elsewhere", 0)
        shards.on_leader(other)
        shards.on_resigned(other.topic_partition)
        assert replayed.ready == []
        with pytest.raises(NotCoordinatorError):
            shards.partition(0)

    run(test)


def test_long_partitions_are_loaded_in_turns() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        shards.on_leader(partition(0, 10 * SLICE_RECORDS))
        shards.on_leader(partition(1, 3 * SLICE_RECORDS))
        turns = 0
        while shards.are_loading:
            with pytest.raises(CoordinatorLoadInProgressError):
                shards.partition(0)
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 10
        assert replayed.ready == [1, 0], "the shorter one does not wait for the longer one"
        assert [len(replayed.by_partition[i]) for i in (0, 1)] == [10 * SLICE_RECORDS, 3 * SLICE_RECORDS]

    run(test)


def test_records_appended_during_loading_are_loaded() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        growing = partition(0, 2 * SLICE_RECORDS)
        shards.on_leader(growing)
        growing.log.end += 7  # the marker of a transaction
        await shards.all_loaded()
        assert replayed.by_partition[0] == list(range(1, 2 * SLICE_RECORDS + 8))

    run(test)


def test_loading_continues_after_a_log_dir_move() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        moving = partition(0, 3 * SLICE_RECORDS)
        shards.on_leader(moving)
        moving.log.broken = True
        moving.log = Log(3 * SLICE_RECORDS)
        await shards.all_loaded()
        assert replayed.by_partition[0] == list(range(1, 3 * SLICE_RECORDS + 1))
        assert shards.is_loaded(0)

    run(test)


def test_on_resigned_stops_loading() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        shards.on_leader(partition(0, 3 * SLICE_RECORDS))
        shards.on_resigned(TopicPartition(TOPIC, 0))
        await shards.all_loaded()
        assert replayed.ready == []
        assert replayed.by_partition == {}
        with pytest.raises(NotCoordinatorError):
            shards.partition(0)

    run(test)


def test_on_leader_again_during_loading_restarts_the_load() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        shards.on_leader(partition(0, 3 * SLICE_RECORDS))
        await asyncio.sleep(0)
        shards.on_resigned(TopicPartition(TOPIC, 0))
        shards.on_leader(partition(0, 2 * SLICE_RECORDS))
        await shards.all_loaded()
        assert replayed.by_partition[0] == list(range(1, 2 * SLICE_RECORDS + 1))
        assert replayed.ready == [0]

    run(test)


def test_on_leader_in_a_new_epoch_keeps_the_state() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        same = partition(0, 5)
        shards.on_leader(same)
        shards.on_leader(same)
        assert replayed.ready == [0]
        assert len(replayed.by_partition[0]) == 5

    run(test)


def test_on_leader_of_another_replica_loads_again() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        shards.on_leader(partition(0, 5))
        shards.on_leader(partition(0, 8))
        assert len(replayed.by_partition[0]) == 8

    run(test)


def test_load_failure_affects_one_partition_only() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        bad = partition(0, 2 * SLICE_RECORDS)
        shards.on_leader(bad)
        bad.log.broken = True
        shards.on_leader(partition(1, 5))
        await shards.all_loaded()
        assert replayed.ready == [1]
        assert replayed.by_partition.keys() == {1}, "a partially loaded shard is dropped"
        with pytest.raises(NotCoordinatorError):
            shards.partition(0)
        bad.log.broken = False
        shards.on_leader(bad)
        await shards.all_loaded()
        assert shards.is_loaded(0)

    run(test)


def test_closed_shards_reject_every_partition() -> None:
    async def test(shards: CoordinatorShards, replayed: ReplayedRecords) -> None:
        shards.on_leader(partition(0, 1))
        shards.close()
        shards.on_leader(partition(1, 1))
        for index in (0, 1):
            with pytest.raises(NotCoordinatorError):
                shards.partition(index)

    run(test)


def test_sharded_map_drops_a_partition() -> None:
    by_partition: ShardedMap[str, int] = ShardedMap(len)
    by_partition.update({"a": 1, "b": 2, "cc": 3})
    by_partition["a"] = 4
    assert by_partition.values_in(1) == [4, 2] or by_partition.values_in(1) == [2, 4]
    del by_partition["b"]
    assert by_partition.keys_in(1) == ["a"]
    assert by_partition.drop(1) == {"a": 4}
    assert dict(by_partition) == {"cc": 3}
    assert by_partition.drop(1) == {}
