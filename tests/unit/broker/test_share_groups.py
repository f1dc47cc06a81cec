"""Share groups through dispatch: records are acquired, acknowledged, come back, and a restart knows what is done."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker
from tests.unit.broker.share_group_requests import Acks, fetch, got, only, prepare, produce, said
from tests.unit.broker.transacting import at_clock

from ottla.clock import ManualClock
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.share_partition.share_partition import RecordState
from ottla.errors import for_code
from ottla.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from ottla.protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.records.decoder import records

ACCEPT, RELEASE = 1, 2
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 1, 3, 68, 69


async def beat(client: Asker, epoch: int) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"])
    answer = await client.ask(request, 1)
    assert answer.error_code == 0
    return answer


async def acknowledge(client: Asker, epoch: int, acks: Acks, member: str = "m") -> str | None:
    topic_id = client.context.image.topics["t"].id
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=said(acks))
    topics = [AcknowledgeTopic(topic_id=topic_id, partitions=[partition])] if acks else []
    request = ShareAcknowledgeRequest(group_id="g", member_id=member, share_session_epoch=epoch, topics=topics)
    answer = await client.ask(request, 1)
    code = answer.error_code or (answer.responses[0].partitions[0].error_code if answer.responses else 0)
    return for_code(code).name if code else None


def test_records_are_acquired_once_and_acknowledged(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        first = await fetch(client, 0)
        data = only(first)
        assert data is not None
        assert data.records is not None
        assert [r.value for r in records(memoryview(data.records))] == [b"0", b"1", b"2", b"3", b"4"]
        assert got(first) == [(0, 4, 1)]
        assert first.acquisition_lock_timeout_ms == 30_000
        assert got(await fetch(client, 0, "other")) == []
        assert await acknowledge(client, 1, [(0, 2, ACCEPT), (3, 4, RELEASE)]) is None
        assert got(await fetch(client, 1, "other")) == [(3, 4, 2)]
        assert await acknowledge(client, 2, [(3, 3, ACCEPT)]) == "INVALID_RECORD_STATE"

    with_broker(test, tmp_path)


def test_acknowledgements_come_with_the_next_fetch(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        assert got(await fetch(client, 0, max_records=2, share_acquire_mode=1)) == [(0, 1, 1)]
        assert got(await fetch(client, 1, acks=[(0, 1, ACCEPT)], max_records=1)) == [(2, 4, 1)]
        data = only(await fetch(client, 2, acks=[(0, 9, ACCEPT)]))
        assert data is not None
        assert for_code(data.acknowledge_error_code).name == "INVALID_REQUEST"

    with_broker(test, tmp_path)


def test_a_fetch_waits_for_records_and_for_those_that_come_back(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client, 1)
        assert got(await fetch(client, 0)) == [(0, 0, 1)]
        (stored,) = client.context.share_partitions._loaded.values()

        async def fetch_and_wait(epoch: int) -> asyncio.Future[ShareFetchResponse]:
            waiting = asyncio.ensure_future(fetch(client, epoch, "other", max_wait_ms=15_000))
            while not stored.partition.waiters:
                await asyncio.sleep(0)
            return waiting

        waiting = await fetch_and_wait(0)
        assert await acknowledge(client, -1, []) is None  # the session ends, its record is free
        assert got(await asyncio.wait_for(waiting, 5)) == [(0, 0, 2)]
        waiting = await fetch_and_wait(1)
        await produce(client, 1)
        assert got(await asyncio.wait_for(waiting, 5)) == [(1, 1, 1)]

    with_broker(test, tmp_path)


def test_records_come_back_when_the_time_is_over(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client, 1)
        assert got(await fetch(client, 0)) == [(0, 0, 1)]
        again = fetch(client, 0, "other", max_wait_ms=15_000)
        assert got(await asyncio.wait_for(again, 5)) == [(0, 0, 2)]

    with_broker(test, tmp_path, group_share_record_lock_duration_ms=1000)


def test_a_group_has_times_of_its_own(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client, 2)
        times = (
            ("session.timeout.ms", "50000"),
            ("heartbeat.interval.ms", "6000"),
            ("record.lock.duration.ms", "20000"),
        )
        configs = [AlterableConfig(name=f"share.{name}", value=value) for name, value in times]
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=configs)
        await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert (await beat(client, 0)).heartbeat_interval_ms == 6000
        assert client.context.groups.groups.share.configs.session_timeout_ms("g") == 50_000
        assert (await fetch(client, 0, max_records=1)).acquisition_lock_timeout_ms == 20_000
        states = client.context.share_partitions
        (key,) = states.keys_of_group("g")
        partition = states.get(key)
        assert partition is not None
        assert partition.limits.lock_seconds == 20

    with_broker(test, tmp_path)


def test_each_record_comes_back_at_its_own_time_and_a_partition_is_waited_for_once(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        states = client.context.share_partitions
        await prepare(client, 1)
        assert got(await fetch(client, 0)) == [(0, 0, 1)]
        clock.advance(20_000)
        await produce(client, 1)
        assert got(await fetch(client, 1)) == [(1, 1, 1)]
        assert len(states._lock_timeouts._due) == 1
        (stored,) = states._loaded.values()
        for milliseconds, back in ((11_000, 0), (20_000, 1)):
            clock.advance(milliseconds)
            states._lock_timeouts.expire()
            assert stored.partition.slots[back].state is RecordState.AVAILABLE
            assert stored.partition.next_expiry == (50 if back == 0 else NEVER)
        assert not states._lock_timeouts._due

    at_clock(test, tmp_path, ManualClock(time.time_ns() // 1_000_000))


def test_sessions_are_checked(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        assert for_code((await fetch(client, 1)).error_code).name == "SHARE_SESSION_NOT_FOUND"
        await fetch(client, 0)
        assert for_code((await fetch(client, 5)).error_code).name == "INVALID_SHARE_SESSION_EPOCH"
        assert await acknowledge(client, 0, []) == "INVALID_SHARE_SESSION_EPOCH"
        assert for_code((await fetch(client, 0, "other")).error_code).name == "SHARE_SESSION_LIMIT_REACHED"

    with_broker(test, tmp_path, group_share_max_share_sessions=1)


def test_a_new_group_begins_at_the_end_where_nothing_else_is_set(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        option = AlterableConfig(name="share.auto.offset.reset", config_operation=1, value=None)
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[option])
        await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert got(await fetch(client, 0)) == []
        await produce(client, 1)
        assert got(await fetch(client, 1)) == [(5, 5, 1)]

    with_broker(test, tmp_path)


def test_a_restart_knows_what_is_done_and_who_was_a_member(tmp_path: Path) -> None:
    async def first(client: Asker) -> None:
        await prepare(client)
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        assert (await client.ask(beat, 1)).member_epoch == 1
        await fetch(client, 0)
        assert await acknowledge(client, 1, [(0, 1, ACCEPT), (3, 3, ACCEPT)]) is None

    async def second(client: Asker) -> None:
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        described = await client.ask(DescribeShareGroupOffsetsRequest(groups=[requested]), 1)
        where = described.groups[0].topics[0].partitions[0]
        assert (where.start_offset, where.lag, where.error_code) == (2, 2, 0)
        assert got(await fetch(client, 0, "new")) == [(2, 2, 1), (4, 4, 1)]
        (group,) = (await client.ask(ShareGroupDescribeRequest(group_ids=["g"]), 1)).groups
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "simple")
        assert [t.topic_name for t in group.members[0].assignment.topic_partitions] == ["t"]
        listed = (await client.ask(ListGroupsRequest(types_filter=["share"]), 5)).groups
        assert [(g.group_id, g.group_type, g.protocol_type) for g in listed] == [("g", "share", "share")]

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_a_deleted_group_and_a_deleted_topic_leave_nothing(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        states = client.context.share_states
        beat = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"])
        await client.ask(beat, 1)
        await fetch(client, 0)
        delete = DeleteGroupsRequest(groups_names=["g"])
        assert (await client.ask(delete, 2)).results[0].error_code == 68
        beat.member_epoch = -1
        await client.ask(beat, 1)
        assert (await client.ask(delete, 2)).results[0].error_code == 0
        assert states._stored == {}
        await fetch(client, 0)
        await client.context.controller.topics.delete("t")
        assert states._stored == {}

    with_broker(test, tmp_path)


@pytest.mark.parametrize("missing", ["group_id", "member_id"])
def test_group_and_member_have_to_be_named(tmp_path: Path, missing: str) -> None:
    async def test(client: Asker) -> None:
        fields: dict[str, Any] = {"group_id": "g", "member_id": "m", missing: None}
        request = ShareFetchRequest(**fields)
        assert for_code((await client.ask(request, 1)).error_code).name == "INVALID_REQUEST"

    with_broker(test, tmp_path)


def test_the_progress_of_a_group_without_members_is_set_and_forgotten(tmp_path: Path) -> None:
    async def alter(client: Asker, start: int) -> tuple[int, list[int]]:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=s) for p, s in ((0, start), (7, 0))
        ]
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=partitions)
        answer = await client.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
        codes = [p.error_code for t in answer.responses for p in t.partitions]
        return answer.error_code, codes

    async def forget(client: Asker) -> tuple[int, list[int]]:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "no")]
        answer = await client.ask(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
        return answer.error_code, [t.error_code for t in answer.responses]

    async def start(client: Asker) -> int:
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        answer = await client.ask(DescribeShareGroupOffsetsRequest(groups=[requested]), 0)
        return next((p.start_offset for t in answer.groups[0].topics for p in t.partitions), -1)

    async def first(client: Asker) -> None:
        await prepare(client)
        assert (await forget(client))[0] == GROUP_ID_NOT_FOUND
        assert await alter(client, 1) == (0, [0, UNKNOWN_TOPIC])  # its first member will begin there
        await beat(client, 0)
        assert await start(client) == 1
        assert await alter(client, 1) == (NON_EMPTY_GROUP, [])
        assert (await forget(client))[0] == NON_EMPTY_GROUP
        await beat(client, -1)
        assert await alter(client, 99) == (0, [OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC])
        assert await alter(client, 3) == (0, [0, UNKNOWN_TOPIC])
        assert await start(client) == 3

    async def second(client: Asker) -> None:
        assert await start(client) == 3
        assert await forget(client) == (0, [0, UNKNOWN_TOPIC])
        assert await start(client) == -1

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_a_member_that_has_not_read_yet_has_partitions_without_offsets(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        await beat(client, 0)
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        (group,) = (await client.ask(DescribeShareGroupOffsetsRequest(groups=[requested]), 1)).groups
        assert [(p.partition_index, p.start_offset, p.lag, p.error_code) for p in group.topics[0].partitions] == [
            (0, -1, -1, 0)
        ]

    with_broker(test, tmp_path)


def test_a_closed_connection_ends_the_session_and_releases_its_records(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client, 1)
        assert got(await fetch(client, 0)) == [(0, 0, 1)]
        for callback in client.connection.on_close:
            callback()
        assert len(client.context.share_sessions) == 0
        assert client.context.share_partitions.keys_of_group("g") == [], "offsets may be reset before a member returns"
        assert got(await fetch(client, 0, "other")) == [(0, 0, 2)]

    with_broker(test, tmp_path)
