"""Classic groups, offsets and producer ids, before and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.group_requests import commit, committed, join, prepare

from ottla.errors import NotCoordinatorError, NotLeaderOrFollowerError, UnstableOffsetCommitError
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_committed_and_fetched_in_every_version(tmp_path: Path, version: int) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await committed(client, max(1, version)) == (-1, "")
        assert await commit(client, 42, version) == 0
        assert await committed(client, version) == (42, "note")

    with_broker(test, tmp_path)


def test_all_offsets_of_a_group_are_fetched_by_topic(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        request = CreatableTopic(name="s", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
        for name, index in (("t", 1), ("s", 0), ("t", 0)):
            partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=7)]
            topics = [OffsetCommitRequestTopic(name=name, partitions=partitions)]
            await client.request(OffsetCommitRequest(group_id="g", topics=topics), 8)
        everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        actual = (await client.request(everything, 8)).groups[0].topics
        assert [(t.name, [p.partition_index for p in t.partitions]) for t in actual] == [("s", [0]), ("t", [0, 1])]

    with_broker(test, tmp_path)


def test_offset_commit_version_0_is_stored_in_the_metadata_store(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await prepare(client)
        requested = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 9])]
        )
        actual = (await client.request(requested, 0)).topics[0].partitions
        assert [(p.committed_offset, p.error_code) for p in actual] == [(-1, 3), (-1, 3)]
        for offset in (41, 42):
            assert await commit(client, offset, 0) == 0
        assert await committed(client, 1) == (-1, "")

    async def second(client: BrokerClient) -> None:
        assert (await committed(client, 0))[0] == 42
        node = await client.context.controller._context.store.get("/consumers/g/offsets/t/0")
        assert node is not None
        assert node.value == b"42"

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_offset_commit_version_1_sets_the_commit_timestamp(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)
        partition.commit_timestamp = 1_000
        topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
        await client.request(OffsetCommitRequest(group_id="g", topics=[topic]), 1)
        assert [c.commit_ms for c in client.context.groups.offsets.by_group["g"].values()] == [1_000]

    with_broker(test, tmp_path)


def test_offset_delete_returns_an_error_per_partition(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await commit(client, 5) == 0
        partitions = [OffsetDeleteRequestPartition(partition_index=i) for i in (0, 1, 7)]
        request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
        response = await client.request(request, 0)
        assert [p.error_code for p in response.topics[0].partitions] == [0, 0, 3]
        assert await committed(client) == (-1, "")
        request.group_id = "none"
        assert (await client.request(request, 0)).error_code == 69

    with_broker(test, tmp_path)


def test_offset_commit_of_a_non_member_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        member = await join(client)
        assert await commit(client, 1) == 25
        member_fields = {"member_id": member.member_id}
        assert await commit(client, 1, generation_id_or_member_epoch=member.generation_id, **member_fields) == 0
        assert await commit(client, 1, generation_id_or_member_epoch=member.generation_id - 1, **member_fields) == 22

    with_broker(test, tmp_path)


def test_offset_metadata_above_the_limit_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await commit(client, 1) == 12
        assert await committed(client) == (-1, "")

    with_broker(test, tmp_path, offset_metadata_max_bytes=3)


def test_groups_and_offsets_survive_a_restart(tmp_path: Path) -> None:
    members: list[Any] = []

    async def first(client: BrokerClient) -> None:
        await prepare(client)
        member = await join(client)
        members.append(member)
        member_fields = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id}
        assert await commit(client, 7, **member_fields) == 0

    async def second(client: BrokerClient) -> None:
        assert await committed(client) == (7, "note")
        (member,) = members
        heartbeat = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
        assert (await client.request(heartbeat, 4)).error_code == 0
        described = (await client.request(DescribeGroupsRequest(groups=["g"]), 5)).groups[0]
        assert (described.group_state, described.members[0].member_assignment) == ("Stable", b"parts")

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_groups_are_listed_described_and_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        member = await join(client)
        listed = (await client.request(ListGroupsRequest(states_filter=["stable"]), 5)).groups
        assert [(g.group_id, g.group_state, g.group_type) for g in listed] == [("g", "Stable", "classic")]
        assert (await client.request(ListGroupsRequest(states_filter=["Empty"]), 5)).groups == []
        delete = DeleteGroupsRequest(groups_names=["g", "none"])
        assert [r.error_code for r in (await client.request(delete, 2)).results] == [68, 69]
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=member.member_id)])
        assert (await client.request(leave, 5)).members[0].error_code == 0
        assert await commit(client, 3) == 0
        assert [r.error_code for r in (await client.request(delete, 2)).results] == [0, 69]
        assert await committed(client) == (-1, "")
        unknown = (await client.request(DescribeGroupsRequest(groups=["g"]), 6)).groups[0]
        assert (unknown.error_code, unknown.group_state) == (69, "Dead")

    with_broker(test, tmp_path)


def test_offsets_of_a_deleted_topic_are_removed(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await commit(client, 3) == 0
        await client.context.controller.topics.delete("t")
        assert client.context.groups.offsets.by_group == {}

    with_broker(test, tmp_path)


def test_find_coordinator_of_a_share_partition_requires_a_full_key(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        keys = ["s", "s:AAAAAAAAAAAAAAAAAAAAAQ:0"]
        wrong, right = (await client.request(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)).coordinators
        assert (wrong.error_code, wrong.error_message) == (42, "'s' is not a key group:topicId:partition")
        assert (right.error_code, right.node_id) == (0, client.context.broker_id)
        unknown = (await client.request(FindCoordinatorRequest(key_type=3, coordinator_keys=keys), 6)).coordinators[0]
        assert (unknown.error_code, unknown.error_message) == (42, "coordinators of type 3 are not supported")

    with_broker(test, tmp_path)


def test_producer_ids_are_unique_across_restarts(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    async def test(client: BrokerClient) -> None:
        for _ in range(3):
            response = await client.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
            seen.append((response.producer_id, response.producer_epoch))
        again = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1, producer_id=seen[-1][0], producer_epoch=0
        )
        other = await client.request(again, 4)
        assert other.producer_id not in [producer_id for producer_id, _ in seen]

    with_broker(test, tmp_path)
    with_broker(test, tmp_path)
    assert len(set(seen)) == 6
    assert {epoch for _, epoch in seen} == {0}


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(-2, (-1, 0)), (-1, (-1, 3)), (1500, (2000, 1)), (3001, (-1, -1)), (-3, (3000, 2))]
)
def test_list_offsets_finds_offsets_by_timestamp(tmp_path: Path, timestamp: int, expected: tuple[int, int]) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        for time in (1000, 2000, 3000):
            data = [PartitionProduceData(index=0, records=batch(b"x", timestamp=time))]
            request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
            await client.request(request, 9)
        requested = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        actual = await client.request(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[requested])]), 7
        )
        response = actual.topics[0].partitions[0]
        assert (response.timestamp, response.offset) == expected

    with_broker(test, tmp_path)


def test_joining_member_gets_not_coordinator_when_the_broker_stops(tmp_path: Path) -> None:
    import asyncio

    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await join(client)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        waiting = asyncio.ensure_future(client.request(request, 3))
        await asyncio.sleep(0)
        client.context.groups.close()
        assert (await waiting).error_code == 16

    with_broker(test, tmp_path)


@pytest.mark.parametrize("version", [7, 8])
@pytest.mark.parametrize("is_followed", [True, False])
def test_stable_offsets_of_named_partitions_without_confirmation_are_unstable_until_no_follower_is_left(
    version: int, is_followed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # librdkafka does not retry after NOT_COORDINATOR: one slow follower would stop its consumers for good
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
    if version == 7:
        old_topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        request = OffsetFetchRequest(group_id="g", topics=old_topics, require_stable=True)

    async def test(client: BrokerClient) -> None:
        def confirm(group_id: str, seconds: float) -> asyncio.Future[None]:
            failed = asyncio.get_running_loop().create_future()
            failed.set_exception(NotLeaderOrFollowerError())
            return failed

        await prepare(client)
        monkeypatch.setattr(client.context.groups, "confirm", confirm)
        monkeypatch.setattr(client.context.groups, "is_followed", lambda group_id: is_followed)
        answer = await client.request(request, version)
        assert errors_of(answer) == [0 if is_followed else NotCoordinatorError.code]
        if version == 7:
            partitions = [(p.error_code, p.committed_offset) for topic in answer.topics for p in topic.partitions]
        else:
            fetched = answer.groups[0].topics
            partitions = [(p.error_code, p.committed_offset) for topic in fetched for p in topic.partitions]
        assert partitions == [(UnstableOffsetCommitError.code, -1)] * (2 if is_followed else 0)

    with_broker(test, tmp_path)


@pytest.mark.parametrize("version", [7, 8])
def test_stable_offset_fetch_requires_confirmed_leadership_of_the_group_partition(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def request(stable: bool) -> OffsetFetchRequest:
        if version == 7:
            return OffsetFetchRequest(group_id="g", topics=None, require_stable=stable)
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "other")]
        return OffsetFetchRequest(groups=groups, require_stable=stable)

    async def test(client: BrokerClient) -> None:
        confirmations: dict[str, asyncio.Future[None]] = {}

        def confirm(group_id: str, seconds: float) -> asyncio.Future[None] | None:
            if group_id == "other":
                return None
            return confirmations.setdefault(group_id, asyncio.get_running_loop().create_future())

        monkeypatch.setattr(client.context.groups, "confirm", confirm)
        await prepare(client)
        assert not any(errors_of(await client.request(request(stable=False), version)))
        response = asyncio.ensure_future(client.request(request(stable=True), version))
        while not confirmations:
            await asyncio.sleep(0)
        confirmations["g"].set_exception(NotLeaderOrFollowerError())
        assert errors_of(await response) == [NotCoordinatorError.code, 0][: 1 if version == 7 else 2]
        confirmations.clear()
        response = asyncio.ensure_future(client.request(request(stable=True), version))
        while not confirmations:
            await asyncio.sleep(0)
        confirmations["g"].set_result(None)
        assert not any(errors_of(await response))

    with_broker(test, tmp_path)


def errors_of(response: OffsetFetchResponse) -> list[int]:
    return [group.error_code for group in response.groups] or [response.error_code]
