"""Share groups: records are acquired, acknowledged and released, and the state survives a restart."""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.share_group_requests import (
    Acks,
    acknowledgements,
    acquired,
    fetch,
    partition_data,
    prepare,
    produce,
)
from tests.unit.broker.transactional_producer import (
    T0,
    TransactionalProducer,
    find_coordinator,
    wait_until_completed,
    with_manual_clock,
)

from ottla.broker.handlers.share_fetch import ShareFetch
from ottla.broker.sessions import share_fetch
from ottla.clock import ManualClock
from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.share_partition.share_partition import RecordState
from ottla.errors import CoordinatorNotAvailableError, for_code
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

ACCEPT, RELEASE, RENEW = 1, 2, 4
OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 1, 3, 68, 69


async def heartbeat(client: BrokerClient, epoch: int) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"])
    response = await client.request(request, 1)
    assert response.error_code == 0
    return response


async def acknowledge(client: BrokerClient, epoch: int, acks: Acks, member: str = "m") -> str | None:
    topic_id = client.context.image.topics["t"].id
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=acknowledgements(acks))
    topics = [AcknowledgeTopic(topic_id=topic_id, partitions=[partition])] if acks else []
    request = ShareAcknowledgeRequest(group_id="g", member_id=member, share_session_epoch=epoch, topics=topics)
    response = await client.request(request, 1)
    code = response.error_code or (response.responses[0].partitions[0].error_code if response.responses else 0)
    return for_code(code).name if code else None


