"""Requests of a classic group and its offsets for tests."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.broker_client import BrokerClient

from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


async def prepare(client: BrokerClient) -> None:
    request = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await client.request(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
    actual = await client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    assert actual.coordinators[0].error_code == 0


async def join(client: BrokerClient, **more: Any) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **more,
    )
    response = await client.request(request, 9)
    if response.error_code == 79:
        request.member_id = response.member_id
        response = await client.request(request, 9)
    assert response.error_code == 0
    assignments = [SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"parts")]
    sync = SyncGroupRequest(
        group_id="g", generation_id=response.generation_id, member_id=response.member_id, assignments=assignments
    )
    assert (await client.request(sync, 5)).assignment == b"parts"
    return response


async def commit(client: BrokerClient, offset: int, version: int = 8, **more: Any) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note")]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    if version >= 10:
        topic.topic_id = client.context.image.topics["t"].id
    request = OffsetCommitRequest(group_id="g", topics=[topic], **more)
    return (await client.request(request, version)).topics[0].partitions[0].error_code


async def committed(client: BrokerClient, version: int = 8) -> tuple[int, str | None]:
    if version < 8:
        requested = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        old_partition = (await client.request(requested, version)).topics[0].partitions[0]
        return old_partition.committed_offset, old_partition.metadata
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    if version >= 10:
        topic.topic_id = client.context.image.topics["t"].id
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    partition = (await client.request(request, version)).groups[0].topics[0].partitions[0]
    return partition.committed_offset, partition.metadata
