"""Streams groups through dispatch: internal topics are created, groups are described, and a restart keeps them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.allowing import TOPIC_REFUSED, allow, codes, only, with_rules
from tests.unit.broker.asking import Asker, with_broker

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


async def prepare(client: Asker) -> None:
    topics = [CreatableTopic(name="t", num_partitions=2, replication_factor=1)]
    await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    await client.ask(FindCoordinatorRequest(key="g"), 3)


async def beat(client: Asker, epoch: int) -> m.StreamsGroupHeartbeatResponse:
    answer = await client.ask(m.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch), 0)
    assert answer.error_code == 0
    return answer


async def join(client: Asker, topology: m.Topology) -> m.StreamsGroupHeartbeatResponse:
    answer = await client.ask(joining(topology), 0)
    assert answer.error_code == 0, answer.error_message
    while client.context.groups.streams_topics._creating:
        await asyncio.sleep(0)
    return answer


def detail(answer: m.StreamsGroupHeartbeatResponse) -> str:
    assert answer.status is not None
    (status,) = answer.status
    return status.status_detail


async def run(client: Asker) -> m.StreamsGroupHeartbeatResponse:
    """Return the response with the first tasks."""
    epoch = (await join(client, word_count(cleanup_policy="compact"))).member_epoch
    return await beat(client, epoch)


def test_internal_topics_are_created_and_tasks_assigned(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        answer = await join(client, word_count(cleanup_policy="compact"))
        assert [s.status_code for s in answer.status or ()] == [MISSING_INTERNAL_TOPICS]
        topics = client.context.image.topics
        assert [len(topics[name].partitions) for name in (REPARTITION, CHANGELOG)] == [2, 2]
        assert topics[CHANGELOG].configs == {"cleanup.policy": "compact"}
        answer = await beat(client, answer.member_epoch)
        assert answer.status == []
        assert {t.subtopology_id: t.partitions for t in answer.active_tasks or ()} == {"0": [0, 1], "1": [0, 1]}

    with_broker(test, tmp_path, **NO_DELAY)


def test_group_is_listed_and_described(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        await run(client)
        (listed,) = (await client.ask(ListGroupsRequest(types_filter=["Streams"]), 5)).groups
        assert (listed.group_type, listed.protocol_type, listed.group_state) == ("streams", "streams", "Stable")
        (group,) = (await client.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 1)).groups
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
        (missing,) = (await client.ask(StreamsGroupDescribeRequest(group_ids=["none"]), 0)).groups
        assert for_code(missing.error_code).name == "GROUP_ID_NOT_FOUND"
        (classic,) = (await client.ask(DescribeGroupsRequest(groups=["g"]), 6)).groups
        assert (classic.group_state, classic.error_message) == ("Dead", "Group g is not a classic group.")

    with_broker(test, tmp_path, **NO_DELAY)


def test_offsets_are_committed_with_the_members_epoch_and_deleted_with_the_group(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        epoch = (await run(client)).member_epoch

        async def commit(member_epoch: int) -> set[int]:
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
            topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
            request = OffsetCommitRequest(
                group_id="g", member_id="m", generation_id_or_member_epoch=member_epoch, topics=[topic]
            )
            return codes(await client.ask(request, 9))

        assert await commit(epoch) == set()
        assert {for_code(code).name for code in await commit(epoch - 1)} == {"STALE_MEMBER_EPOCH"}
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        answer = await client.ask(OffsetDeleteRequest(group_id="g", topics=[topic]), 0)
        assert {for_code(code).name for code in codes(answer)} == {"GROUP_SUBSCRIBED_TO_TOPIC"}
        (refused,) = (await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)).results
        assert for_code(refused.error_code).name == "NON_EMPTY_GROUP"
        await beat(client, -1)
        assert codes(await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)) == set()
        assert "g" not in client.context.groups.groups.by_id

    with_broker(test, tmp_path, **NO_DELAY)


def test_group_continues_after_a_restart(tmp_path: Path) -> None:
    epochs: list[int] = []

    async def before(client: Asker) -> None:
        await prepare(client)
        epochs.append((await run(client)).member_epoch)

    async def after(client: Asker) -> None:
        await client.ask(FindCoordinatorRequest(key="g"), 3)
        answer = await beat(client, epochs[0])
        assert (answer.member_epoch, answer.active_tasks, answer.status) == (epochs[0], None, [])

    with_broker(before, tmp_path, **NO_DELAY)
    with_broker(after, tmp_path, **NO_DELAY)


def test_group_goes_with_its_partition_and_comes_back(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        epoch = (await run(client)).member_epoch
        partitions = client.context.partitions
        offsets = [p for p in partitions if p.topic_partition.topic == CONSUMER_OFFSETS]
        for partition in offsets:
            for listener in partitions._listeners:
                listener.on_resigned(partition.topic_partition)
        request = m.StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
        assert for_code((await client.ask(request, 0)).error_code).name == "NOT_COORDINATOR"
        streams = client.context.groups.groups.streams
        assert (streams._transient, streams._timers) == ({}, {})
        for partition in offsets:
            for listener in partitions._listeners:
                listener.on_leader(partition)
        assert (await beat(client, epoch)).member_epoch == epoch
        assert client.context.groups._deadlines._scheduled.keys() == {"g"}, "the member has a session again"

    with_broker(test, tmp_path, **NO_DELAY)


def test_creation_that_fails_is_reported(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        epoch = (await join(client, word_count(no_such_config="1"))).member_epoch
        assert detail(await beat(client, epoch)) == (
            f"Internal topics are missing: {CHANGELOG}; Creation failed: {CHANGELOG} (Unknown topic config name: "
            "no.such.config)."
        )

    with_broker(test, tmp_path, **NO_DELAY)


def test_member_needs_describe_on_all_topics_and_create_on_internal_ones(tmp_path: Path) -> None:
    group = allow(ACLOperation.READ, ResourceType.GROUP, "g")
    topics = [allow(ACLOperation.DESCRIBE, ResourceType.TOPIC, name) for name in ("t", REPARTITION, CHANGELOG)]

    async def test(client: Asker) -> None:
        await prepare(client)
        only(client, group, *topics[:2])
        assert codes(await client.ask(joining(word_count()), 0)) == {TOPIC_REFUSED}
        only(client, group, *topics)
        assert detail(await join(client, word_count())) == (
            f"Internal topics are missing: {REPARTITION}, {CHANGELOG}; Unauthorized to CREATE on topics "
            f"{REPARTITION}, {CHANGELOG}."
        )
        creates = [allow(ACLOperation.CREATE, ResourceType.TOPIC, name) for name in (REPARTITION, CHANGELOG)]
        only(client, group, *topics, *creates)
        await join(client, word_count())
        assert {REPARTITION, CHANGELOG} <= client.context.image.topics.keys()
        see_group = allow(ACLOperation.DESCRIBE, ResourceType.GROUP, "g")
        only(client, see_group, *topics[:2])
        (described,) = (await client.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups
        assert (described.error_code, described.members) == (TOPIC_REFUSED, [])

    with_rules(test, tmp_path, **NO_DELAY)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is"),
        ("a b", "Topic names a b are not valid topic names."),
    ],
)
def test_topology_with_impossible_topics_is_rejected(topic: str, message: str, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        topology = m.Topology(subtopologies=[m.Subtopology(subtopology_id="0", source_topics=[topic])])
        answer = await client.ask(joining(topology), 0)
        assert for_code(answer.error_code).name == "STREAMS_INVALID_TOPOLOGY"
        assert (answer.error_message or "").startswith(message)

    with_broker(test, tmp_path)


def test_version_with_task_offsets_is_not_offered(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        answer = await client.ask(ApiVersionsRequest(), 0)
        (served,) = [api for api in answer.api_keys if api.api_key == m.StreamsGroupHeartbeatRequest.API_KEY]
        assert (served.min_version, served.max_version) == (0, 0)

    with_broker(test, tmp_path)


def test_protocol_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        assert for_code((await client.ask(joining(word_count()), 0)).error_code).name == "UNSUPPORTED_VERSION"

    with_broker(test, tmp_path, group_coordinator_rebalance_protocols="classic,consumer")
