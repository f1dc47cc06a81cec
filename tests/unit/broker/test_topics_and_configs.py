"""Topics and their configs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.cluster.broker.registration import Registration
from ottla.cluster.controller.controller import Controller
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create
from ottla.model import TopicPartition
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_topic_partitions import TopicRequest as Named
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


def topic(name: str, partitions: int = -1, replicas: int = -1, **more: object) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("creatable", "code"),
    [
        (topic("ok", 3, 1), 0),
        (topic("defaults"), 0),
        (topic("bad name"), 17),
        (topic(""), 17),
        (topic("x" * 250), 17),
        (topic("ok2", 0, 1), 37),
        (topic("ok3", 1, 2), 38),
        (topic("ok4", configs=[CreatableTopicConfig(name="retention.ms", value="soon")]), 40),
        (topic("ok5", configs=[CreatableTopicConfig(name="retention", value="1")]), 40),
        (topic("ok6", assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]), 0),
        (topic("ok7", assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[5])]), 39),
        (topic("there"), 36),
        (topic("th.ere_2"), 17),
    ],
)
def test_topic_is_created_or_rejected_with_kafkas_error(tmp_path: Path, creatable: CreatableTopic, code: int) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("there"), topic("th_ere.2")], timeout_ms=1000), 7)
        response = (await client.request(CreateTopicsRequest(topics=[creatable], timeout_ms=1000), 7)).topics[0]
        assert response.error_code == code, response
        assert (response.error_message is None) == (code == 0)
        assert (creatable.name in client.context.image.topics) == (code in (0, 36))

    with_broker(test, tmp_path)


def test_validate_only_creates_no_topic(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        request = CreateTopicsRequest(topics=[topic("t", 2)], timeout_ms=1000, validate_only=True)
        assert (await client.request(request, 5)).topics[0].num_partitions == 2
        assert not client.context.image.topics

    with_broker(test, tmp_path)


def test_metadata_auto_creates_a_topic_if_client_and_broker_allow_it(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        assert (await client.request(request, 12)).topics[0].error_code == 3
        request.allow_auto_topic_creation = True
        first = (await client.request(request, 12)).topics[0]
        assert (first.error_code, first.partitions) == (3, [])  # as in Kafka, the next request returns it
        actual = (await client.request(request, 12)).topics[0]
        assert (actual.error_code, len(actual.partitions)) == (0, 4)
        assert actual.topic_id == client.context.image.topics["t"].id
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=actual.topic_id)])
        assert (await client.request(by_id, 12)).topics[0].name == "t"

    with_broker(test, tmp_path, num_partitions=4)


def test_metadata_does_not_create_a_topic_if_the_broker_forbids_it(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 9)
        assert response.topics[0].error_code == 3

    with_broker(test, tmp_path, auto_create_topics_enable="false")


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_topics_in_every_version(tmp_path: Path, version: int) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("a"), topic("b")], timeout_ms=1000), 7)
        everything = MetadataRequest(topics=[] if version == 0 else None)
        response = await client.request(everything, version)
        assert {t.name for t in response.topics} == {"a", "b"}
        assert response.brokers[0].port == client.node.endpoints[0].port

    with_broker(test, tmp_path)


def test_deleted_topic_can_be_created_again(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        assert (await client.request(DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=1), 5)).responses[
            1
        ].error_code == 3
        assert not client.context.image.topics
        assert not list(tmp_path.glob("t-0"))
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        assert (tmp_path / "t-0").is_dir()

    with_broker(test, tmp_path)


def test_topic_deletion_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        assert (await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), 5)).responses[
            0
        ].error_code == 73

    with_broker(test, tmp_path, delete_topic_enable="false")


def test_partition_count_can_only_be_increased(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t", 2)], timeout_ms=1000), 7)
        for count, code in ((5, 0), (5, 37), (1, 37)):
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)], timeout_ms=1
            )
            assert (await client.request(request, 3)).results[0].error_code == code
        assert len(client.context.image.topics["t"].partitions) == 5
        assert (tmp_path / "t-4").is_dir()

    with_broker(test, tmp_path)


def more(count: int, *assignments: list[int]) -> CreatePartitionsRequest:
    chosen = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    request = CreatePartitionsTopic(name="t", count=count, assignments=chosen or None)
    return CreatePartitionsRequest(topics=[request], timeout_ms=1)


def test_concurrent_create_partitions_requests_add_them_once(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t", 2)], timeout_ms=1000), 7)
        responses = await asyncio.gather(client.request(more(5), 3), client.request(more(5), 3))
        assert sorted(response.results[0].error_code for response in responses) == [0, 37]
        assert len(client.context.image.topics["t"].partitions) == 5

    with_broker(test, tmp_path)


def test_create_partitions_is_rejected_during_a_reassignment_or_with_other_replica_count(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        assert (await client.request(more(2, [0, 1]), 3)).results[0].error_code == 39
        existing = client.context.image.topics["t"]
        moving = replace(existing, partitions=(replace(existing.partitions[0], adding=(1,)),))
        await client.context.metadata_cache.update(lambda image: image.with_topics({"t": moving}))
        assert (await client.request(more(2), 3)).results[0].error_code == 60

    with_broker(test, tmp_path)


def test_invalid_configs_in_the_metadata_store_do_not_keep_topics_offline(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        new_topics = [topic("t", configs=[CreatableTopicConfig(name="retention.ms", value="7")]), topic("u")]
        await client.request(CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7)
        await client.context.config_store.set_topic("t", {"retention.ms": "abc", "segment.bytes": "100"})
        actual = client.context.partitions.get(TopicPartition("t", 0))
        assert actual is not None
        assert (actual.log.config.retention_ms, actual.log.config.segment_bytes) == (7 * 86_400_000, 100)

    async def after_restart(client: BrokerClient) -> None:
        assert len(client.context.partitions) == 2

    with_broker(test, tmp_path)
    with_broker(after_restart, tmp_path)


def test_topics_and_their_configs_survive_a_restart(tmp_path: Path) -> None:
    async def first(client: BrokerClient) -> None:
        request = topic("t", 3, configs=[CreatableTopicConfig(name="retention.ms", value="1000")])
        await client.request(CreateTopicsRequest(topics=[request], timeout_ms=1000), 7)
        ids.append(client.context.image.topics["t"].id)

    async def second(client: BrokerClient) -> None:
        actual = client.context.image.topics["t"]
        assert (actual.id, len(actual.partitions), actual.configs) == (ids[0], 3, {"retention.ms": "1000"})
        assert actual.partitions[0].leader_epoch == 1
        assert len(client.context.partitions) == 3

    ids: list[object] = []
    with_broker(first, tmp_path)
    with_broker(second, tmp_path)


def test_topic_configs_are_described_with_their_source_and_altered(tmp_path: Path) -> None:
    async def describe(client: BrokerClient) -> dict[str, tuple[str | None, int]]:
        requested = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        actual = (await client.request(DescribeConfigsRequest(resources=[requested]), 4)).results[0]
        assert actual.error_code == 0
        return {c.name: (c.value, c.config_source) for c in actual.configs}

    async def change(client: BrokerClient, name: str, operation: int, value: str | None) -> int:
        one = AlterableConfig(name=name, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[one])
        return (await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)).responses[0].error_code

    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        before = await describe(client)
        assert before["retention.ms"] == ("7200000", 4)
        assert before["cleanup.policy"] == ("delete", 5)
        assert await change(client, "retention.ms", 0, "5000") == 0
        assert await change(client, "cleanup.policy", 2, "compact") == 0
        after = await describe(client)
        assert after["retention.ms"] == ("5000", 1)
        assert after["cleanup.policy"][0] == "delete,compact"
        (partition,) = list(client.context.partitions)
        assert partition.log.config.retention_ms == 5000
        assert await change(client, "retention.ms", 1, None) == 0
        assert (await describe(client))["retention.ms"] == ("7200000", 4)
        assert await change(client, "retention.ms", 0, "x") == 40
        assert await change(client, "retention.ms", 2, "1") == 40

    with_broker(test, tmp_path, log_retention_hours=2)


def test_broker_configs_are_described_as_read_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        requested = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=["num.partitions"])
        (actual,) = (await client.request(DescribeConfigsRequest(resources=[requested]), 4)).results[0].configs
        assert (actual.name, actual.value, actual.read_only, actual.config_source) == ("num.partitions", "7", True, 4)
        requested.resource_name = "9"
        assert (await client.request(DescribeConfigsRequest(resources=[requested]), 4)).results[0].error_code == 42

    with_broker(test, tmp_path, num_partitions=7)


def test_topic_partitions_are_described_page_by_page(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("a", 3), topic("b", 3)], timeout_ms=1000), 7)
        seen = []
        request = DescribeTopicPartitionsRequest(topics=[Named(name="a"), Named(name="b")], response_partition_limit=2)
        while True:
            response = await client.request(request, 0)
            seen += [(t.name, p.partition_index) for t in response.topics for p in t.partitions]
            if response.next_cursor is None:
                break
            request.cursor = response.next_cursor
        assert seen == [(name, p) for name in "ab" for p in range(3)]

    with_broker(test, tmp_path)


def test_pages_of_many_named_topics_keep_to_the_limit_and_omit_nothing(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        names = [f"t{i:02}" for i in range(20)]
        await client.request(CreateTopicsRequest(topics=[topic(name, 3) for name in names], timeout_ms=1000), 7)
        seen = []
        request = DescribeTopicPartitionsRequest(topics=[Named(name=n) for n in names], response_partition_limit=7)
        while True:
            response = await client.request(request, 0)
            page = [(t.name, p.partition_index) for t in response.topics for p in t.partitions]
            assert len(page) <= 7
            seen += page
            if response.next_cursor is None:
                break
            request.cursor = response.next_cursor
        assert seen == [(name, p) for name in names for p in range(3)]

    with_broker(test, tmp_path)


def test_cursor_behind_the_last_partition_does_not_raise_the_limit_of_a_page(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("a", 3), topic("b", 3)], timeout_ms=1000), 7)
        request = DescribeTopicPartitionsRequest(
            response_partition_limit=2, cursor=Cursor(topic_name="a", partition_index=1000)
        )
        response = await client.request(request, 0)
        assert [(t.name, len(t.partitions)) for t in response.topics] == [("a", 0), ("b", 2)]

    with_broker(test, tmp_path)


def test_describe_cluster_returns_controller_brokers_and_cluster_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(DescribeClusterRequest(), 2)
        assert (response.controller_id, [b.broker_id for b in response.brokers]) == (3, [3])
        assert response.cluster_id == client.context.image.cluster_id

    with_broker(test, tmp_path, broker_id=3)


def test_unsupported_version_of_api_versions_is_answered_in_version_0(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        response = await client.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        assert response.error_code == 0
        assert len({row.api_key for row in response.api_keys}) == len(response.api_keys) > 20
        import struct

        frame = struct.pack(">hhih", 18, 99, 7, -1) + b"\x00whatever"
        data = b"".join(client._dispatch(memoryview(frame), client.connection))  # type: ignore[arg-type]
        assert data[4:10] == struct.pack(">ih", 7, 35)

    with_broker(test, tmp_path)


def test_topic_configs_have_kafkas_types(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await client.request(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1000), 7)
        types = {"retention.bytes": 5, "segment.ms": 5, "segment.bytes": 3, "preallocate": 1, "cleanup.policy": 7}
        requested = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=list(types))
        (actual,) = (await client.request(DescribeConfigsRequest(resources=[requested]), 4)).results
        assert {config.name: config.config_type for config in actual.configs} == types

    with_broker(test, tmp_path)


def test_broker_configs_have_kafkas_types(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        types = {"log.retention.bytes": 5, "log.retention.ms": 5, "log.retention.hours": 3, "log.segment.bytes": 3}
        requested = DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=list(types))
        (actual,) = (await client.request(DescribeConfigsRequest(resources=[requested]), 4)).results
        assert {config.name: config.config_type for config in actual.configs} == types

    with_broker(test, tmp_path)


def test_create_topics_counts_a_broker_that_has_just_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Controller, "on_brokers_changed", lambda self: None)  # the notification is still on its way

    async def test(client: BrokerClient) -> None:
        store, other = client.node._store, replace(client.context.image.brokers[0], id=1)
        assert store is not None
        await store.multi([Create(znodes.broker(1), store_reader.broker_value(other), ephemeral=True)])
        request = CreateTopicsRequest(topics=[topic("t", 1, 2)], validate_only=True, timeout_ms=1000)
        assert (await client.request(request, 7)).topics[0].error_code == 0

    with_broker(test, tmp_path)


def test_starting_broker_is_registered_before_it_accepts_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # once three ports are open, a topic with three replicas can be created
    seen: list[bool] = []
    register = Registration.register

    async def register_and_check(registration: Registration, broker: BrokerImage) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(broker.endpoints[0].host, broker.endpoints[0].port)
        await register(registration, broker)
        seen.append(True)

    monkeypatch.setattr(Registration, "register", register_and_check)

    async def test(client: BrokerClient) -> None:
        assert seen

    with_broker(test, tmp_path)
