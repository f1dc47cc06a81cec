"""Groups and transactions whose coordinator moves to another broker and back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.group_requests import commit, committed, join, prepare
from tests.unit.broker.transactional_producer import (
    GROUP,
    T0,
    initialized_producer,
    read_committed,
    wait_until_completed,
    with_manual_clock,
)

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


def partitions_of(client: BrokerClient, topic: str) -> list[Any]:
    return [p for p in client.context.partitions if p.topic_partition.topic == topic]


def resign(client: BrokerClient, topic: str) -> None:
    """Resign as leader of all partitions of the topic."""
    for partition in partitions_of(client, topic):
        for listener in client.context.partitions._listeners:
            listener.on_resigned(partition.topic_partition)


def lead(client: BrokerClient, topic: str) -> None:
    """Become leader of all partitions of the topic again."""
    for partition in partitions_of(client, topic):
        for listener in client.context.partitions._listeners:
            listener.on_leader(partition)


async def heartbeat(client: BrokerClient, member: Any) -> int:
    request = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
    return (await client.request(request, 4)).error_code


async def listed(client: BrokerClient) -> list[str]:
    return [group.group_id for group in (await client.request(ListGroupsRequest(), 5)).groups]


def test_groups_and_offsets_are_unloaded_and_loaded_with_their_partition(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        member = await join(client)
        assert await commit(client, 42, generation_id_or_member_epoch=1, member_id=member.member_id) == 0
        resign(client, CONSUMER_OFFSETS)
        assert await heartbeat(client, member) == NotCoordinatorError.code
        assert await commit(client, 43) == NotCoordinatorError.code
        assert await listed(client) == []
        groups = client.context.groups
        assert not groups._deadlines._scheduled
        assert not groups.offsets.by_group
        lead(client, CONSUMER_OFFSETS)
        assert await heartbeat(client, member) == 0
        assert await committed(client) == (42, "note")
        assert await listed(client) == ["g"]
        assert groups._deadlines._scheduled.keys() == {"g"}, "its members have a session again"

    with_broker(test, tmp_path)


def test_waiting_members_get_not_coordinator_when_the_group_moves(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await join(client)
        waiting = asyncio.ensure_future(join_without_end(client))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        resign(client, CONSUMER_OFFSETS)
        assert (await waiting).error_code == NotCoordinatorError.code

    with_broker(test, tmp_path)


async def join_without_end(client: BrokerClient) -> Any:
    """Join as a second member, which waits until the first one rejoins."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    return await client.request(request, 3)


def test_requests_while_a_partition_loads_return_coordinator_load_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        for offset in range(10):
            await commit(client, offset)
        resign(client, CONSUMER_OFFSETS)
        lead(client, CONSUMER_OFFSETS)
        assert await commit(client, 43) == CoordinatorLoadInProgressError.code
        assert (await client.request(ListGroupsRequest(), 5)).error_code == CoordinatorLoadInProgressError.code
        await client.context.groups.shards.all_loaded()
        assert await committed(client) == (9, "note")

    monkeypatch.setattr(loader, "SLICE_RECORDS", 1)
    with_broker(test, tmp_path)


def test_failed_append_is_mapped_to_a_coordinator_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
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


def group_partition(client: BrokerClient) -> Any:
    return client.context.partitions.get(client.context.groups.partition_of("g"))


def test_offset_commit_not_replicated_in_time_returns_coordinator_not_available(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        member = await join(client)
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id)])
        never = asyncio.get_running_loop().create_future()
        group_partition(client).when_committed = lambda *_: never
        member_fields = {"generation_id_or_member_epoch": 1, "member_id": member.member_id}
        assert await commit(client, 42, **member_fields) == CoordinatorNotAvailableError.code
        assert (await client.request(leave, 3)).error_code == CoordinatorNotAvailableError.code
        del group_partition(client).when_committed

    with_broker(test, tmp_path, offsets_commit_timeout_ms=20)


def test_pending_offsets_are_loaded_and_committed_with_their_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.commit_offset(T0, 7) == 0
        resign(client, CONSUMER_OFFSETS)
        assert not client.context.groups.offsets.pending._by_transaction
        lead(client, CONSUMER_OFFSETS)
        assert client.context.groups.offsets.pending.has(GROUP, T0)
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert client.context.groups.offsets.by_group[GROUP][T0].offset == 7
        resign(client, CONSUMER_OFFSETS)
        lead(client, CONSUMER_OFFSETS)
        assert client.context.groups.offsets.by_group[GROUP][T0].offset == 7

    with_manual_clock(test, tmp_path)


def test_new_coordinator_completes_a_prepared_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        completer = client.context.transactions.completer
        real, requested = completer._markers, asyncio.Event()

        class HangingMarkers:
            async def write(self, ending: Any, partitions: Any) -> Any:
                requested.set()
                await asyncio.Event().wait()

        completer._markers = HangingMarkers()
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
        await wait_until_completed(client)
        assert client.context.transactions.by_id["tx"].state == "CompleteCommit"
        assert await read_committed(client, T0) == [b"a"]

    with_manual_clock(test, tmp_path)


def test_prepared_transaction_completes_once_it_is_replicated(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        waiting: list[asyncio.Future[None]] = []

        def when_committed(*_: Any) -> asyncio.Future[None]:
            waiting.append(asyncio.get_running_loop().create_future())
            return waiting[-1]

        (partition,) = [p for p in partitions_of(client, TRANSACTION_STATE) if p.log.log_end_offset]
        partition.when_committed = when_committed
        ending = asyncio.ensure_future(producer.end())
        while len(waiting) < 2:
            await asyncio.sleep(0)
        for future in tuple(waiting):
            future.set_exception(NotEnoughReplicasAfterAppendError())
        assert await ending == CoordinatorNotAvailableError.code
        assert client.context.transactions.by_id["tx"].state == "PrepareCommit"
        del partition.when_committed
        waiting[-1].set_result(None)
        await wait_until_completed(client)
        assert client.context.transactions.by_id["tx"].state == "CompleteCommit"
        assert await read_committed(client, T0) == [b"a"]

    with_manual_clock(test, tmp_path)


def test_open_transaction_continues_at_the_new_coordinator(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        resign(client, TRANSACTION_STATE)
        lead(client, TRANSACTION_STATE)
        assert await producer.send(T0, b"b") == 0
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"a", b"b"]

    with_manual_clock(test, tmp_path)


def test_marker_is_retried_as_soon_as_its_partition_has_a_new_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        completer = client.context.transactions.completer
        real, metadata_cache, tried = completer._markers, client.context.metadata_cache, asyncio.Event()

        class NotLeaderMarkers:
            async def write(self, ending: Any, partitions: Any) -> Any:
                tried.set()
                completer._markers = real
                return dict.fromkeys(partitions, NotLeaderOrFollowerError())

        completer._markers = NotLeaderMarkers()
        assert await producer.end() == 0
        await tried.wait()
        await asyncio.sleep(0)
        before = metadata_cache.image
        image = client.context.controller.image.topics["t"]
        led = replace(image.partitions[0], leader_epoch=image.partitions[0].leader_epoch + 1)
        after = replace(before, topics={**before.topics, "t": replace(image, partitions=(led, *image.partitions[1:]))})
        await metadata_cache.update(lambda _: after)
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"a"]

    monkeypatch.setattr(transaction_completion, "BACKOFF", ExponentialBackoff(3600, 3600))
    with_manual_clock(test, tmp_path)
