"""The ACLs that requests for topics, records, configs and the cluster require, and the errors without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.authorization import (
    ADMIN,
    ALICE,
    AUTHORIZATION_CODES,
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    allow,
    allow_only,
    authenticate_as,
    codes,
    with_authorizer,
)
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.filled_requests import EXISTING, MISSING, MISSING_ID, Target, fill, prepare
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce_request, values
from tests.unit.broker.transactional_producer import TransactionalProducer, find_coordinator

from ottla.broker import request_context
from ottla.broker.sessions.fetch_sessions import CachedPartition
from ottla.model import ACLOperation, TopicPartition
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.apis import BY_NAME
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.security.acl import ACL, ACLPermissionType, ResourceType

READ, WRITE, CREATE, DELETE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.CREATE, ACLOperation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = ACLOperation.ALTER, ACLOperation.DESCRIBE, ACLOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = ACLOperation.DESCRIBE_CONFIGS, ACLOperation.ALTER_CONFIGS
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
UNKNOWN_TOPIC, TOPIC_EXISTS, UNKNOWN_TOPIC_ID = 3, 36, 100
ON_TOPICS = {
    "Produce": (WRITE,),
    "Fetch": (READ,),
    "ListOffsets": (DESCRIBE, READ, WRITE, DELETE, ALTER),
    "Metadata": (DESCRIBE, READ, WRITE, DELETE, ALTER),
    "OffsetForLeaderEpoch": (DESCRIBE, READ),
    "DescribeTopicPartitions": (DESCRIBE, READ),
    "CreateTopics": (CREATE,),
    "DeleteTopics": (DELETE,),
    "DeleteRecords": (DELETE,),
    "CreatePartitions": (ALTER,),
    "DescribeConfigs": (DESCRIBE_CONFIGS, ALTER_CONFIGS),
    "AlterConfigs": (ALTER_CONFIGS,),
    "IncrementalAlterConfigs": (ALTER_CONFIGS,),
    "DescribeProducers": (READ,),
}
"""Operations of which each suffices for a topic, as it implies the others that are required."""
ON_CLUSTER = {
    "CreateTopics": (CREATE,),
    "DeleteTopics": (DELETE,),
    "OffsetForLeaderEpoch": (CLUSTER_ACTION,),
    "WriteTxnMarkers": (ALTER, CLUSTER_ACTION),
    "AlterReplicaLogDirs": (ALTER,),
    "ElectLeaders": (ALTER,),
    "AlterPartitionReassignments": (ALTER,),
    "ListPartitionReassignments": (DESCRIBE, ALTER),
    "DescribeLogDirs": (DESCRIBE,),
    "AlterClientQuotas": (ALTER_CONFIGS,),
    "DescribeClientQuotas": (DESCRIBE_CONFIGS, ALTER_CONFIGS),
    "AlterUserScramCredentials": (ALTER,),
    "DescribeUserScramCredentials": (DESCRIBE, ALTER),
    "ListConfigResources": (DESCRIBE_CONFIGS,),
    "UpdateFeatures": (ALTER,),
    "ControlledShutdown": (CLUSTER_ACTION,),
    "LeaderAndIsr": (CLUSTER_ACTION,),
    "StopReplica": (CLUSTER_ACTION,),
    "UpdateMetadata": (CLUSTER_ACTION,),
    "AlterPartition": (CLUSTER_ACTION,),
    "AllocateProducerIds": (CLUSTER_ACTION,),
}
"""Operations of which each suffices for the cluster."""


async def denials(client: BrokerClient, name: str, acl: ACL) -> set[int]:
    """Send a request of an API as alice with only this ACL, and return the authorization errors in the response."""
    topic_id = await prepare(client)
    kind = BY_NAME[name].request
    allow_only(client, acl)
    request = fill(kind, kind.VERSIONS[-1], Target(EXISTING, topic_id))
    return codes(await client.request(request, kind.VERSIONS[-1])) & AUTHORIZATION_CODES


def id_of(value: str | ACL) -> str:
    return value if isinstance(value, str) else f"{value.operation.name}-{value[4][0].name}"


def sufficient_acls() -> Iterator[tuple[str, ACL]]:
    for name, operations in ON_TOPICS.items():
        yield from ((name, allow(operation, TOPIC, EXISTING)) for operation in operations)
    for name, operations in ON_CLUSTER.items():
        yield from ((name, allow(operation, CLUSTER)) for operation in operations)


@pytest.mark.parametrize(
    ("name", "acl"),
    list(sufficient_acls()),
    ids=id_of,
)
def test_one_sufficient_acl_authorizes_the_request(name: str, acl: ACL, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        denied = await denials(client, name, acl)
        assert not denied, f"{name} needs another ACL than {acl}: correct ON_TOPICS and ON_CLUSTER, or the handler"

    with_authorizer(test, tmp_path)


def insufficient_acls() -> Iterator[tuple[str, ACL]]:
    """Yield the ACLs that are implied by the sufficient ones, but do not suffice themselves."""
    for weak in (DESCRIBE, DESCRIBE_CONFIGS):
        for name, operations in ON_TOPICS.items():
            if weak not in operations:
                yield name, allow(weak, TOPIC, EXISTING)
        for name, operations in ON_CLUSTER.items():
            if weak not in operations:
                yield name, allow(weak, CLUSTER)


@pytest.mark.parametrize(
    ("name", "acl"),
    list(insufficient_acls()),
    ids=id_of,
)
def test_acl_that_only_allows_to_describe_denies_the_request(name: str, acl: ACL, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        denied = await denials(client, name, acl)
        assert denied, f"{name} needs no more than {acl}: correct the handler, or ON_TOPICS and ON_CLUSTER"

    with_authorizer(test, tmp_path)


def names(response: Any) -> list[str]:
    return sorted(topic.name for topic in response.topics)


def names_and_errors(response: Any) -> list[tuple[str | None, int]]:
    """Return the name and the error code of each topic."""
    return [(topic.name, topic.error_code) for topic in response.topics]


def metadata_request(*topics: str, **more: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], **more)


@pytest.mark.parametrize("version", [0, 1, 13])
def test_metadata_of_all_topics_omits_unauthorized_topics(version: int, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for name in "abc":
            await create(client, name)
        allow_only(client, allow(READ, TOPIC, "a"), allow(WRITE, TOPIC, "c"))
        assert names(await client.request(MetadataRequest(topics=None if version else []), version)) == ["a", "c"]

    with_authorizer(test, tmp_path)


def test_describe_topic_partitions_omits_unauthorized_topics_in_pages_and_cursors(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        for name in "abcd":
            await create(client, name)
        allow_only(client, allow(READ, TOPIC, "a"), allow(READ, TOPIC, "c"))
        page = await client.request(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1), 0)
        assert page.next_cursor is not None
        assert (names(page), page.next_cursor.topic_name) == (["a"], "c")
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1, cursor=page.next_cursor)
        page = await client.request(request, 0)
        assert (names(page), page.next_cursor) == (["c"], None)

    with_authorizer(test, tmp_path)


@pytest.mark.parametrize(
    ("acls", "code", "created"),
    [
        ((), TOPIC_AUTHORIZATION_FAILED, False),
        ((allow(CREATE, TOPIC, "new"),), TOPIC_AUTHORIZATION_FAILED, False),
        ((allow(CREATE, CLUSTER),), TOPIC_AUTHORIZATION_FAILED, False),
        ((allow(DESCRIBE, TOPIC, "new"),), TOPIC_AUTHORIZATION_FAILED, False),
        ((allow(DESCRIBE, TOPIC, "new"), allow(CREATE, TOPIC, "new")), UNKNOWN_TOPIC, True),
        ((allow(WRITE, TOPIC, "new"), allow(CREATE, CLUSTER)), UNKNOWN_TOPIC, True),
    ],
)
def test_metadata_auto_creates_a_topic_only_with_describe_and_create(
    acls: tuple[ACL, ...], code: int, created: bool, tmp_path: Path
) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client, *acls)
        assert names_and_errors(await client.request(metadata_request("new", allow_auto_topic_creation=True), 13)) == [
            ("new", code)
        ]
        assert ("new" in client.context.image.topics) is created

    with_authorizer(test, tmp_path)


def test_without_auto_creation_missing_topics_are_reported_only_with_describe(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client, allow(DESCRIBE, TOPIC, "new"))
        request = metadata_request("new", "other", allow_auto_topic_creation=False)
        assert names_and_errors(await client.request(request, 13)) == [
            ("new", UNKNOWN_TOPIC),
            ("other", TOPIC_AUTHORIZATION_FAILED),
        ]

    with_authorizer(test, tmp_path)


def test_metadata_by_id_hides_names_without_describe(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "a")
        topic_id = client.context.image.topics["a"].id
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=i) for i in (topic_id, MISSING_ID)])
        allow_only(client)
        assert names_and_errors(await client.request(request, 13)) == [
            (None, TOPIC_AUTHORIZATION_FAILED),
            (None, UNKNOWN_TOPIC_ID),
        ]
        allow_only(client, allow(DESCRIBE, TOPIC, "a"))
        assert names_and_errors(await client.request(request, 13)) == [("a", 0), (None, UNKNOWN_TOPIC_ID)]

    with_authorizer(test, tmp_path)


def test_metadata_by_id_is_rejected_in_versions_that_require_a_name(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "a")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="", topic_id=client.context.image.topics["a"].id)])
        invalid_request = 42
        assert names_and_errors(await client.request(request, 10)) == [("", invalid_request)]

    with_broker(test, tmp_path)


def test_created_topic_returns_configs_only_with_describe_configs(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client, allow(CREATE, TOPIC, "a"), allow(CREATE, TOPIC, "b"), allow(DESCRIBE_CONFIGS, TOPIC, "b"))
        new_topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "abc"]
        a, b, c = (await client.request(CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7)).topics
        assert (a.error_code, a.topic_config_error_code, a.num_partitions, a.configs) == (
            0,
            TOPIC_AUTHORIZATION_FAILED,
            -1,
            [],
        )
        assert (b.error_code, b.topic_config_error_code, b.num_partitions, bool(b.configs)) == (0, 0, 2, True)
        assert (c.error_code, c.topic_config_error_code, c.num_partitions) == (TOPIC_AUTHORIZATION_FAILED, 0, -1)
        assert sorted(client.context.image.topics) == ["a", "b"]

    with_authorizer(test, tmp_path)


DENIED = allow(DESCRIBE, TOPIC, EXISTING)._replace(permission_type=ACLPermissionType.DENY)


@pytest.mark.parametrize(
    ("acls", "by_name", "missing", "by_id"),
    [
        ((), TOPIC_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, (None, TOPIC_AUTHORIZATION_FAILED)),
        (
            (allow(DESCRIBE, TOPIC, "*"),),
            TOPIC_AUTHORIZATION_FAILED,
            UNKNOWN_TOPIC,
            (EXISTING, TOPIC_AUTHORIZATION_FAILED),
        ),
        ((allow(DELETE, TOPIC, "*"),), 0, UNKNOWN_TOPIC, (EXISTING, 0)),
        ((allow(DELETE, CLUSTER),), 0, UNKNOWN_TOPIC, (EXISTING, 0)),
        ((allow(DELETE, TOPIC, EXISTING), DENIED), TOPIC_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, (None, 0)),
    ],
)
def test_delete_topics_requires_delete_and_hides_names_without_describe(
    acls: tuple[ACL, ...], by_name: int, missing: int, by_id: tuple[str | None, int], tmp_path: Path
) -> None:
    async def test(client: BrokerClient) -> None:
        async def delete(name: str | None, topic_id: Any = ZERO_UUID) -> Any:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=1000)
            return (await client.request(request, 6)).responses[0]

        for first in ("name", "id"):
            authenticate_as(client, ADMIN)
            if EXISTING not in client.context.image.topics:
                await create(client, EXISTING)
            topic_id = client.context.image.topics[EXISTING].id
            allow_only(client, *acls)
            assert (await delete(MISSING)).error_code == missing
            if first == "name":
                response = await delete(EXISTING)
                assert response.error_code == by_name
                assert (response.topic_id == ZERO_UUID) is bool(by_name)
            else:
                response = await delete(None, topic_id)
                assert (response.name, response.error_code) == by_id
            assert (EXISTING in client.context.image.topics) is bool(response.error_code)

    with_authorizer(test, tmp_path)


def two_topics(data: bytearray, **more: Any) -> ProduceRequest:
    partitions = [PartitionProduceData(index=0, records=data)]
    topics = [TopicProduceData(name=name, partition_data=partitions) for name in ("a", "b")]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics, **more)


def record_counts(client: BrokerClient, *topics: str) -> list[int]:
    """Return the number of records of each topic."""
    actual = [client.context.partitions.get_leader(TopicPartition(name, 0)) for name in topics]
    return [partition.log.log_end_offset for partition in actual if partition is not None]


def test_produce_appends_to_authorized_topics_and_rejects_the_others(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "a")
        await create(client, "b")
        allow_only(client, allow(WRITE, TOPIC, "b"), allow(READ, TOPIC, "a"))
        response = await client.request(two_topics(batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)), 12)
        assert [t.partition_responses[0].error_code for t in response.responses] == [TOPIC_AUTHORIZATION_FAILED, 0]
        assert record_counts(client, "a", "b") == [0, 1]

    with_authorizer(test, tmp_path)


def test_denied_produce_with_acks_0_closes_the_connection(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        allow_only(client)
        with pytest.raises(CloseConnectionError):
            client.send(produce_request(batch(b"a"), acks=0), 9)
        request = produce_request(batch(b"a", transactional=True), acks=0)
        with pytest.raises(CloseConnectionError):
            client.send(request, 9)
        assert record_counts(client, "t") == [0]

    with_authorizer(test, tmp_path)


WRITES_TX = allow(WRITE, ResourceType.TRANSACTIONAL_ID, "tx")


@pytest.mark.parametrize("newer", [False, True])
def test_transaction_requires_write_on_its_transactional_id_and_topics(newer: bool, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "a")
        await find_coordinator(client)
        producer, a = TransactionalProducer(client, newer=newer), TopicPartition("a", 0)
        assert await producer.init() == 0
        allow_only(client, allow(WRITE, TOPIC, "a"))
        assert (await producer.write(a, b"v")).error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        allow_only(client, WRITES_TX)
        assert await producer.send(a, b"v") == TOPIC_AUTHORIZATION_FAILED
        assert (await producer.write(a, b"v")).error_code == TOPIC_AUTHORIZATION_FAILED
        authenticate_as(client, ADMIN)
        described = await client.request(DescribeTransactionsRequest(transactional_ids=["tx"]), 0)
        assert described.transaction_states[0].topics == []  # no partition was added
        allow_only(client, WRITES_TX, allow(WRITE, TOPIC, "a"))
        assert await producer.send(a, b"v") == 0
        assert await producer.end() == 0

    with_authorizer(test, tmp_path)


def test_transactional_produce_without_write_on_its_id_appends_nothing(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "a")
        await create(client, "b")
        allow_only(client, allow(WRITE, TOPIC, "*"))
        request = two_topics(batch(b"v"), transactional_id="tx")
        request.topic_data[1].partition_data = [
            PartitionProduceData(index=0, records=batch(b"v", producer_id=7, producer_epoch=0, transactional=True))
        ]
        for transactional_id in ("tx", None):
            request.transactional_id = transactional_id
            assert codes(await client.request(request, 11)) == {TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert record_counts(client, "a", "b") == [0, 0]
        request.topic_data.pop()
        assert not codes(await client.request(request, 11))  # without a transactional batch the id is not authorized

    with_authorizer(test, tmp_path)


def test_transactional_batch_behind_another_batch_is_authorized_too(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, "t")
        allow_only(client, allow(WRITE, TOPIC, "t"))
        hidden = batch(b"a") + batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        assert codes(await client.request(produce_request(hidden), 2)) == {TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert record_counts(client, "t") == [0]

    with_authorizer(test, tmp_path)


def test_fetch_session_applies_the_current_acls(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await client.request(produce_request(batch(b"v")), 9)
        reads = allow(READ, TOPIC, "t")
        allow_only(client, reads)
        opened = await client.request(fetch_request(session_epoch=0), 12)
        assert values(opened) == [b"v"]
        for epoch, acls, code in (
            (1, (), TOPIC_AUTHORIZATION_FAILED),
            (2, (), TOPIC_AUTHORIZATION_FAILED),
            (3, (reads,), 0),
        ):
            allow_only(client, *acls)
            next_request = fetch_request(session_id=opened.session_id, session_epoch=epoch)
            next_request.topics = []
            (topic,) = (await client.request(next_request, 12)).responses
            assert [(p.error_code, bool(p.records)) for p in topic.partitions] == [(code, code == 0)]

    with_authorizer(test, tmp_path)


def test_follower_fetch_requires_cluster_action(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        allow_only(client, allow(READ, TOPIC, "t"))
        request = fetch_request(replica_id=1)
        assert codes(await client.request(request, 12)) == {TOPIC_AUTHORIZATION_FAILED}
        request.replica_id = -2  # the replica verification tool, a consumer
        assert not codes(await client.request(request, 12))
        allow_only(client, allow(CLUSTER_ACTION, CLUSTER))
        assert codes(await client.request(request, 12)) == {TOPIC_AUTHORIZATION_FAILED}
        assert not codes(await client.request(fetch_request(replica_id=1), 12)) & AUTHORIZATION_CODES
        assert codes(await client.request(fetch_request(), 12)) == {TOPIC_AUTHORIZATION_FAILED}

    with_authorizer(test, tmp_path)


def test_caught_up_follower_is_denied_once_its_acl_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        allow_only(client, allow(CLUSTER_ACTION, CLUSTER))
        opened = await client.request(fetch_request(replica_id=1, session_epoch=0), 12)
        monkeypatch.setattr(CachedPartition, "is_quiet", lambda *_: True)
        allow_only(client)
        request = fetch_request(replica_id=1, session_id=opened.session_id, session_epoch=1)
        request.topics = []
        assert codes(await client.request(request, 12)) == {TOPIC_AUTHORIZATION_FAILED}

    with_authorizer(test, tmp_path)


KINDS = {2: (TOPIC, "t", TOPIC_AUTHORIZATION_FAILED), 32: (GROUP, "g", GROUP_AUTHORIZATION_FAILED)}
OF_CLUSTER = {4: "0", 8: "0", 16: "subscription"}


@pytest.mark.parametrize("kind", [*KINDS, *OF_CLUSTER])
def test_config_requests_require_acls_on_their_resource_or_the_cluster(kind: int, tmp_path: Path) -> None:
    required_type, name, denied = KINDS.get(kind) or (CLUSTER, OF_CLUSTER[kind], CLUSTER_AUTHORIZATION_FAILED)

    async def test(client: BrokerClient) -> None:
        await create(client)
        described = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        describe = DescribeConfigsRequest(resources=[described])
        unchanged = AlterableConfig(name="x", config_operation=1, value=None)
        changed = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[unchanged])
        alter = IncrementalAlterConfigsRequest(resources=[changed], validate_only=True)
        everything = [allow(ACLOperation.ALL, k, "*") for k in (TOPIC, GROUP, CLUSTER) if k is not required_type]
        allow_only(client, *everything)
        assert codes(await client.request(describe, 4)) == codes(await client.request(alter, 1)) == {denied}
        target = (required_type,) if required_type is CLUSTER else (required_type, name)
        allow_only(client, allow(DESCRIBE_CONFIGS, *target))
        assert codes(await client.request(describe, 4)) == set()
        assert codes(await client.request(alter, 1)) == {denied}
        allow_only(client, allow(ALTER_CONFIGS, *target))
        assert codes(await client.request(describe, 4)) == codes(await client.request(alter, 1)) == set()

    with_authorizer(test, tmp_path)


def test_denial_is_logged_with_principal_operation_and_resource(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client)
        with caplog.at_level("INFO", "ottla.authorizer"):
            await client.request(produce_request(batch(b"a"), "secret"), 9)
        assert [record.message for record in caplog.records if record.name == "ottla.authorizer"] == [
            f"Denied WRITE on TOPIC secret to User:{ALICE} from 127.0.0.1; to allow it: "
            f"ottla acls --bootstrap-server {str(client.node.endpoints[0]).removeprefix('PLAINTEXT://')} "
            f"--add --allow-principal User:{ALICE} --operation Write --topic secret"
        ]

    with_authorizer(test, tmp_path)


def test_denied_producer_id_log_suggests_write_on_a_topic(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: BrokerClient) -> None:
        allow_only(client)
        with caplog.at_level("INFO", "ottla.authorizer"):
            await client.request(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
        (line,) = [record.message for record in caplog.records if record.name == "ottla.authorizer"]
        assert line.startswith(f"Denied IDEMPOTENT_WRITE on CLUSTER kafka-cluster to User:{ALICE}")
        assert f"--add --allow-principal User:{ALICE} --producer --topic NAME (or ottla acls " in line
        assert line.endswith("--operation IdempotentWrite --cluster)")

    with_authorizer(test, tmp_path)


def test_fetch_of_many_unauthorized_topics_logs_some_denials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To log each of 20,000 would block the event loop for 0.4 seconds."""
    logged = []

    def command(*args: object) -> str:
        logged.append(args)
        return ""

    async def test(client: BrokerClient) -> None:
        allow_only(client)
        topics = [FetchTopic(topic=f"t{i}", partitions=[FetchPartition(partition=0)]) for i in range(1000)]
        monkeypatch.setattr(request_context, "allowing_command", command)
        response = await client.request(FetchRequest(topics=topics), 11)
        answers = [p.error_code for topic in response.responses for p in topic.partitions]
        assert answers == [TOPIC_AUTHORIZATION_FAILED] * 1000
        assert len(logged) < 500

    with_authorizer(test, tmp_path)


def test_records_of_an_internal_topic_cannot_be_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await find_coordinator(client)
        offsets = "__consumer_offsets"
        config = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact,delete")
        resource = AlterConfigsResource(resource_type=2, resource_name=offsets, configs=[config])
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        topic = DeleteRecordsTopic(name=offsets, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
        response = await client.request(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
        assert codes(response) == {17}

    with_broker(test, tmp_path)
