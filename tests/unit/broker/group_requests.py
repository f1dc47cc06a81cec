"""The requests of a classic group and its offsets as tests send them."""

from __future__ import annotations

from typing import Any

from tests.unit.broker.asking import Asker

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


async def prepare(client: Asker) -> None:
    request = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    await client.ask(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
    actual = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    assert actual.coordinators[0].error_code == 0


async def join(client: Asker, **more: Any) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **more,
    )
    answer = await client.ask(request, 9)
    if answer.error_code == 79:
        request.member_id = answer.member_id
        answer = await client.ask(request, 9)
    assert answer.error_code == 0
    mine = [SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"parts")]
    sync = SyncGroupRequest(
        group_id="g", generation_id=answer.generation_id, member_id=answer.member_id, assignments=mine
    )
    assert (await client.ask(sync, 5)).assignment == b"parts"
    return answer


async def commit(client: Asker, offset: int, version: int = 8, **more: Any) -> int:
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="note")]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    if version >= 10:
        topic.topic_id = client.context.image.topics["t"].id
    request = OffsetCommitRequest(group_id="g", topics=[topic], **more)
    return (await client.ask(request, version)).topics[0].partitions[0].error_code


async def committed(client: Asker, version: int = 8) -> tuple[int, str | None]:
    if version < 8:
        requested = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])])
        old = (await client.ask(requested, version)).topics[0].partitions[0]
        return old.committed_offset, old.metadata
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    if version >= 10:
        topic.topic_id = client.context.image.topics["t"].id
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])
    actual = (await client.ask(request, version)).groups[0].topics[0].partitions[0]
    return actual.committed_offset, actual.metadata