async def set_group_config(client: BrokerClient, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
    answer = await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


def test_records_are_acquired_once_and_acknowledged(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        first = await fetch(client, 0)
        data = partition_data(first)
        assert data is not None
        assert data.records is not None
        assert [r.value for r in records(memoryview(data.records))] == [b"0", b"1", b"2", b"3", b"4"]
        assert acquired(first) == [(0, 4, 1)]
        assert first.acquisition_lock_timeout_ms == 30_000
        assert acquired(await fetch(client, 0, "other")) == []
        assert await acknowledge(client, 1, [(0, 2, ACCEPT), (3, 4, RELEASE)]) is None
        assert acquired(await fetch(client, 1, "other")) == [(3, 4, 2)]
        assert await acknowledge(client, 2, [(3, 3, ACCEPT)]) == "INVALID_RECORD_STATE"

    with_broker(test, tmp_path)


def test_share_fetch_carries_acknowledgements(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert acquired(await fetch(client, 0, max_records=2, share_acquire_mode=1)) == [(0, 1, 1)]
        assert acquired(await fetch(client, 1, acks=[(0, 1, ACCEPT)], max_records=1)) == [(2, 4, 1)]
        data = partition_data(await fetch(client, 2, acks=[(0, 9, ACCEPT)]))
        assert data is not None
        assert for_code(data.acknowledge_error_code).name == "INVALID_REQUEST"

    with_broker(test, tmp_path)


def test_share_fetch_waits_for_new_and_for_released_records(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 1)
        assert acquired(await fetch(client, 0)) == [(0, 0, 1)]
        (stored,) = client.context.share_partitions._loaded.values()

        async def fetch_and_wait(epoch: int) -> asyncio.Future[ShareFetchResponse]:
            waiting = asyncio.ensure_future(fetch(client, epoch, "other", max_wait_ms=15_000))
            while not stored.partition.waiters:
                await asyncio.sleep(0)
            return waiting

        waiting = await fetch_and_wait(0)
        assert await acknowledge(client, -1, []) is None  # the session ends, its record is free
        assert acquired(await asyncio.wait_for(waiting, 5)) == [(0, 0, 2)]
        waiting = await fetch_and_wait(1)
        await produce(client, 1)
        assert acquired(await asyncio.wait_for(waiting, 5)) == [(1, 1, 1)]

    with_broker(test, tmp_path)


def test_records_are_released_when_their_acquisition_lock_expires(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 1)
        assert acquired(await fetch(client, 0)) == [(0, 0, 1)]
        again = fetch(client, 0, "other", max_wait_ms=15_000)
        assert acquired(await asyncio.wait_for(again, 5)) == [(0, 0, 2)]

    durations = {f"group_share_{bound}record_lock_duration_ms": 1000 for bound in ("", "min_")}
    with_broker(test, tmp_path, **durations)


def test_group_configs_set_session_heartbeat_and_lock_timeouts(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 2)
        timeouts = (
            ("session.timeout.ms", "50000"),
            ("heartbeat.interval.ms", "6000"),
            ("record.lock.duration.ms", "20000"),
        )
        configs = [AlterableConfig(name=f"share.{name}", value=value) for name, value in timeouts]
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=configs)
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert (await heartbeat(client, 0)).heartbeat_interval_ms == 6000
        assert client.context.groups.groups.share.configs.session_timeout_ms("g") == 50_000
        assert (await fetch(client, 0, max_records=1)).acquisition_lock_timeout_ms == 20_000
        states = client.context.share_partitions
        (key,) = states.keys_of_group("g")
        partition = states.get(key)
        assert partition is not None
        assert partition.limits.lock_seconds == 20

    with_broker(test, tmp_path)


def test_group_config_limits_the_deliveries_of_a_record(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 1)
        await set_group_config(client, "share.delivery.count.limit", "2")
        assert acquired(await fetch(client, 0)) == [(0, 0, 1)]
        assert acquired(await fetch(client, 1, acks=[(0, 0, RELEASE)])) == [(0, 0, 2)]
        assert acquired(await fetch(client, 2, acks=[(0, 0, RELEASE)])) == []

    with_broker(test, tmp_path)


def test_group_config_limits_the_records_in_flight(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 150)
        await set_group_config(client, "share.partition.max.record.locks", "100")
        assert acquired(await fetch(client, 0, max_records=1000)) == [(0, 99, 1)]
        assert acquired(await fetch(client, 1)) == []
        await set_group_config(client, "share.partition.max.record.locks", "120")
        assert acquired(await fetch(client, 2, max_records=1000)) == [(100, 119, 1)]

    with_broker(test, tmp_path)


def test_renewal_is_rejected_if_the_group_config_disables_it(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 2)
        await fetch(client, 0)
        assert await acknowledge(client, 1, [(0, 0, RENEW)]) is None
        await set_group_config(client, "share.renew.acknowledge.enable", "false")
        assert await acknowledge(client, 2, [(0, 0, ACCEPT), (1, 1, RENEW)]) == "INVALID_RECORD_STATE"
        assert await acknowledge(client, 3, [(0, 1, ACCEPT)]) is None

    with_broker(test, tmp_path)


def test_each_acquisition_lock_expires_at_its_own_time_with_one_timer_per_partition(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        states = client.context.share_partitions
        await prepare(client, 1)
        assert acquired(await fetch(client, 0)) == [(0, 0, 1)]
        clock.advance(20_000)
        await produce(client, 1)
        assert acquired(await fetch(client, 1)) == [(1, 1, 1)]
        assert len(states._lock_timeouts._due) == 1
        (stored,) = states._loaded.values()
        for milliseconds, released in ((11_000, 0), (20_000, 1)):
            clock.advance(milliseconds)
            states._lock_timeouts.expire()
            assert stored.partition.slots[released].state is RecordState.AVAILABLE
            assert stored.partition.next_expiry == (50 if released == 0 else NEVER)
        assert not states._lock_timeouts._due

    with_manual_clock(test, tmp_path, ManualClock(time.time_ns() // 1_000_000))


def test_records_whose_acknowledgement_could_not_be_stored_are_delivered_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        async def fail(*_: object) -> None:
            raise CoordinatorNotAvailableError

        await prepare(client, 3)
        assert acquired(await fetch(client, 0)) == [(0, 2, 1)]
        with monkeypatch.context() as patch:
            patch.setattr(client.context.share_persister, "write", fail)
            assert await acknowledge(client, 1, [(0, 1, ACCEPT)]) == "COORDINATOR_NOT_AVAILABLE"
        assert await acknowledge(client, 2, [(1, 2, ACCEPT)]) is None, "the member still has the record"
        clock.advance(31_000)
        client.context.share_partitions._lock_timeouts.expire()
        assert acquired(await fetch(client, 3)) == [(0, 0, 2)]

    with_manual_clock(test, tmp_path, ManualClock(time.time_ns() // 1_000_000))


def test_sessions_of_a_connection_do_not_keep_their_first_responses(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert acquired(await fetch(client, 0)) == [(0, 4, 1)]
        gc.collect()
        assert [one for one in gc.get_objects() if type(one) is ShareFetch] == []
        for _ in range(3):
            await fetch(client, 0)
        assert len(client.connection.on_close) == 1

    with_broker(test, tmp_path)


def test_share_session_epoch_and_limit_are_checked(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert for_code((await fetch(client, 1)).error_code).name == "SHARE_SESSION_NOT_FOUND"
        await fetch(client, 0)
        assert for_code((await fetch(client, 5)).error_code).name == "INVALID_SHARE_SESSION_EPOCH"
        assert await acknowledge(client, 0, []) == "INVALID_SHARE_SESSION_EPOCH"
        assert for_code((await fetch(client, 0, "other")).error_code).name == "SHARE_SESSION_LIMIT_REACHED"

    with_broker(test, tmp_path, group_share_max_share_sessions=1)


def test_new_group_starts_at_the_latest_offset_by_default(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=1, value=None)
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert acquired(await fetch(client, 0)) == []
        await produce(client, 1)
        assert acquired(await fetch(client, 1)) == [(5, 5, 1)]

    with_broker(test, tmp_path)


@pytest.mark.parametrize(
    ("duration", "start"), [("PT1H", 2), ("PT2H", 1), ("P30000D", 0), ("PT0.5S", 3)], ids=["1h", "2h", "all", "none"]
)
def test_new_group_with_by_duration_starts_at_the_first_record_of_that_time(
    tmp_path: Path, duration: str, start: int
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await prepare(client, 0)
        await set_group_config(client, "share.auto.offset.reset", f"by_duration:{duration}")
        for minutes in (180, 90, 30):
            await produce(client, 1, clock.now_ms() - minutes * 60_000)
        first = acquired(await fetch(client, 0))
        await produce(client, 1, clock.now_ms())
        assert (first or acquired(await fetch(client, 1)))[0][0] == start

    with_manual_clock(test, tmp_path, ManualClock(time.time_ns() // 1_000_000))


def test_acknowledgements_and_members_survive_a_restart(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await prepare(client)
        heartbeat = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
        )
        assert (await client.request(heartbeat, 1)).member_epoch == 1
        await fetch(client, 0)
        assert await acknowledge(client, 1, [(0, 1, ACCEPT), (3, 3, ACCEPT)]) is None

    async def second(client: BrokerClient) -> None:
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        described = await client.request(DescribeShareGroupOffsetsRequest(groups=[requested]), 1)
        partition = described.groups[0].topics[0].partitions[0]
        assert (partition.start_offset, partition.lag, partition.error_code) == (2, 2, 0)
        assert acquired(await fetch(client, 0, "new")) == [(2, 2, 1), (4, 4, 1)]
        (group,) = (await client.request(ShareGroupDescribeRequest(group_ids=["g"]), 1)).groups
        assert (group.group_state, group.group_epoch, group.assignor_name) == ("Stable", 1, "simple")
        assert [t.topic_name for t in group.members[0].assignment.topic_partitions] == ["t"]
        listed = (await client.request(ListGroupsRequest(types_filter=["share"]), 5)).groups
        assert [(g.group_id, g.group_type, g.protocol_type) for g in listed] == [("g", "share", "share")]

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_deletion_of_a_group_or_a_topic_removes_the_share_state(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        states = client.context.share_states
        heartbeat = ShareGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=["t"]
        )
        await client.request(heartbeat, 1)
        await fetch(client, 0)
        delete = DeleteGroupsRequest(groups_names=["g"])
        assert (await client.request(delete, 2)).results[0].error_code == 68
        heartbeat.member_epoch = -1
        await client.request(heartbeat, 1)
        assert (await client.request(delete, 2)).results[0].error_code == 0
        assert states._stored == {}
        await fetch(client, 0)
        await client.context.controller.topics.delete("t")
        assert states._stored == {}

    with_broker(test, tmp_path)


@pytest.mark.parametrize("missing", ["group_id", "member_id"])
def test_share_fetch_without_group_or_member_id_is_invalid(tmp_path: Path, missing: str) -> None:
    async def test(client: BrokerClient) -> None:
        fields: dict[str, Any] = {"group_id": "g", "member_id": "m", missing: None}
        request = ShareFetchRequest(**fields)
        assert for_code((await client.request(request, 1)).error_code).name == "INVALID_REQUEST"

    with_broker(test, tmp_path)


def test_offsets_of_a_group_without_members_are_altered_and_deleted(tmp_path: Path) -> None:
    async def alter(client: BrokerClient, start: int) -> tuple[int, list[int]]:
        partitions = [
            AlterShareGroupOffsetsRequestPartition(partition_index=p, start_offset=s) for p, s in ((0, start), (7, 0))
        ]
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=partitions)
        response = await client.request(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
        codes = [p.error_code for t in response.responses for p in t.partitions]
        return response.error_code, codes

    async def delete_offsets(client: BrokerClient) -> tuple[int, list[int]]:
        topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "no")]
        response = await client.request(DeleteShareGroupOffsetsRequest(group_id="g", topics=topics), 0)
        return response.error_code, [t.error_code for t in response.responses]

    async def start(client: BrokerClient) -> int:
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        response = await client.request(DescribeShareGroupOffsetsRequest(groups=[requested]), 0)
        return next((p.start_offset for t in response.groups[0].topics for p in t.partitions), -1)

    async def first(client: BrokerClient) -> None:
        await prepare(client)
        assert (await delete_offsets(client))[0] == GROUP_ID_NOT_FOUND
        assert await alter(client, 1) == (0, [0, UNKNOWN_TOPIC])  # its first member will begin there
        await heartbeat(client, 0)
        assert await start(client) == 1
        assert await alter(client, 1) == (NON_EMPTY_GROUP, [])
        assert (await delete_offsets(client))[0] == NON_EMPTY_GROUP
        await heartbeat(client, -1)
        assert await alter(client, 99) == (0, [OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC])
        assert await alter(client, 3) == (0, [0, UNKNOWN_TOPIC])
        assert await start(client) == 3

    async def second(client: BrokerClient) -> None:
        assert await start(client) == 3
        assert await delete_offsets(client) == (0, [0, UNKNOWN_TOPIC])
        assert await start(client) == -1

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_partition_that_was_not_fetched_yet_is_described_without_offsets(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await heartbeat(client, 0)
        requested = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
        (group,) = (await client.request(DescribeShareGroupOffsetsRequest(groups=[requested]), 1)).groups
        assert [(p.partition_index, p.start_offset, p.lag, p.error_code) for p in group.topics[0].partitions] == [
            (0, -1, -1, 0)
        ]

    with_broker(test, tmp_path)


def test_closed_connection_ends_the_session_and_releases_its_records(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client, 1)
        assert acquired(await fetch(client, 0)) == [(0, 0, 1)]
        for callback in client.connection.on_close:
            callback()
        assert len(client.context.share_sessions) == 0
        assert client.context.share_partitions.keys_of_group("g") == [], "offsets may be reset before a member returns"
        assert acquired(await fetch(client, 0, "other")) == [(0, 0, 2)]

    with_broker(test, tmp_path)


@pytest.mark.parametrize("is_read_committed", [True, False])
def test_read_committed_group_gets_only_records_of_committed_transactions(
    tmp_path: Path, is_read_committed: bool
) -> None:
    async def test(client: BrokerClient, _: ManualClock) -> None:
        await prepare(client, 0)
        if is_read_committed:
            config = AlterableConfig(name="share.isolation.level", config_operation=0, value="read_committed")
            resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
            answer = await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            assert answer.responses[0].error_code == 0
        await find_coordinator(client)
        producer = TransactionalProducer(client)
        assert await producer.init() == 0
        for committed in (False, True):
            assert await producer.send(T0, b"a", b"b") == 0
            assert await producer.end(committed) == 0
            await wait_until_completed(client)
        assert await producer.send(T0, b"open") == 0
        # offsets: aborted records 0 and 1, a marker, committed ones 3 and 4, a marker, one of an open transaction
        ranges = acquired(await fetch(client, 0))
        assert ranges == ([(2, 5, 1)] if is_read_committed else [(0, 6, 1)])
        if is_read_committed:
            assert await acknowledge(client, 1, [(2, 5, ACCEPT)]) is None
            (led,) = client.context.share_partitions._loaded.values()
            assert led.partition.start == 6, "nothing holds back the start offset"

    with_manual_clock(test, tmp_path)


def test_read_committed_group_passes_aborted_transactions_that_are_larger_than_a_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_fetch, "READ_BYTES", 1)  # a batch per read

    async def test(client: BrokerClient, _: ManualClock) -> None:
        await prepare(client, 0)
        config = AlterableConfig(name="share.isolation.level", config_operation=0, value="read_committed")
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        await find_coordinator(client)
        producer = TransactionalProducer(client)
        assert await producer.init() == 0
        for _batch in range(3):
            assert await producer.send(T0, b"a") == 0
        assert await producer.end(False) == 0
        await wait_until_completed(client)
        assert acquired(await fetch(client, 0)) == [(3, 3, 1)], "only the marker is left, which clients skip"

    with_manual_clock(test, tmp_path)
