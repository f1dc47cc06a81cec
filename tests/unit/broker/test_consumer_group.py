"""A consumer group (KIP-848): heartbeats, offsets with member epochs, descriptions, and a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.errors import for_code
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
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
    OffsetFetchRequestTopics,
)


async def prepare(client: BrokerClient) -> None:
    request = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await client.request(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
    await client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)


async def heartbeat(client: BrokerClient, epoch: int, **more: Any) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **more)
    return await client.request(request, 1)


async def join(client: BrokerClient) -> ConsumerGroupHeartbeatResponse:
    return await heartbeat(client, 0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[])


def name(code: int) -> str | None:
    return for_code(code).name if code else None


async def commit(client: BrokerClient, epoch: int, member: str = "m", version: int = 9) -> str | None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id="g", topics=[topic], member_id=member, generation_id_or_member_epoch=epoch)
    return name((await client.request(request, version)).topics[0].partitions[0].error_code)


async def fetch(client: BrokerClient, epoch: int, member: str | None = "m") -> tuple[str | None, int | None]:
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    group = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=[topic])
    actual = (await client.request(OffsetFetchRequest(groups=[group]), 9)).groups[0]
    return name(actual.error_code), actual.topics[0].partitions[0].committed_offset if actual.topics else None


def test_offset_commit_and_fetch_require_the_current_member_epoch(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert await commit(client, 1) == "GROUP_ID_NOT_FOUND"
        assert (await join(client)).member_epoch == 1
        assert await commit(client, 2) == "STALE_MEMBER_EPOCH"
        assert await commit(client, 1, "unknown") == "UNKNOWN_MEMBER_ID"
        assert await commit(client, -1, "") == "UNKNOWN_MEMBER_ID"
        assert await commit(client, 1, version=8) == "UNSUPPORTED_VERSION"
        assert await commit(client, 1) is None
        assert await fetch(client, 1) == (None, 7)
        assert await fetch(client, -1, None) == (None, 7)
        assert await fetch(client, 2) == ("STALE_MEMBER_EPOCH", None)
        assert await fetch(client, 1, "unknown") == ("UNKNOWN_MEMBER_ID", None)

    with_broker(test, tmp_path)


def test_group_is_listed_and_described_until_it_is_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await join(client)
        listed = (await client.request(ListGroupsRequest(types_filter=["Consumer"]), 5)).groups
        assert [(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed] == [
            ("g", "consumer", "Stable", "consumer")
        ]
        assert (await client.request(ListGroupsRequest(types_filter=["classic"]), 5)).groups == []
        actual = (await client.request(ConsumerGroupDescribeRequest(group_ids=["g", "x"]), 1)).groups
        assert [(g.error_code, g.group_state, g.group_epoch, g.assignment_epoch) for g in actual] == [
            (0, "Stable", 1, 1),
            (69, "", 0, 0),
        ]
        assert actual[1].error_message == "Group x not found."
        (member,) = actual[0].members
        parts = [(t.topic_name, t.partitions) for t in member.assignment.topic_partitions]
        assert (member.member_id, member.member_epoch, member.member_type, parts) == ("m", 1, 1, [("t", [0, 1])])
        assert member.target_assignment == member.assignment
        assert actual[0].assignor_name == "uniform"
        described = (await client.request(DescribeGroupsRequest(groups=["g"]), 6)).groups[0]
        assert (described.error_code, described.group_state) == (69, "Dead")
        delete = DeleteGroupsRequest(groups_names=["g"])
        assert (await client.request(delete, 2)).results[0].error_code == 68
        await commit(client, 1)
        assert (await heartbeat(client, -1)).member_epoch == -1
        assert (await client.request(delete, 2)).results[0].error_code == 0
        assert (await client.request(ListGroupsRequest(), 5)).groups == []
        assert await fetch(client, -1, None) == (None, -1)

    with_broker(test, tmp_path)


def test_offset_delete_of_a_subscribed_topic_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await join(client)
        await commit(client, 1)
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        request = OffsetDeleteRequest(group_id="g", topics=[OffsetDeleteRequestTopic(name="t", partitions=partitions)])
        code = (await client.request(request, 0)).topics[0].partitions[0].error_code
        assert name(code) == "GROUP_SUBSCRIBED_TO_TOPIC"

    with_broker(test, tmp_path)


def test_members_and_their_epochs_survive_a_restart(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        await prepare(client)
        await join(client)
        await commit(client, 1)

    async def second(client: BrokerClient) -> None:
        response = await heartbeat(client, 1)
        assert (response.error_code, response.member_epoch, response.assignment) == (0, 1, None)
        assert await fetch(client, 1) == (None, 7)

    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_api_versions_advertises_the_group_version_feature(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        response = await client.request(request, 4)
        assert ("group.version", 1) in [(f.name, f.max_version_level) for f in response.finalized_features]

    with_broker(test, tmp_path)


def test_consumer_protocol_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert name((await join(client)).error_code) == "UNSUPPORTED_VERSION"

    with_broker(test, tmp_path, group_coordinator_rebalance_protocols="classic")
