"""The runtime of group coordinators: deadlines, and responses that wait for committed records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.coordinator.consumer_world import World

from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import PartitionImage, TopicImage
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.classic.records import CommittedOffset, group_record, group_tombstone, offset_record
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.group_runtime import GroupRuntime
from ottla.coordinator.group.streams.streams_group import StreamsGroup
from ottla.coordinator.runtime.deadline_queue import DeadlineQueue
from ottla.coordinator.runtime.result import CoordinatorRecord, CoordinatorResult
from ottla.errors import (
    InvalidCommitOffsetSizeError,
    KafkaStorageError,
    MessageTooLargeError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
    UnknownServerError,
)
from ottla.model import CONSUMER_OFFSETS, TopicPartition
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


async def test_past_deadline_scheduled_while_expiring_waits_for_the_next_expiry() -> None:
    clock, calls = ManualClock(), list[str]()

    def on_deadline(key: str) -> None:
        calls.append(key)
        if key == "again":
            queue.schedule(key, clock.monotonic() - 1)
            queue.discard("discarded")

    queue = DeadlineQueue(clock, on_deadline)
    for key in ("again", "discarded", "once"):
        queue.schedule(key, clock.monotonic())
    queue.expire()
    assert calls == ["again", "once"]
    queue.expire()
    assert calls == ["again", "once", "again"]
    queue.close()
    await asyncio.sleep(0)


def runtime_of(world: World) -> GroupRuntime:
    topic = TopicImage(CONSUMER_OFFSETS, UUID(int=1), (PartitionImage(0, 0, (0,), (0,)),))
    image = replace(world.image, topics={**world.image.topics, CONSUMER_OFFSETS: topic})
    return GroupRuntime(world.config, world.clock, lambda: image)


def runtime_with_a_member() -> tuple[World, GroupRuntime]:
    world = World()
    world.join("m")
    runtime = runtime_of(world)
    for record in world.log:
        runtime.replay(record.key, record.value)
    return world, runtime


async def test_expiry_of_a_member_is_retried_after_a_failed_append() -> None:
    world, runtime = runtime_with_a_member()
    attempts = list[object]()
    expire = runtime.groups.expire
    runtime.groups.expire = lambda group: attempts.append(group) or expire(group)  # type: ignore[method-assign,func-returns-value]
    runtime.on_loaded(0)
    world.clock.advance(100_000)
    for _ in range(3):
        runtime._deadlines.expire()  # the broker leads no partition, so that each append fails
    assert len(attempts) == 1
    world.clock.advance(501)
    runtime._deadlines.expire()
    assert len(attempts) == 2
    runtime.close()


async def test_timers_of_a_group_fire_again_after_an_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    world, runtime = runtime_with_a_member()
    attempts = list[Group]()

    def fail(group: Group) -> CoordinatorResult:
        attempts.append(group)
        raise RuntimeError("a bug")

    runtime.groups.expire = fail  # type: ignore[method-assign]
    runtime.on_loaded(0)
    world.clock.advance(100_000)
    for expected in (1, 1, 2):
        runtime._deadlines.expire()
        assert len(attempts) == expected
        world.clock.advance(300)
    assert "Unexpected error in a timer of group" in caplog.text
    runtime.close()


@pytest.mark.parametrize("version", [3, 4], ids=["waits for the other members", "gets its member id"])
@pytest.mark.parametrize("group", [ConsumerGroup("g"), StreamsGroup("g")], ids=["consumer", "streams"])
async def test_empty_group_that_a_classic_member_joins_stays_after_a_failed_append(group: Group, version: int) -> None:
    world = World(group_initial_rebalance_delay_ms=60_000)
    runtime = runtime_of(world)
    runtime.groups.by_id["g"] = group
    future = runtime.response_future()
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    # the broker leads no partition, so that the append fails
    runtime.execute("g", runtime.groups.join(request, version, world.client, future))
    assert runtime.groups.by_id["g"] is group
    assert (await asyncio.wait_for(future, 10)).error_code == NotCoordinatorError.code  # type: ignore[attr-defined]
    runtime.close()


@pytest.mark.parametrize("fails_later", [False, True])
async def test_assignment_that_could_not_be_written_is_given_to_no_member(fails_later: bool) -> None:
    world = World()
    runtime = runtime_of(world)
    group = ClassicGroup("g", ClassicGroupState.COMPLETING, 1, "consumer", "range")
    for member_id in ("leader", "follower"):
        group.add(ClassicMember(member_id, None, "c", "/1.2.3.4", 10, 60, {"range": b"sub"}, b""))
    group.leader = "leader"
    runtime.groups.by_id["g"] = group
    committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def append(*_: object) -> asyncio.Future[None]:
        if fails_later:
            return committed
        raise KafkaStorageError("the disk is full")

    runtime._log.append = append  # type: ignore[method-assign,assignment]
    answers = []
    for member_id in ("leader", "follower"):
        answers.append(runtime.response_future())
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=member_id)
        sync.assignments = [SyncGroupRequestAssignment(member_id="follower", assignment=b"all")]
        runtime.execute("g", runtime.groups.sync(sync, answers[-1]))
    if fails_later:
        committed.set_exception(KafkaStorageError("the disk is full"))
    assert all(answer.error_code for answer in await asyncio.gather(*answers))  # type: ignore[attr-defined]
    assert group.state is ClassicGroupState.PREPARING
    runtime.close()


async def test_group_that_does_not_fit_into_a_batch_is_an_error_that_clients_do_not_retry() -> None:
    world = World()
    runtime = runtime_of(world)

    def append(*_: object) -> None:
        raise MessageTooLargeError

    runtime._log.append = append  # type: ignore[method-assign,assignment]
    future = runtime.response_future()
    result = CoordinatorResult(records=[group_tombstone("g")])
    result.respond(future, HeartbeatResponse())
    runtime.execute("g", result)
    assert (await future).error_code == UnknownServerError.code  # type: ignore[attr-defined]
    runtime.close()


async def test_tombstones_that_do_not_fit_into_a_batch_are_divided() -> None:
    runtime = runtime_of(World())
    committed, batches = CommittedOffset(5, -1, "", 0), list[int]()
    for partition in range(100):
        runtime.offsets.set("g", TopicPartition("t", partition), committed)

    def append(_: str, new: Sequence[CoordinatorRecord]) -> None:
        if len(new) > 30:
            raise MessageTooLargeError
        batches.append(len(new))

    runtime._log.append = append  # type: ignore[method-assign,assignment]
    await runtime.append("g", runtime.offsets.delete_group("g").records)
    assert (sum(batches), runtime.groups.by_id, runtime.offsets.by_group) == (101, {}, {})
    records = [offset_record("g", TopicPartition("t", partition), committed) for partition in range(31)]
    with pytest.raises(InvalidCommitOffsetSizeError):
        await runtime.append("g", records)
    runtime.close()


async def test_response_waits_until_the_records_of_its_group_are_committed() -> None:
    world = World()
    world.join("m")
    runtime = runtime_of(world)
    for error, code in ((None, 0), (NotLeaderOrFollowerError(), NotCoordinatorError.code)):
        committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        runtime._log.append = lambda *_, committed=committed: committed  # type: ignore[method-assign]
        written, unchanged, other = (runtime.response_future() for _ in range(3))
        results = CoordinatorResult(records=list(world.log)), CoordinatorResult(), CoordinatorResult()
        for result, future in zip(results, (written, unchanged, other), strict=True):
            result.respond(future, HeartbeatResponse())
        for result, group in zip(results, ("g", "g", "another"), strict=True):
            runtime.execute(group, result)
        assert [future.done() for future in (written, unchanged, other)] == [False, False, True]
        if error is None:
            committed.set_result(None)
        else:
            committed.set_exception(error)
        assert [response.error_code for response in await asyncio.gather(written, unchanged)] == [code, code]  # type: ignore[attr-defined]
        after = CoordinatorResult()
        late = runtime.response_future()
        after.respond(late, HeartbeatResponse())
        runtime.execute("g", after)
        assert late.done()
    runtime.close()


async def test_generation_of_a_loaded_classic_group_is_not_counted_again() -> None:
    runtime = runtime_of(World())
    group = ClassicGroup("g", ClassicGroupState.STABLE, 7, "consumer", "range")
    record = group_record(group, 123)
    runtime.replay(*record)
    runtime._replay_appended("g", record)  # a static member has restarted
    assert runtime.stats.by_group == {}
    group.generation += 1
    runtime._replay_appended("g", group_record(group, 124))
    assert runtime.stats.by_group == {"g": 1}
    runtime.replay(*group_tombstone("g"))
    assert runtime.stats._generations == {}
    runtime.close()


async def test_offsets_of_many_groups_expire_in_slices() -> None:
    runtime = runtime_of(World())
    shard: Any = SimpleNamespace(loaded=True, failed=False, index=0)
    runtime.shards._shards[0] = shard
    seen: list[str] = []
    runtime.offsets.expire = lambda group: seen.append(group.id) or CoordinatorResult()  # type: ignore[method-assign,func-returns-value]
    for number in range(90):
        runtime.groups.by_id[f"g{number}"] = ClassicGroup(f"g{number}")
    runtime._expire_offsets()
    assert 0 < len(seen) < 45, "other tasks run in between"
    missing = next(group_id for group_id in runtime.groups.by_id if group_id not in seen)
    del runtime.groups.by_id[missing]
    async with asyncio.timeout(10):
        while len(seen) < 89:
            await asyncio.sleep(0)
    assert sorted(seen) == sorted(runtime.groups.by_id)
    assert runtime._expiry is not None
    assert runtime._expiry.when() > asyncio.get_running_loop().time() + 60
    runtime.close()
