"""States of share partitions: the share coordinator, the persister that calls it, and lock timeouts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla import errors
from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
from ottla.coordinator.share_partition.share_partition import RecordRange, RecordState
from ottla.coordinator.share_partition.share_partition_manager import SharePartitionManager
from ottla.coordinator.share_partition.share_persister import SharePersister
from ottla.coordinator.share_partition.share_state_records import ShareKey, ShareState, merge_runs
from ottla.model import TopicPartition
from ottla.protocol.messages import read_share_group_state as read

KEY = ShareKey("g", UUID(int=1), 0)
DONE, FREE = RecordState.ACKNOWLEDGED, RecordState.AVAILABLE


class AppendedLog:
    """In place of the coordinator's log: everything is committed at once."""

    def partition(self, key: str) -> None:
        """Accept every key."""

    def partition_for(self, _: str) -> int:
        return 0

    def append(self, key: str, records: list[Any]) -> None:
        """Accept records."""


def coordinator() -> ShareCoordinator:
    image = ClusterImage("c")
    states = ShareCoordinator(BrokerConfig({}), ManualClock(), lambda: image)
    states._log = AppendedLog()  # type: ignore[assignment]
    return states


async def test_share_state_is_changed_by_current_leaders_only() -> None:
    states = coordinator()
    await states.initialize(KEY, 3, -1)
    assert (await states.read(KEY, 5)).state_epoch == 3
    await states.write(KEY, ShareState(3, 5, start=2, done=0))
    with pytest.raises(errors.FencedLeaderEpochError):
        await states.read(KEY, 4)
    with pytest.raises(errors.FencedLeaderEpochError):
        await states.write(KEY, ShareState(3, 4, start=9))
    await states.initialize(KEY, 4, -1)
    assert states.summary(KEY).start == 2, "a state is not lost when it is initialized again"
    await states.initialize(KEY, 4, 0)
    with pytest.raises(errors.FencedStateEpochError):
        await states.write(KEY, ShareState(3, 5, start=9))
    with pytest.raises(errors.FencedStateEpochError):
        await states.initialize(KEY, 3, 7)
    assert states.summary(KEY).start == 0
    await states.delete(KEY)
    with pytest.raises(errors.InvalidRequestError):
        await states.write(KEY, ShareState(4, 5, start=9))


def test_state_write_keeps_the_further_state_of_each_record() -> None:
    old = [RecordRange(0, 9, DONE, 1), RecordRange(10, 19, FREE, 2), RecordRange(30, 39, FREE, 1)]
    new = [RecordRange(5, 11, FREE, 0), RecordRange(12, 12, DONE, 3), RecordRange(13, 14, FREE, 3)]
    new += [RecordRange(21, 21, DONE, 1), RecordRange(35, 35, DONE, 1)]
    assert (
        merge_runs(old, new, 2)
        == merge_runs(new, old, 2)
        == [
            RecordRange(2, 9, DONE, 1),
            RecordRange(10, 11, FREE, 2),
            RecordRange(12, 12, DONE, 3),
            RecordRange(13, 14, FREE, 3),
            RecordRange(15, 19, FREE, 2),
            RecordRange(21, 21, DONE, 1),
            RecordRange(30, 34, FREE, 1),
            RecordRange(35, 35, DONE, 1),
            RecordRange(36, 39, FREE, 1),
        ]
    )


async def test_state_write_that_arrives_after_a_later_one_sets_nothing_back() -> None:
    states = coordinator()
    await states.initialize(KEY, 1, 0)
    await states.write(KEY, ShareState(1, 0, start=5, done=2, runs=[RecordRange(6, 7, DONE, 2)]))
    later = states.summary(KEY)
    delayed = [RecordRange(4, 4, DONE, 1), RecordRange(6, 7, FREE, 1)]
    await states.write(KEY, ShareState(1, 0, start=3, done=1, runs=delayed))
    assert states.summary(KEY)._replace(snapshot_epoch=0) == later._replace(snapshot_epoch=0)


async def test_persister_retries_a_request_while_the_coordinator_moves() -> None:
    leaders = iter([-1, 1, 2])
    called: list[int] = []

    async def send(broker_id: int, request: Any, version: int, **_: Any) -> Any:
        called.append(broker_id)
        result = read.PartitionResult(partition=0, state_epoch=7, start_offset=4)
        if broker_id == 1:
            result.error_code = errors.code_of(errors.NotCoordinatorError())
        return read.ReadShareGroupStateResponse(results=[read.TopicResult(topic_id=KEY.topic_id, partitions=[result])])

    local: Any = SimpleNamespace(leader=lambda _: next(leaders))
    persister = SharePersister(0, local, SimpleNamespace(send=send), 5, 1)
    state = await persister.read(KEY, 6)
    assert (called, state.state_epoch, state.start) == ([1, 2], 7, 4)


