"""The rights that requests of topics, records, configs and the cluster require, and the errors without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.allowing import (
    ADMIN,
    ALICE,
    AUTHORIZATION_CODES,
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TOPIC_REFUSED,
    TRANSACTIONAL_ID_REFUSED,
    allow,
    be,
    codes,
    only,
    with_rules,
)
from tests.unit.broker.asking import Asker, batch, with_broker
from tests.unit.broker.filled_requests import MISSING, MISSING_ID, THERE, About, fill, prepare
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce_request, values
from tests.unit.broker.transacting import Transactor, find_coordinator

from ottla.broker.sessions.fetch_sessions import CachedPartition
from ottla.model import ACLOperation, TopicPartition
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.apis import BY_NAME
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
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
"""Each of these is enough for a topic, and implies what else is needed for it."""
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
"""Each of these is enough for the cluster."""


def enough() -> Iterator[tuple[str, ACL]]:
    for name, operations in ON_TOPICS.items():
        yield from ((name, allow(operation, TOPIC, THERE)) for operation in operations)
    for name, operations in ON_CLUSTER.items():
        yield from ((name, allow(operation, CLUSTER)) for operation in operations)


@pytest.mark.parametrize(
    ("name", "rule"), list(enough()), ids=lambda v: v if isinstance(v, str) else f"{v.operation.name}-{v[4][0].name}"
)
def test_one_rule_is_enough(name: str, rule: ACL, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        kind = BY_NAME[name].request
        only(client, rule)
        request = fill(kind, kind.VERSIONS[-1], About(THERE, topic_id))
        assert not codes(await client.ask(request, kind.VERSIONS[-1])) & AUTHORIZATION_CODES

    with_rules(test, tmp_path)


def names(answer: Any) -> list[str]:
    return sorted(topic.name for topic in answer.topics)


def reported(answer: Any) -> list[tuple[str | None, int]]:
    """Of each topic its name and error."""
    return [(topic.name, topic.error_code) for topic in answer.topics]


def asking(*topics: str, **more: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], **more)


@pytest.mark.parametrize("version", [0, 1, 13])
def test_metadata_of_all_topics_leaves_out_what_may_not_be_described(version: int, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        for name in "abc":
            await create(client, name)
        only(client, allow(READ, TOPIC, "a"), allow(WRITE, TOPIC, "c"))
        assert names(await client.ask(MetadataRequest(topics=None if version else []), version)) == ["a", "c"]

    with_rules(test, tmp_path)


def test_pages_of_topics_neither_show_nor_name_what_may_not_be_described(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        for name in "abcd":
            await create(client, name)
        only(client, allow(READ, TOPIC, "a"), allow(READ, TOPIC, "c"))
        page = await client.ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1), 0)
        assert page.next_cursor is not None
        assert (names(page), page.next_cursor.topic_name) == (["a"], "c")
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1, cursor=page.next_cursor)
        page = await client.ask(request, 0)
        assert (names(page), page.next_cursor) == (["c"], None)

    with_rules(test, tmp_path)


@pytest.mark.parametrize(
    ("rules", "code", "made"),
    [
        ((), TOPIC_REFUSED, False),
        ((allow(CREATE, TOPIC, "new"),), TOPIC_REFUSED, False),
        ((allow(CREATE, CLUSTER),), TOPIC_REFUSED, False),
        ((allow(DESCRIBE, TOPIC, "new"),), TOPIC_REFUSED, False),
        ((allow(DESCRIBE, TOPIC, "new"), allow(CREATE, TOPIC, "new")), UNKNOWN_TOPIC, True),
        ((allow(WRITE, TOPIC, "new"), allow(CREATE, CLUSTER)), UNKNOWN_TOPIC, True),
    ],
)
def test_a_topic_is_created_by_asking_for_it_where_that_is_allowed(
    rules: tuple[ACL, ...], code: int, made: bool, tmp_path: Path
) -> None:
    async def test(client: Asker) -> None:
        only(client, *rules)
        assert reported(await client.ask(asking("new", allow_auto_topic_creation=True), 13)) == [("new", code)]
        assert ("new" in client.context.image.topics) is made

    with_rules(test, tmp_path)


def test_without_auto_creation_missing_topics_are_reported_only_with_describe(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        only(client, allow(DESCRIBE, TOPIC, "new"))
        request = asking("new", "other", allow_auto_topic_creation=False)
        assert reported(await client.ask(request, 13)) == [("new", UNKNOWN_TOPIC), ("other", TOPIC_REFUSED)]

    with_rules(test, tmp_path)


def test_metadata_by_id_hides_names_without_describe(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "a")
        topic_id = client.context.image.topics["a"].id
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=i) for i in (topic_id, MISSING_ID)])
        only(client)
        assert reported(await client.ask(request, 13)) == [(None, TOPIC_REFUSED), (None, UNKNOWN_TOPIC_ID)]
        only(client, allow(DESCRIBE, TOPIC, "a"))
        assert reported(await client.ask(request, 13)) == [("a", 0), (None, UNKNOWN_TOPIC_ID)]

    with_rules(test, tmp_path)


def test_topics_by_id_are_refused_in_versions_whose_answers_need_a_name(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "a")
        request = MetadataRequest(topics=[MetadataRequestTopic(name="", topic_id=client.context.image.topics["a"].id)])
        invalid_request = 42
        assert reported(await client.ask(request, 10)) == [("", invalid_request)]

    with_broker(test, tmp_path)


def test_created_topic_returns_configs_only_with_describe_configs(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        only(client, allow(CREATE, TOPIC, "a"), allow(CREATE, TOPIC, "b"), allow(DESCRIBE_CONFIGS, TOPIC, "b"))
        new_topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "abc"]
        a, b, c = (await client.ask(CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7)).topics
        assert (a.error_code, a.topic_config_error_code, a.num_partitions, a.configs) == (0, TOPIC_REFUSED, -1, [])
        assert (b.error_code, b.topic_config_error_code, b.num_partitions, bool(b.configs)) == (0, 0, 2, True)
        assert (c.error_code, c.topic_config_error_code, c.num_partitions) == (TOPIC_REFUSED, 0, -1)
        assert sorted(client.context.image.topics) == ["a", "b"]

    with_rules(test, tmp_path)


DENIED = allow(DESCRIBE, TOPIC, THERE)._replace(permission_type=ACLPermissionType.DENY)


@pytest.mark.parametrize(
    ("rules", "by_name", "missing", "by_id"),
    [
        ((), TOPIC_REFUSED, TOPIC_REFUSED, (None, TOPIC_REFUSED)),
        ((allow(DESCRIBE, TOPIC, "*"),), TOPIC_REFUSED, UNKNOWN_TOPIC, (THERE, TOPIC_REFUSED)),
        ((allow(DELETE, TOPIC, "*"),), 0, UNKNOWN_TOPIC, (THERE, 0)),
        ((allow(DELETE, CLUSTER),), 0, UNKNOWN_TOPIC, (THERE, 0)),
        ((allow(DELETE, TOPIC, THERE), DENIED), TOPIC_REFUSED, TOPIC_REFUSED, (None, 0)),
    ],
)
def test_topics_are_deleted_where_that_is_allowed(
    rules: tuple[ACL, ...], by_name: int, missing: int, by_id: tuple[str | None, int], tmp_path: Path
) -> None:
    async def test(client: Asker) -> None:
        async def delete(name: str | None, topic_id: Any = ZERO_UUID) -> Any:
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=topic_id)], timeout_ms=1000)
            return (await client.ask(request, 6)).responses[0]

        for first in ("name", "id"):
            be(client, ADMIN)
            if THERE not in client.context.image.topics:
                await create(client, THERE)
            topic_id = client.context.image.topics[THERE].id
            only(client, *rules)
            assert (await delete(MISSING)).error_code == missing
            if first == "name":
                answer = await delete(THERE)
                assert answer.error_code == by_name
                assert (answer.topic_id == ZERO_UUID) is bool(by_name)
            else:
                answer = await delete(None, topic_id)
                assert (answer.name, answer.error_code) == by_id
            assert (THERE in client.context.image.topics) is bool(answer.error_code)

    with_rules(test, tmp_path)


def two_topics(data: bytearray, **more: Any) -> ProduceRequest:
    partitions = [PartitionProduceData(index=0, records=data)]
    topics = [TopicProduceData(name=name, partition_data=partitions) for name in ("a", "b")]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics, **more)


def written(client: Asker, *topics: str) -> list[int]:
    """How many records each topic has."""
    actual = [client.context.partitions.get_leader(TopicPartition(name, 0)) for name in topics]
    return [partition.log.log_end_offset for partition in actual if partition is not None]


def test_what_may_be_written_is_written_and_the_rest_refused(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "a")
        await create(client, "b")
        only(client, allow(WRITE, TOPIC, "b"), allow(READ, TOPIC, "a"))
        answer = await client.ask(two_topics(batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)), 12)
        assert [t.partition_responses[0].error_code for t in answer.responses] == [TOPIC_REFUSED, 0]
        assert written(client, "a", "b") == [0, 1]

    with_rules(test, tmp_path)


def test_a_refused_request_without_acknowledgement_closes_the_connection(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        only(client)
        with pytest.raises(CloseConnectionError):
            client.send(produce_request(batch(b"a"), acks=0), 9)
        request = produce_request(batch(b"a", transactional=True), acks=0)
        with pytest.raises(CloseConnectionError):
            client.send(request, 9)
        assert written(client, "t") == [0]

    with_rules(test, tmp_path)


WRITES_TX = allow(WRITE, ResourceType.TRANSACTIONAL_ID, "tx")


@pytest.mark.parametrize("newer", [False, True])
def test_a_transaction_needs_its_id_and_its_topics(newer: bool, tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "a")
        await find_coordinator(client)
        producer, a = Transactor(client, newer=newer), TopicPartition("a", 0)
        assert await producer.init() == 0
        only(client, allow(WRITE, TOPIC, "a"))
        assert (await producer.write(a, b"v")).error_code == TRANSACTIONAL_ID_REFUSED
        only(client, WRITES_TX)
        assert await producer.send(a, b"v") == TOPIC_REFUSED
        assert (await producer.write(a, b"v")).error_code == TOPIC_REFUSED
        be(client, ADMIN)
        described = await client.ask(DescribeTransactionsRequest(transactional_ids=["tx"]), 0)
        assert described.transaction_states[0].topics == []  # nothing has joined it
        only(client, WRITES_TX, allow(WRITE, TOPIC, "a"))
        assert await producer.send(a, b"v") == 0
        assert await producer.end() == 0

    with_rules(test, tmp_path)


def test_of_a_request_with_a_transactional_batch_nothing_is_taken_without_its_id(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "a")
        await create(client, "b")
        only(client, allow(WRITE, TOPIC, "*"))
        request = two_topics(batch(b"v"), transactional_id="tx")
        request.topic_data[1].partition_data = [
            PartitionProduceData(index=0, records=batch(b"v", producer_id=7, producer_epoch=0, transactional=True))
        ]
        for transactional_id in ("tx", None):
            request.transactional_id = transactional_id
            assert codes(await client.ask(request, 11)) == {TRANSACTIONAL_ID_REFUSED}
        assert written(client, "a", "b") == [0, 0]
        request.topic_data.pop()
        assert not codes(await client.ask(request, 11))  # the id is of no use there

    with_rules(test, tmp_path)


def test_no_transactional_batch_hides_behind_another_one(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client, "t")
        only(client, allow(WRITE, TOPIC, "t"))
        hidden = batch(b"a") + batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
        assert codes(await client.ask(produce_request(hidden), 2)) == {TRANSACTIONAL_ID_REFUSED}
        assert written(client, "t") == [0]

    with_rules(test, tmp_path)


def test_a_session_obeys_rules_as_they_are_now(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        await client.ask(produce_request(batch(b"v")), 9)
        reads = allow(READ, TOPIC, "t")
        only(client, reads)
        opened = await client.ask(fetch_request(session_epoch=0), 12)
        assert values(opened) == [b"v"]
        for epoch, rules, code in ((1, (), TOPIC_REFUSED), (2, (), TOPIC_REFUSED), (3, (reads,), 0)):
            only(client, *rules)
            next_request = fetch_request(session_id=opened.session_id, session_epoch=epoch)
            next_request.topics = []
            (topic,) = (await client.ask(next_request, 12)).responses
            assert [(p.error_code, bool(p.records)) for p in topic.partitions] == [(code, code == 0)]

    with_rules(test, tmp_path)


def test_followers_act_for_the_cluster(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        only(client, allow(READ, TOPIC, "t"))
        request = fetch_request(replica_id=1)
        assert codes(await client.ask(request, 12)) == {TOPIC_REFUSED}
        request.replica_id = -2  # a consumer that compares replicas
        assert not codes(await client.ask(request, 12))
        only(client, allow(CLUSTER_ACTION, CLUSTER))
        assert codes(await client.ask(request, 12)) == {TOPIC_REFUSED}
        assert not codes(await client.ask(fetch_request(replica_id=1), 12)) & AUTHORIZATION_CODES
        assert codes(await client.ask(fetch_request(), 12)) == {TOPIC_REFUSED}

    with_rules(test, tmp_path)


def test_a_follower_that_has_all_is_refused_as_well_when_it_may_no_longer_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: Asker) -> None:
        await create(client)
        only(client, allow(CLUSTER_ACTION, CLUSTER))
        opened = await client.ask(fetch_request(replica_id=1, session_epoch=0), 12)
        monkeypatch.setattr(CachedPartition, "is_quiet", lambda *_: True)
        only(client)
        request = fetch_request(replica_id=1, session_id=opened.session_id, session_epoch=1)
        request.topics = []
        assert codes(await client.ask(request, 12)) == {TOPIC_REFUSED}

    with_rules(test, tmp_path)


KINDS = {2: (TOPIC, "t", TOPIC_REFUSED), 32: (GROUP, "g", GROUP_REFUSED)}
OF_CLUSTER = {4: "0", 8: "0", 16: "subscription"}


@pytest.mark.parametrize("kind", [*KINDS, *OF_CLUSTER])
def test_options_are_ruled_with_their_resource_or_the_cluster(kind: int, tmp_path: Path) -> None:
    rights, name, refused = KINDS.get(kind) or (CLUSTER, OF_CLUSTER[kind], CLUSTER_REFUSED)

    async def test(client: Asker) -> None:
        await create(client)
        described = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        describe = DescribeConfigsRequest(resources=[described])
        unchanged = AlterableConfig(name="x", config_operation=1, value=None)
        changed = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[unchanged])
        alter = IncrementalAlterConfigsRequest(resources=[changed], validate_only=True)
        everything = [allow(ACLOperation.ALL, k, "*") for k in (TOPIC, GROUP, CLUSTER) if k is not rights]
        only(client, *everything)
        assert codes(await client.ask(describe, 4)) == codes(await client.ask(alter, 1)) == {refused}
        of_it = (rights,) if rights is CLUSTER else (rights, name)
        only(client, allow(DESCRIBE_CONFIGS, *of_it))
        assert codes(await client.ask(describe, 4)) == set()
        assert codes(await client.ask(alter, 1)) == {refused}
        only(client, allow(ALTER_CONFIGS, *of_it))
        assert codes(await client.ask(describe, 4)) == codes(await client.ask(alter, 1)) == set()

    with_rules(test, tmp_path)


def test_a_refusal_is_logged_with_who_and_what(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(client: Asker) -> None:
        only(client)
        with caplog.at_level("INFO", "ottla.authorizer"):
            await client.ask(produce_request(batch(b"a"), "secret"), 9)
        assert [record.message for record in caplog.records if record.name == "ottla.authorizer"] == [
            f"Denied WRITE on TOPIC secret to User:{ALICE} from 127.0.0.1; to allow it: "
            f"ottla acls --bootstrap-server {str(client.node.endpoints[0]).removeprefix('PLAINTEXT://')} "
            f"--add --allow-principal User:{ALICE} --operation Write --topic secret"
        ]

    with_rules(test, tmp_path)
