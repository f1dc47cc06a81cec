"""The ACLs that requests of groups and transactions require, and the errors without them."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.broker.authorization import (
    ADMIN,
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
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.group_authorization import (
    CLUSTER,
    CODES,
    DELETES_G,
    DESCRIBE,
    DESCRIBES_G,
    DESCRIBES_T,
    MEMBER,
    READS_G,
    READS_T,
    ROWS,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    WRITES_TX,
    acquire,
    add_from_producer,
    commit,
    describe_share_offsets,
    fetch,
    txn_offset_commit,
)
from tests.unit.broker.transactional_producer import find_coordinator

from ottla.protocol.messages import delete_share_group_offsets as delete_share
from ottla.protocol.messages import offset_fetch, share_acknowledge
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest


async def prepare(client: BrokerClient) -> UUID:
    new_topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "s")]
    await client.request(CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7)
    await find_coordinator(client)
    topic_id = client.context.image.topics["t"].id
    offset_commit = commit(topic_id)
    offset_commit.group_id = "known"
    assert not codes(await client.request(offset_commit, 9))
    return topic_id


@pytest.mark.parametrize("name", ROWS)
def test_each_required_acl_is_necessary_and_all_together_suffice(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        for missing in row.needs:
            others = [acl for acl in row.needs if acl is not missing]
            expected = CODES[missing.resource_pattern.resource_type]
            # most operations imply DESCRIBE, which must not be enough in their place
            weaker = [] if missing.operation is DESCRIBE else [missing._replace(operation=DESCRIBE)]
            for acls in (others, [*others, *weaker]):
                allow_only(client, *acls)
                denied = codes(await client.request(row.request(topic_id), row.version))
                assert denied == {expected}, f"{name} with {acls} needs another ACL than ROWS says, or than {missing}"
        allow_only(client, *row.needs)
        assert not codes(await client.request(row.request(topic_id), row.version)) & AUTHORIZATION_CODES

    with_authorizer(test, tmp_path, transaction_two_phase_commit_enable=True)


@pytest.mark.parametrize("name", ROWS)
def test_without_an_authorizer_no_request_is_denied(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        assert not codes(await client.as_broker().request(row.request(topic_id), row.version)) & AUTHORIZATION_CODES

    with_broker(test, tmp_path, transaction_two_phase_commit_enable=True)


def test_offset_commit_stores_readable_topics_and_rejects_the_others(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        allow_only(client, READS_G, READS_T)
        request = commit(topic_id)
        others = [commit(topic_id).topics[0] for _ in range(2)]
        for other, name in zip(others, ("s", "nowhere"), strict=True):
            other.name = name
        request.topics += others
        response = await client.request(request, 9)
        assert [t.partitions[0].error_code for t in response.topics] == [
            0,
            TOPIC_AUTHORIZATION_FAILED,
            TOPIC_AUTHORIZATION_FAILED,
        ]
        assert {tp.topic for tp in client.context.groups.offsets.by_group["g"]} == {"t"}
        request.generation_id_or_member_epoch, request.member_id = 3, "unknown"
        unknown_member = 25
        response = await client.request(request, 9)
        assert [t.partitions[0].error_code for t in response.topics] == [
            unknown_member,
            TOPIC_AUTHORIZATION_FAILED,
            TOPIC_AUTHORIZATION_FAILED,
        ]

    with_authorizer(test, tmp_path)


async def commit_both(client: BrokerClient, topic_id: UUID) -> None:
    request = commit(topic_id)
    request.topics += [commit(topic_id).topics[0]]
    request.topics[1].name = "s"
    assert not codes(await client.request(request, 9))


def test_fetch_of_all_offsets_returns_describable_topics_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await commit_both(client, await prepare(client))
        allow_only(client, DESCRIBES_G, DESCRIBES_T)
        groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
        actual = (await client.request(offset_fetch.OffsetFetchRequest(groups=groups), 9)).groups
        assert [t.name for t in actual[0].topics] == ["t"]
        assert [group.error_code for group in actual] == [0, GROUP_AUTHORIZATION_FAILED]

    with_authorizer(test, tmp_path)


def test_offsets_of_unauthorized_topics_are_denied_also_during_a_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        await commit_both(client, topic_id)
        started = await client.request(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=9000), 4)
        pending = txn_offset_commit(topic_id)
        pending.producer_id, pending.producer_epoch = started.producer_id, started.producer_epoch
        assert not codes(await client.request(pending, 5))
        allow_only(client, DESCRIBES_G)
        request = fetch(topic_id)
        request.require_stable = True
        (actual,) = (await client.request(request, 9)).groups[0].topics[0].partitions
        assert (actual.error_code, actual.committed_offset) == (TOPIC_AUTHORIZATION_FAILED, -1)

    with_authorizer(test, tmp_path)


def test_find_coordinator_authorizes_each_key(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        allow_only(client, DESCRIBES_G)
        actual = await client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 4)
        assert [(c.key, c.error_code, c.node_id) for c in actual.coordinators] == [
            ("g", 0, 0),
            ("h", GROUP_AUTHORIZATION_FAILED, -1),
        ]

    with_authorizer(test, tmp_path)


def test_list_groups_returns_describable_groups_or_all_with_describe_on_the_cluster(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        await client.request(commit(topic_id), 9)
        for acls, seen in (((), set()), ((READS_G,), {"g"}), ((allow(DESCRIBE, CLUSTER),), {"g", "known"})):
            allow_only(client, *acls)
            assert {group.group_id for group in (await client.request(ListGroupsRequest(), 4)).groups} == seen

    with_authorizer(test, tmp_path)


def test_write_on_any_topic_authorizes_init_producer_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await prepare(client)
        for acls, code in (((allow(WRITE, TOPIC, "t"),), 0), ((READS_T,), CLUSTER_AUTHORIZATION_FAILED)):
            allow_only(client, *acls)
            assert (await client.request(InitProducerIdRequest(transactional_id=None), 4)).error_code == code

    with_authorizer(test, tmp_path)


def test_add_partitions_to_txn_with_an_unauthorized_topic_adds_none(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        allow_only(client, WRITES_TX, allow(WRITE, TOPIC, "t"))
        response = await client.request(add_from_producer(topic_id, "t", "s", "nowhere"), 3)
        actual = {
            t.name: t.results_by_partition[0].partition_error_code for t in response.results_by_topic_v3_and_below
        }
        not_attempted = 55
        assert actual == {"t": not_attempted, "s": TOPIC_AUTHORIZATION_FAILED, "nowhere": TOPIC_AUTHORIZATION_FAILED}

    with_authorizer(test, tmp_path)


def test_described_transactions_omit_unauthorized_topics(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        for name in ("tx", "other"):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=9000)
            started = await client.request(request, 4)
            add = add_from_producer(topic_id, "t", "s")
            add.v3_and_below_transactional_id, add.v3_and_below_producer_id = name, started.producer_id
            assert not codes(await client.request(add, 3))
        allow_only(client, allow(DESCRIBE, TRANSACTIONAL_ID, "tx"), DESCRIBES_T)
        listed = await client.request(ListTransactionsRequest(), 0)
        assert [t.transactional_id for t in listed.transaction_states] == ["tx"]
        response = await client.request(DescribeTransactionsRequest(transactional_ids=["tx", "other"]), 0)
        authorized, other = response.transaction_states
        assert [topic.topic for topic in authorized.topics] == ["t"]
        assert (other.error_code, other.transaction_state) == (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "")

    with_authorizer(test, tmp_path)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_group_subscribed_to_an_unauthorized_topic_is_not_described(tmp_path: Path, kind: str) -> None:
    heartbeat, describe = (
        (ROWS["ConsumerGroupHeartbeat"], ROWS["ConsumerGroupDescribe"])
        if kind == "consumer"
        else (ROWS["ShareGroupHeartbeat"], ROWS["ShareGroupDescribe"])
    )

    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        assert not codes(await client.request(heartbeat.request(topic_id), 1))
        allow_only(client, DESCRIBES_G, DESCRIBES_T)
        (group,) = (await client.request(describe.request(topic_id), 1)).groups
        assert [m.assignment.topic_partitions[0].topic_name for m in group.members] == ["t"]
        allow_only(client, DESCRIBES_G)
        (group,) = (await client.request(describe.request(topic_id), 1)).groups
        assert (group.error_code, group.members) == (TOPIC_AUTHORIZATION_FAILED, [])

    with_authorizer(test, tmp_path)


def test_subscribed_regex_matches_describable_topics_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        allow_only(client, READS_G, DESCRIBES_T)
        join = ConsumerGroupHeartbeatRequest(
            **MEMBER, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_regex=".*", topic_partitions=[]
        )
        response = await client.request(join, 1)
        assert response.assignment is not None
        assert [actual.topic_id for actual in response.assignment.topic_partitions] == [topic_id]

    with_authorizer(test, tmp_path)


async def start_share_group(client: BrokerClient, topic_id: UUID) -> None:
    await client.request(ROWS["ShareGroupHeartbeat"].request(topic_id), 1)
    await client.request(acquire(topic_id), 1)


def test_share_group_offsets_are_described_for_describable_topics_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        await start_share_group(client, topic_id)
        named, everything = describe_share_offsets(topic_id), describe_share_offsets(topic_id)
        everything.groups[0].topics = None
        for acls, reported, listed in (
            ((DESCRIBES_G, DESCRIBES_T), 0, ["t"]),
            ((DESCRIBES_G,), TOPIC_AUTHORIZATION_FAILED, []),
        ):
            allow_only(client, *acls)
            (topic,) = (await client.request(named, 0)).groups[0].topics
            assert topic.partitions[0].error_code == reported
            assert [t.topic_name for t in (await client.request(everything, 0)).groups[0].topics] == listed

    with_authorizer(test, tmp_path)


def test_share_acknowledge_requires_read_on_group_and_topic(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        await start_share_group(client, topic_id)
        batches = [share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
        request = share_acknowledge.ShareAcknowledgeRequest(**MEMBER, share_session_epoch=1, topics=[topic])
        for acls, code in (((READS_T,), GROUP_AUTHORIZATION_FAILED), ((READS_G,), TOPIC_AUTHORIZATION_FAILED)):
            allow_only(client, *acls)
            assert codes(await client.request(request, 1)) == {code}

    with_authorizer(test, tmp_path)


def test_share_group_offsets_are_deleted_for_readable_topics_only(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic_id = await prepare(client)
        await start_share_group(client, topic_id)
        leave = ShareGroupHeartbeatRequest(**MEMBER, member_epoch=-1)
        assert not codes(await client.request(leave, 1))
        topics = [delete_share.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "s")]
        request = delete_share.DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        allow_only(client, DELETES_G, READS_T)
        response = await client.request(request, 0)
        assert [topic.error_code for topic in response.responses] == [0, TOPIC_AUTHORIZATION_FAILED]
        authenticate_as(client, ADMIN)
        assert not codes(await client.request(request, 0))

    with_authorizer(test, tmp_path)