async def test_persister_error_names_the_share_partition_if_no_coordinator_responds() -> None:
    local: Any = SimpleNamespace(leader=lambda _: -1)
    persister = SharePersister(0, local, SimpleNamespace(), 0.01, 1)
    with pytest.raises(errors.CoordinatorNotAvailableError, match=str(KEY)):
        await persister.delete(KEY)


def test_load_for_a_new_replica_waits_for_that_of_an_earlier_one_and_loads_again() -> None:
    async def test() -> None:
        reads: list[asyncio.Future[ShareState]] = []

        def read_state(*_: object) -> asyncio.Future[ShareState]:
            reads.append(asyncio.get_running_loop().create_future())
            return reads[-1]

        async def first_start() -> int:
            raise AssertionError("the state is initialized")

        image = ClusterImage("c")
        persister: Any = SimpleNamespace(read=read_state)
        manager = SharePartitionManager(BrokerConfig({}), ManualClock(), lambda: image, persister)
        tp = TopicPartition("t", 0)
        replicas: list[Any] = [
            SimpleNamespace(topic_partition=tp, leads=leads, image=SimpleNamespace(leader_epoch=epoch))
            for epoch, leads in enumerate((False, True))
        ]
        old, new, other = [
            asyncio.create_task(manager.load(KEY, replicas[number], first_start)) for number in (0, 1, 1)
        ]
        while not reads:
            await asyncio.sleep(0)
        reads[0].set_result(ShareState(0, 0, 5, 0, []))
        with pytest.raises(errors.NotLeaderOrFollowerError):
            await old
        assert not new.done()
        while len(reads) < 2:
            await asyncio.sleep(0)
        reads[1].set_result(ShareState(0, 1, 7, 0, []))
        await asyncio.gather(new, other)
        assert len(reads) == 2
        shared = manager.get(KEY)
        assert shared is not None
        assert shared.start == 7
        manager.close()

    asyncio.run(test())


async def test_state_that_was_read_for_an_earlier_leader_epoch_is_not_used() -> None:
    replica: Any = SimpleNamespace(
        topic_partition=TopicPartition("t", 0), leads=True, image=SimpleNamespace(leader_epoch=1)
    )

    async def read_state(_: ShareKey, epoch: int) -> ShareState:
        # meanwhile another broker leads the partition, and then this one again
        replica.image = SimpleNamespace(leader_epoch=3)
        return ShareState(0, epoch, 5, 0, [])

    async def first_start() -> int:
        raise AssertionError("the state is initialized")

    persister: Any = SimpleNamespace(read=read_state)
    manager = SharePartitionManager(BrokerConfig({}), ManualClock(), lambda: ClusterImage("c"), persister)
    with pytest.raises(errors.NotLeaderOrFollowerError):
        await manager.load(KEY, replica, first_start)
    await manager.load(KEY, replica, first_start)
    assert manager.get(KEY) is not None
    manager.close()


def test_lock_timeout_uses_the_earliest_deadline() -> None:
    async def test() -> None:
        config, clock, image = BrokerConfig({}), ManualClock(), ClusterImage("c")
        states = SharePartitionManager(config, clock, lambda: image, None)  # type: ignore[arg-type]
        timeouts = states._lock_timeouts
        slow, fast = ShareKey("slow", UUID(int=1), 0), ShareKey("fast", UUID(int=1), 0)
        states.schedule_lock_timeout(slow, 60.0)
        states.schedule_lock_timeout(fast, 20.0)
        states.schedule_lock_timeout(fast, 15.0)
        for _ in range(1000):
            states.schedule_lock_timeout(slow, 61.0)
        assert timeouts._timer
        assert timeouts._timer.when() < asyncio.get_running_loop().time() + 16
        assert len(timeouts._due) == 3
        clock.advance(15_000)
        timeouts.expire()
        assert timeouts._timer.when() > asyncio.get_running_loop().time() + 4
        clock.advance(45_000)
        timeouts.expire()
        assert not timeouts._timer
        assert not timeouts._scheduled

    asyncio.run(test())
