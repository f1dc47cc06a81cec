"""Groups and transactions of partitions that another broker leads, and that come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker
from tests.unit.broker.group_requests import commit, committed, join, prepare
from tests.unit.broker.transacting import GROUP, T0, at_clock, begin, read_committed, settle

from ottla.backoff import ExponentialBackoff
from ottla.clock import ManualClock
from ottla.coordinator.runtime import loader
from ottla.coordinator.transaction import transaction_completion
from ottla.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaStorageError,
    NotCoordinatorError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
)
from ottla.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest


def partitions_of(client: Asker, topic: str) -> list[Any]:
    return [p for p in client.context.partitions if p.topic_partition.topic == topic]


def resign(client: Asker, topic: str) -> None:
    """Another broker leads all partitions of the topic."""
    for partition in partitions_of(client, topic):
        for listener in client.context.partitions._listeners:
            listener.on_resigned(partition.topic_partition)


def lead(client: Asker, topic: str) -> None:
    """This one leads them again."""
    for partition in partitions_of(client, topic):
        for listener in client.context.partitions._listeners:
            listener.on_leader(partition)


async def beat(client: Asker, member: Any) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
    return (await client.ask(request, 4)).error_code


async def listed(client: Asker) -> list[str]:
    return [group.group_id for group in (await client.ask(ListGroupsRequest(), 5)).groups]


def test_groups_and_offsets_go_with_their_partition_and_come_back(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        member = await join(client)
        assert await commit(client, 42, generation_id_or_member_epoch=1, member_id=member.member_id) == 0
        resign(client, CONSUMER_OFFSETS)
        assert await beat(client, member) == NotCoordinatorError.code
        assert await commit(client, 43) == NotCoordinatorError.code
        assert await listed(client) == []
        groups = client.context.groups
        assert not groups._deadlines._scheduled
        assert not groups.offsets.by_group
        lead(client, CONSUMER_OFFSETS)
        assert await beat(client, member) == 0
        assert await committed(client) == (42, "note")
        assert await listed(client) == ["g"]
        assert groups._deadlines._scheduled.keys() == {"g"}, "its members have a session again"

    with_broker(test, tmp_path)


def test_waiting_members_get_not_coordinator_when_the_group_moves(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        await join(client)
        waiting = asyncio.ensure_future(join_without_end(client))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        resign(client, CONSUMER_OFFSETS)
        assert (await waiting).error_code == NotCoordinatorError.code

    with_broker(test, tmp_path)


async def join_without_end(client: Asker) -> Any:
    """A second member, whose join waits for the first one's."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    return await client.ask(request, 3)


def test_while_a_partition_is_read_clients_are_asked_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        for offset in range(10):
            await commit(client, offset)
        resign(client, CONSUMER_OFFSETS)
        lead(client, CONSUMER_OFFSETS)
        assert await commit(client, 43) == CoordinatorLoadInProgressError.code
        assert (await client.ask(ListGroupsRequest(), 5)).error_code == CoordinatorLoadInProgressError.code
        await client.context.groups.shards.all_loaded()
        assert await committed(client) == (9, "note")

    monkeypatch.setattr(loader, "SLICE_RECORDS", 1)
    with_broker(test, tmp_path)


def test_what_a_failed_append_means_for_clients(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        (partition,) = [p for p in partitions_of(client, CONSUMER_OFFSETS) if p is group_partition(client)]
        for error, reported in (
            (NotLeaderOrFollowerError, NotCoordinatorError),
            (KafkaStorageError, NotCoordinatorError),
            (NotEnoughReplicasError, CoordinatorNotAvailableError),
        ):

            def fail(*_: Any, error: type[Exception] = error, **__: Any) -> None:
                raise error

            partition.append = fail
            assert await commit(client, 42) == reported.code
        del partition.append
        assert await committed(client) == (-1, "")

    with_broker(test, tmp_path)


def group_partition(client: Asker) -> Any:
    return client.context.partitions.get(client.context.groups.partition_of("g"))


def test_commits_that_are_not_replicated_in_time_fail(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        member = await join(client)
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id)])
        never = asyncio.get_running_loop().create_future()
        group_partition(client).when_committed = lambda *_: never
        mine = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
        assert await commit(client, 42, **mine) == CoordinatorNotAvailableError.code
        assert (await client.ask(leave, 3)).error_code == CoordinatorNotAvailableError.code
        del group_partition(client).when_committed

    with_broker(test, tmp_path, offsets_commit_timeout_ms=20)


