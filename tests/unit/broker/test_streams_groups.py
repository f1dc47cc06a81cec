"""Streams groups: internal topics are created, groups are described, and they survive a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.authorization import TOPIC_AUTHORIZATION_FAILED, allow, allow_only, codes, with_authorizer
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.errors import for_code
from ottla.model import CONSUMER_OFFSETS, ACLOperation
from ottla.protocol.messages import streams_group_heartbeat as m
from ottla.protocol.messages.api_versions import ApiVersionsRequest
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
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.security.acl import ResourceType

NO_DELAY: dict[str, Any] = {
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
}
REPARTITION, CHANGELOG = "g-r-repartition", "g-s-changelog"
MISSING_INTERNAL_TOPICS = 3


def word_count(**configs: str) -> m.Topology:
    settings = [m.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return m.Topology(
        subtopologies=[
            m.Subtopology(subtopology_id="0", source_topics=["t"], repartition_sink_topics=[REPARTITION]),
            m.Subtopology(
                subtopology_id="1",
                repartition_source_topics=[m.TopicInfo(name=REPARTITION)],
                state_changelog_topics=[m.TopicInfo(name=CHANGELOG, topic_configs=settings)],
            ),
        ]
    )


def joining(topology: m.Topology) -> m.StreamsGroupHeartbeatRequest:
    return m.StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=1000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


async def prepare(client: BrokerClient) -> None:
    topics = [CreatableTopic(name="t", num_partitions=2, replication_factor=1)]
    await client.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    await client.request(FindCoordinatorRequest(key="g"), 3)


async def heartbeat(client: BrokerClient, epoch: int) -> m.StreamsGroupHeartbeatResponse:
    response = await client.request(m.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 0)
    assert response.error_code == 0
    return response


async def join(client: BrokerClient, topology: m.Topology) -> m.StreamsGroupHeartbeatResponse:
    response = await client.request(joining(topology), 0)
    assert response.error_code == 0, response.error_message
    while client.context.groups.streams_topics._creating:
        await asyncio.sleep(0)
    return response


def detail(response: m.StreamsGroupHeartbeatResponse) -> str:
    assert response.status is not None
    (status,) = response.status
    return status.status_detail


async def run(client: BrokerClient) -> m.StreamsGroupHeartbeatResponse:
    """Return the response with the first tasks."""
    epoch = (await join(client, word_count(cleanup_policy="compact"))).member_epoch
    return await heartbeat(client, epoch)


def test_internal_topics_are_created_and_tasks_assigned(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        response = await join(client, word_count(cleanup_policy="compact"))
        assert [s.status_code for s in response.status or ()] == [MISSING_INTERNAL_TOPICS]
        topics = client.context.image.topics
        assert [len(topics[name].partitions) for name in (REPARTITION, CHANGELOG)] == [2, 2]
        assert topics[CHANGELOG].configs == {"cleanup.policy": "compact"}
        response = await heartbeat(client, response.member_epoch)
        assert response.status == []
        assert {t.subtopology_id: t.partitions for t in response.active_tasks or ()} == {"0": [0, 1], "1": [0, 1]}

    with_broker(test, tmp_path, **NO_DELAY)


def test_group_is_listed_and_described(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        await run(client)
        (listed,) = (await client.request(ListGroupsRequest(types_filter=["Streams"]), 5)).groups
        assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", "Stable")
        (group,) = (await client.request(StreamsGroupDescribeRequest(group_ids=["g"]), 1)).groups
        assert (group.error_code, group.group_state, group.group_epoch, group.assignment_epoch) == (0, "Stable", 3, 3)
        assert group.assignor_name == "sticky"
        assert group.topology is not None
        assert group.topology.subtopologies is not None
        (changelog,) = group.topology.subtopologies[1].state_changelog_topics
        assert (changelog.name, changelog.partitions) == (CHANGELOG, 2)
        (member,) = group.members
        assert (member.member_id, member.process_id, member.member_epoch) == ("m", "p", 3)
        assert [(t.subtopology_id, t.partitions) for t in member.assignment.active_tasks] == [
            ("0", [0, 1]),
            ("1", [0, 1]),
        ]
        assert member.target_assignment == member.assignment
        (missing,) = (await client.request(StreamsGroupDescribeRequest(group_ids=["none"]), 0)).groups
        assert for_code(missing.error_code).name == "GROUP_ID_NOT_FOUND"
        (classic,) = (await client.request(DescribeGroupsRequest(groups=["g"]), 6)).groups
        assert (classic.group_state, classic.error_message) == ("Dead", "Group g is not a classic group.")

    with_broker(test, tmp_path, **NO_DELAY)


def test_offsets_are_committed_with_the_members_epoch_and_deleted_with_the_group(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        epoch = (await run(client)).member_epoch

        async def commit(member_epoch: int) -> set[int]:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
            topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
            request = OffsetCommitRequest(
                group_id="g", member_id="m", generation_id_or_member_epoch=member_epoch, topics=[topic]
            )
            return codes(await client.request(request, 9))

        assert await commit(epoch) == set()
        assert {for_code(code).name for code in await commit(epoch - 1)} == {"STALE_MEMBER_EPOCH"}
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        response = await client.request(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)
        assert {for_code(code).name for code in codes(response)} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
        (rejected,) = (await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)).results
        assert for_code(rejected.error_code).name == "NON_EMPTY_GROUP"
        await heartbeat(client, -1)
        assert codes(await client.request(DeleteGroupsRequest(groups_names=["g"]), 2)) == set()
        assert "g" not in client.context.groups.groups.by_id

    with_broker(test, tmp_path, **NO_DELAY)


def test_group_continues_after_a_restart(tmp_path: Path) -> None:
    epochs: list[int] = []

    async def before(client: BrokerClient) -> None:
        await prepare(client)
        epochs.append((await run(client)).member_epoch)

    async def after(client: BrokerClient) -> None:
        await client.request(FindCoordinatorRequest(key="g"), 3)
        response = await heartbeat(client, epochs[0])
        assert (response.member_epoch, response.active_tasks, response.status) == (epochs[0], None, [])

    with_broker(before, tmp_path, **NO_DELAY)
    with_broker(after, tmp_path, **NO_DELAY)


def test_group_is_unloaded_and_loaded_with_its_partition(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        epoch = (await run(client)).member_epoch
        partitions = client.context.partitions
        offsets = [p for p in partitions if p.topic_partition.topic == CONSUMER_OFFSETS]
        for partition in offsets:
            for listener in partitions._listeners:
                listener.on_resigned(partition.topic_partition)
        request = m.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
        assert for_code((await client.request(request, 0)).error_code).name == "NOT_COORDINATOR"
        streams = client.context.groups.groups.streams
        assert (streams._transient, streams._timers) == ({}, {})
        for partition in offsets:
            for listener in partitions._listeners:
                listener.on_leader(partition)
        assert (await heartbeat(client, epoch)).member_epoch == epoch
        assert client.context.groups._deadlines._scheduled.keys() == {"g"}, "the member has a session again"

    with_broker(test, tmp_path, **NO_DELAY)


def test_failed_creation_of_internal_topics_is_reported(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        epoch = (await join(client, word_count(no_such_config="1"))).member_epoch
        assert detail(await heartbeat(client, epoch)) == (
            f"Internal topics are missing: {CHANGELOG}; Creation failed: {CHANGELOG} (Unknown topic config name: "
            "no.such.config)."
        )

    with_broker(test, tmp_path, **NO_DELAY)


def test_member_requires_describe_on_all_topics_and_create_on_internal_ones(tmp_path: Path) -> None:
    group = allow(ACLOperation.READ, ResourceType.GROUP, "g")
    topics = [allow(ACLOperation.DESCRIBE, ResourceType.TOPIC, name) for name in ("t", REPARTITION, CHANGELOG)]

    async def test(client: BrokerClient) -> None:
        await prepare(client)
        allow_only(client, group, *topics[:2])
        assert codes(await client.request(joining(word_count()), 0)) == {TOPIC_AUTHORIZATION_FAILED}
        allow_only(client, group, *topics)
        assert detail(await join(client, word_count())) == (
            f"Internal topics are missing: {REPARTITION}, {CHANGELOG}; Unauthorized to CREATE on topics "
            f"{REPARTITION}, {CHANGELOG}."
        )
        creates = [allow(ACLOperation.CREATE, ResourceType.TOPIC, name) for name in (REPARTITION, CHANGELOG)]
        allow_only(client, group, *topics, *creates)
        await join(client, word_count())
        assert {REPARTITION, CHANGELOG} <= client.context.image.topics.keys()
        see_group = allow(ACLOperation.DESCRIBE, ResourceType.GROUP, "g")
        allow_only(client, see_group, *topics[:2])
        (described,) = (await client.request(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups
        assert (described.error_code, described.members) == (TOPIC_AUTHORIZATION_FAILED, [])

    with_authorizer(test, tmp_path, **NO_DELAY)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is"),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_topology_with_impossible_topics_is_rejected(topic: str, message: str, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        topology = m.Topology(subtopologies=[m.Subtopology(subtopology_id="0", source_topics=[topic])])
        response = await client.request(joining(topology), 0)
        assert for_code(response.error_code).name == "STREAMS_INVALID_TOPOLOGY"
        assert (response.error_message or "").startswith(message)

    with_broker(test, tmp_path)


def test_version_with_task_offsets_is_not_offered(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(ApiVersionsRequest(), 0)
        (served,) = [api for api in response.api_keys if api.api_key == m.StreamsGroupHeartbeatRequest.API_KEY]
        assert (served.min_version, served.max_version) == (0, 0)

    with_broker(test, tmp_path)


def test_protocol_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        assert for_code((await client.request(joining(word_count()), 0)).error_code).name == "UNSUPPORTED_VERSION"

    with_broker(test, tmp_path, group_coordinator_rebalance_protocols="classic,consumer")