def test_pending_offsets_come_back_and_count_when_their_transaction_commits(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        assert await producer.commit_offset(T0, 7) == 0
        resign(client, CONSUMER_OFFSETS)
        assert not client.context.groups.offsets.pending._by_transaction
        lead(client, CONSUMER_OFFSETS)
        assert client.context.groups.offsets.pending.has(GROUP, T0)
        assert await producer.end() == 0
        await settle(client)
        assert client.context.groups.offsets.by_group[GROUP][T0].offset == 7
        resign(client, CONSUMER_OFFSETS)
        lead(client, CONSUMER_OFFSETS)
        assert client.context.groups.offsets.by_group[GROUP][T0].offset == 7

    at_clock(test, tmp_path)


def test_a_new_coordinator_finishes_what_the_last_one_decided(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        assert await producer.send(T0, b"a") == 0
        completer = client.context.transactions.completer
        real, requested = completer._markers, asyncio.Event()

        class Slow:
            async def write(self, ending: Any, partitions: Any) -> Any:
                requested.set()
                await asyncio.Event().wait()

        completer._markers = Slow()
        assert await producer.end() == 0
        await requested.wait()
        task = completer.tasks["tx"]
        resign(client, TRANSACTION_STATE)
        await asyncio.wait([task])
        assert task.cancelled()
        assert not client.context.transactions.by_id
        assert await producer.end() == NotCoordinatorError.code
        completer._markers = real
        lead(client, TRANSACTION_STATE)
        await settle(client)
        assert client.context.transactions.by_id["tx"].state == "CompleteCommit"
        assert await read_committed(client, T0) == [b"a"]

    at_clock(test, tmp_path)


def test_a_transaction_ends_although_too_few_replicas_were_in_sync_when_that_was_decided(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        assert await producer.send(T0, b"a") == 0
        waiting: list[asyncio.Future[None]] = []

        def safe(*_: Any) -> asyncio.Future[None]:
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]

        (partition,) = [p for p in partitions_of(client, TRANSACTION_STATE) if p.log.log_end_offset]
        partition.when_committed = safe
        ending = asyncio.ensure_future(producer.end())
        while len(waiting) < 2:
            await asyncio.sleep(0)
        for future in tuple(waiting):
            future.set_exception(NotEnoughReplicasAfterAppendError())
        assert await ending == CoordinatorNotAvailableError.code
        assert client.context.transactions.by_id["tx"].state == "PrepareCommit"
        del partition.when_committed
        waiting[-1].set_result(None)
        await settle(client)
        assert client.context.transactions.by_id["tx"].state == "CompleteCommit"
        assert await read_committed(client, T0) == [b"a"]

    at_clock(test, tmp_path)


def test_an_open_transaction_goes_on_at_the_new_coordinator(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        assert await producer.send(T0, b"a") == 0
        resign(client, TRANSACTION_STATE)
        lead(client, TRANSACTION_STATE)
        assert await producer.send(T0, b"b") == 0
        assert await producer.end() == 0
        await settle(client)
        assert await read_committed(client, T0) == [b"a", b"b"]

    at_clock(test, tmp_path)


def test_a_marker_is_tried_again_as_soon_as_its_partition_has_another_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        assert await producer.send(T0, b"a") == 0
        completer = client.context.transactions.completer
        real, view, tried = completer._markers, client.context.metadata_cache, asyncio.Event()

        class Gone:
            async def write(self, ending: Any, partitions: Any) -> Any:
                tried.set()
                completer._markers = real
                return dict.fromkeys(partitions, NotLeaderOrFollowerError())

        completer._markers = Gone()
        assert await producer.end() == 0
        await tried.wait()
        await asyncio.sleep(0)
        before = view.image
        image = client.context.controller.image.topics["t"]
        led = replace(image.partitions[0], leader_epoch=image.partitions[0].leader_epoch + 1)
        after = replace(before, topics={**before.topics, "t": replace(image, partitions=(led, *image.partitions[1:]))})
        await view.update(lambda _: after)
        await settle(client)
        assert await read_committed(client, T0) == [b"a"]

    monkeypatch.setattr(transaction_completion, "BACKOFF", ExponentialBackoff(3600, 3600))
    at_clock(test, tmp_path)
