"""The rights that requests of groups and transactions require, and the errors without them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from tests.unit.broker.allowing import (
    ADMIN,
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
from tests.unit.broker.asking import Asker, with_broker
from tests.unit.broker.transacting import find_coordinator

from ottla.model import ACLOperation
from ottla.protocol.messages import add_partitions_to_txn as add_partitions
from ottla.protocol.messages import alter_share_group_offsets as alter_share
from ottla.protocol.messages import delete_share_group_offsets as delete_share
from ottla.protocol.messages import describe_share_group_offsets as describe_share
from ottla.protocol.messages import offset_commit, offset_delete, offset_fetch, share_acknowledge, share_fetch
from ottla.protocol.messages import txn_offset_commit as txn_commit
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.security.acl import ResourceType

READ, WRITE, DELETE, DESCRIBE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DELETE, ACLOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
CODES = {
    TOPIC: TOPIC_REFUSED,
    GROUP: GROUP_REFUSED,
    CLUSTER: CLUSTER_REFUSED,
    TRANSACTIONAL_ID: TRANSACTIONAL_ID_REFUSED,
}
WRITES_TX = allow(WRITE, TRANSACTIONAL_ID, "tx")
READS_G, READS_T = allow(READ, GROUP, "g"), allow(READ, TOPIC, "t")
SEES_G, SEES_T = allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, TOPIC, "t")
DELETES_G = allow(DELETE, GROUP, "g")
MEMBER = {"group_id": "g", "member_id": "m"}
PRODUCER = {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 0}


class Row(NamedTuple):
    """A request, and all that it needs."""

    version: int
    request: Callable[[UUID], Any]
    """For the id of the topic t."""
    needs: tuple[Any, ...]


def commit(topic_id: UUID) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = offset_commit.OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=[partition])
    return offset_commit.OffsetCommitRequest(group_id="g", topics=[topic])


def fetch(topic_id: UUID) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=[topic])])


def old_fetch(_: UUID) -> Any:
    topic = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    return offset_fetch.OffsetFetchRequest(group_id="g", topics=[topic])


def delete(_: UUID) -> Any:
    partition = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name="t", partitions=[partition])
    return offset_delete.OffsetDeleteRequest(group_id="known", topics=[topic])


def txn_offset_commit(topic_id: UUID) -> Any:
    partition = txn_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = txn_commit.TxnOffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=[partition])
    return txn_commit.TxnOffsetCommitRequest(group_id="g", topics=[topic], **PRODUCER)


def add_from_producer(_: UUID, *names: str) -> Any:
    return add_partitions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=1,
        v3_and_below_topics=[add_partitions.AddPartitionsToTxnTopic(name=n, partitions=[0]) for n in names or ("t",)],
    )


def add_from_broker(_: UUID) -> Any:
    topics = [add_partitions.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    expected = add_partitions.AddPartitionsToTxnTransaction(topics=topics, verify_only=True, **PRODUCER)
    return add_partitions.AddPartitionsToTxnRequest(transactions=[expected])


def acquire(topic_id: UUID) -> Any:
    topic = share_fetch.FetchTopic(topic_id=topic_id, partitions=[share_fetch.FetchPartition(partition_index=0)])
    return share_fetch.ShareFetchRequest(
        **MEMBER, share_session_epoch=0, max_wait_ms=0, max_records=1, max_bytes=1 << 20, topics=[topic]
    )


def alter_share_offsets(_: UUID) -> Any:
    partition = alter_share.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = alter_share.AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[partition])
    return alter_share.AlterShareGroupOffsetsRequest(group_id="g", topics=[topic])


def describe_share_offsets(_: UUID) -> Any:
    topic = describe_share.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[0])
    group = describe_share.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=[topic])
    return describe_share.DescribeShareGroupOffsetsRequest(groups=[group])


def coordinator(kind: int) -> Callable[[UUID], Any]:
    return lambda _: FindCoordinatorRequest(key_type=kind, coordinator_keys=[{0: "g", 1: "tx"}.get(kind, "g:t:0")])


ROWS = {
    "OffsetCommit of the store": Row(0, commit, (READS_G, READS_T)),
    "OffsetCommit": Row(9, commit, (READS_G, READS_T)),
    "OffsetCommit by id": Row(10, commit, (READS_G, READS_T)),
    "OffsetFetch of the store": Row(0, old_fetch, (SEES_G, SEES_T)),
    "OffsetFetch without a place for errors": Row(1, old_fetch, (SEES_G, SEES_T)),
    "OffsetFetch of one group": Row(7, old_fetch, (SEES_G, SEES_T)),
    "OffsetFetch": Row(9, fetch, (SEES_G, SEES_T)),
    "OffsetFetch by id": Row(10, fetch, (SEES_G, SEES_T)),
    "OffsetDelete": Row(0, delete, (allow(DELETE, GROUP, "known"), READS_T)),
    "FindCoordinator of a group": Row(4, coordinator(0), (SEES_G,)),
    "FindCoordinator of a group, old": Row(3, lambda _: FindCoordinatorRequest(key="g"), (SEES_G,)),
    "FindCoordinator of a transactional id": Row(4, coordinator(1), (allow(DESCRIBE, TRANSACTIONAL_ID, "tx"),)),
    "FindCoordinator of a share group": Row(6, coordinator(2), (allow(ACLOperation.CLUSTER_ACTION, CLUSTER),)),
    "JoinGroup": Row(
        5, lambda _: JoinGroupRequest(group_id="g", protocols=[JoinGroupRequestProtocol(name="range")]), (READS_G,)
    ),
    "SyncGroup": Row(
        5, lambda _: SyncGroupRequest(**MEMBER, protocol_type="consumer", protocol_name="range"), (READS_G,)
    ),
    "Heartbeat": Row(4, lambda _: HeartbeatRequest(**MEMBER), (READS_G,)),
    "LeaveGroup": Row(2, lambda _: LeaveGroupRequest(**MEMBER), (READS_G,)),
    "LeaveGroup of several": Row(
        3, lambda _: LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")]), (READS_G,)
    ),
    "DescribeGroups": Row(5, lambda _: DescribeGroupsRequest(groups=["g"]), (SEES_G,)),
    "DeleteGroups": Row(2, lambda _: DeleteGroupsRequest(groups_names=["g"]), (DELETES_G,)),
    "ConsumerGroupHeartbeat": Row(
        1,
        lambda _: ConsumerGroupHeartbeatRequest(
            **MEMBER, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        (READS_G, SEES_T),
    ),
    "ConsumerGroupDescribe": Row(1, lambda _: ConsumerGroupDescribeRequest(group_ids=["g"]), (SEES_G,)),
    "ShareGroupHeartbeat": Row(
        1,
        lambda _: ShareGroupHeartbeatRequest(**MEMBER, member_epoch=0, subscribed_topic_names=["t"]),
        (READS_G, SEES_T),
    ),
    "ShareGroupDescribe": Row(1, lambda _: ShareGroupDescribeRequest(group_ids=["g"]), (SEES_G,)),
    "ShareFetch": Row(1, acquire, (READS_G, READS_T)),
    "DescribeShareGroupOffsets": Row(0, describe_share_offsets, (SEES_G,)),
    "AlterShareGroupOffsets": Row(0, alter_share_offsets, (READS_G, READS_T)),
    "DeleteShareGroupOffsets": Row(
        0, lambda _: delete_share.DeleteShareGroupOffsetsRequest(group_id="g"), (DELETES_G,)
    ),
    "TxnOffsetCommit": Row(5, txn_offset_commit, (WRITES_TX, READS_G, READS_T)),
    "TxnOffsetCommit by id": Row(6, txn_offset_commit, (WRITES_TX, READS_G, READS_T)),
    "InitProducerId": Row(
        4, lambda _: InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000), (WRITES_TX,)
    ),
    "InitProducerId of prepared transactions": Row(
        6,
        lambda _: InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000, enable_2pc=True),
        (WRITES_TX, allow(ACLOperation.TWO_PHASE_COMMIT, TRANSACTIONAL_ID, "tx")),
    ),
    "InitProducerId without a transactional id": Row(
        4, lambda _: InitProducerIdRequest(transactional_id=None), (allow(ACLOperation.IDEMPOTENT_WRITE, CLUSTER),)
    ),
    "AddPartitionsToTxn": Row(3, add_from_producer, (WRITES_TX, allow(WRITE, TOPIC, "t"))),
    "AddPartitionsToTxn of a broker": Row(5, add_from_broker, (allow(ACLOperation.CLUSTER_ACTION, CLUSTER),)),
    "AddOffsetsToTxn": Row(3, lambda _: AddOffsetsToTxnRequest(group_id="g", **PRODUCER), (WRITES_TX, READS_G)),
    "EndTxn": Row(4, lambda _: EndTxnRequest(**PRODUCER, committed=True), (WRITES_TX,)),
    "DescribeTransactions": Row(
        0,
        lambda _: DescribeTransactionsRequest(transactional_ids=["tx"]),
        (allow(DESCRIBE, TRANSACTIONAL_ID, "tx"),),
    ),
}


async def prepare(client: Asker) -> UUID:
    new_topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("t", "s")]
    await client.ask(CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7)
    await find_coordinator(client)
    topic_id = client.context.image.topics["t"].id
    existing = commit(topic_id)
    existing.group_id = "known"
    assert not codes(await client.ask(existing, 9))
    return topic_id


@pytest.mark.parametrize("name", ROWS)
def test_each_of_the_rules_is_needed_and_all_are_enough(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        for missing in row.needs:
            only(client, *(rule for rule in row.needs if rule is not missing))
            refused = CODES[missing.resource_pattern.resource_type]
            assert codes(await client.ask(row.request(topic_id), row.version)) == {refused}
        only(client, *row.needs)
        assert not codes(await client.ask(row.request(topic_id), row.version)) & AUTHORIZATION_CODES

    with_rules(test, tmp_path, transaction_two_phase_commit_enable=True)


@pytest.mark.parametrize("name", ROWS)
def test_without_an_authorizer_nothing_is_refused(name: str, tmp_path: Path) -> None:
    row = ROWS[name]

    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        assert not codes(await client.as_broker().ask(row.request(topic_id), row.version)) & AUTHORIZATION_CODES

    with_broker(test, tmp_path, transaction_two_phase_commit_enable=True)


def test_a_commit_keeps_what_may_be_read_and_refuses_the_rest(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        only(client, READS_G, READS_T)
        request = commit(topic_id)
        others = [commit(topic_id).topics[0] for _ in range(2)]
        for other, name in zip(others, ("s", "nowhere"), strict=True):
            other.name = name
        request.topics += others
        answer = await client.ask(request, 9)
        assert [t.partitions[0].error_code for t in answer.topics] == [0, TOPIC_REFUSED, TOPIC_REFUSED]
        assert {tp.topic for tp in client.context.groups.offsets.by_group["g"]} == {"t"}
        request.generation_id_or_member_epoch, request.member_id = 3, "unknown"
        unknown_member = 25
        answer = await client.ask(request, 9)
        assert [t.partitions[0].error_code for t in answer.topics] == [unknown_member, TOPIC_REFUSED, TOPIC_REFUSED]

    with_rules(test, tmp_path)


async def commit_both(client: Asker, topic_id: UUID) -> None:
    request = commit(topic_id)
    request.topics += [commit(topic_id).topics[0]]
    request.topics[1].name = "s"
    assert not codes(await client.ask(request, 9))


def test_all_offsets_are_those_of_topics_that_may_be_described(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await commit_both(client, await prepare(client))
        only(client, SEES_G, SEES_T)
        groups = [offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("g", "h")]
        actual = (await client.ask(offset_fetch.OffsetFetchRequest(groups=groups), 9)).groups
        assert [t.name for t in actual[0].topics] == ["t"]
        assert [group.error_code for group in actual] == [0, GROUP_REFUSED]

    with_rules(test, tmp_path)


def test_offsets_of_hidden_topics_are_not_returned_even_during_a_transaction(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        await commit_both(client, topic_id)
        started = await client.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=9000), 4)
        pending = txn_offset_commit(topic_id)
        pending.producer_id, pending.producer_epoch = started.producer_id, started.producer_epoch
        assert not codes(await client.ask(pending, 5))
        only(client, SEES_G)
        request = fetch(topic_id)
        request.require_stable = True
        (actual,) = (await client.ask(request, 9)).groups[0].topics[0].partitions
        assert (actual.error_code, actual.committed_offset) == (TOPIC_REFUSED, -1)

    with_rules(test, tmp_path)


def test_coordinators_are_returned_per_key(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        only(client, SEES_G)
        actual = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g", "h"]), 4)
        assert [(c.key, c.error_code, c.node_id) for c in actual.coordinators] == [
            ("g", 0, 0),
            ("h", GROUP_REFUSED, -1),
        ]

    with_rules(test, tmp_path)


def test_groups_are_listed_that_may_be_described_or_all_to_who_describes_the_cluster(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        await client.ask(commit(topic_id), 9)
        for rules, seen in (((), set()), ((READS_G,), {"g"}), ((allow(DESCRIBE, CLUSTER),), {"g", "known"})):
            only(client, *rules)
            assert {group.group_id for group in (await client.ask(ListGroupsRequest(), 4)).groups} == seen

    with_rules(test, tmp_path)


def test_who_may_write_to_some_topic_may_number_records(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await prepare(client)
        for rules, code in (((allow(WRITE, TOPIC, "t"),), 0), ((READS_T,), CLUSTER_REFUSED)):
            only(client, *rules)
            assert (await client.ask(InitProducerIdRequest(transactional_id=None), 4)).error_code == code

    with_rules(test, tmp_path)


def test_partitions_join_a_transaction_together_or_not_at_all(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        only(client, WRITES_TX, allow(WRITE, TOPIC, "t"))
        answer = await client.ask(add_from_producer(topic_id, "t", "s", "nowhere"), 3)
        actual = {t.name: t.results_by_partition[0].partition_error_code for t in answer.results_by_topic_v3_and_below}
        not_attempted = 55
        assert actual == {"t": not_attempted, "s": TOPIC_REFUSED, "nowhere": TOPIC_REFUSED}

    with_rules(test, tmp_path)


def test_described_transactions_omit_hidden_topics(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        for name in ("tx", "other"):
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=9000)
            started = await client.ask(request, 4)
            add = add_from_producer(topic_id, "t", "s")
            add.v3_and_below_transactional_id, add.v3_and_below_producer_id = name, started.producer_id
            assert not codes(await client.ask(add, 3))
        only(client, allow(DESCRIBE, TRANSACTIONAL_ID, "tx"), SEES_T)
        listed = await client.ask(ListTransactionsRequest(), 0)
        assert [t.transactional_id for t in listed.transaction_states] == ["tx"]
        answer = await client.ask(DescribeTransactionsRequest(transactional_ids=["tx", "other"]), 0)
        mine, other = answer.transaction_states
        assert [topic.topic for topic in mine.topics] == ["t"]
        assert (other.error_code, other.transaction_state) == (TRANSACTIONAL_ID_REFUSED, "")

    with_rules(test, tmp_path)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_group_that_reads_a_hidden_topic_is_not_described(tmp_path: Path, kind: str) -> None:
    beat, describe = (
        (ROWS["ConsumerGroupHeartbeat"], ROWS["ConsumerGroupDescribe"])
        if kind == "consumer"
        else (ROWS["ShareGroupHeartbeat"], ROWS["ShareGroupDescribe"])
    )

    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        assert not codes(await client.ask(beat.request(topic_id), 1))
        only(client, SEES_G, SEES_T)
        (group,) = (await client.ask(describe.request(topic_id), 1)).groups
        assert [m.assignment.topic_partitions[0].topic_name for m in group.members] == ["t"]
        only(client, SEES_G)
        (group,) = (await client.ask(describe.request(topic_id), 1)).groups
        assert (group.error_code, group.members) == (TOPIC_REFUSED, [])

    with_rules(test, tmp_path)


def test_a_regular_expression_finds_topics_that_may_be_described(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        only(client, READS_G, SEES_T)
        join = ConsumerGroupHeartbeatRequest(
            **MEMBER, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_regex=".*", topic_partitions=[]
        )
        answer = await client.ask(join, 1)
        assert [actual.topic_id for actual in answer.assignment.topic_partitions] == [topic_id]

    with_rules(test, tmp_path)


async def begin_sharing(client: Asker, topic_id: UUID) -> None:
    await client.ask(ROWS["ShareGroupHeartbeat"].request(topic_id), 1)
    await client.ask(acquire(topic_id), 1)


def test_share_group_offsets_are_returned_for_describable_topics(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        await begin_sharing(client, topic_id)
        named, everything = describe_share_offsets(topic_id), describe_share_offsets(topic_id)
        everything.groups[0].topics = None
        for rules, reported, listed in (((SEES_G, SEES_T), 0, ["t"]), ((SEES_G,), TOPIC_REFUSED, [])):
            only(client, *rules)
            (topic,) = (await client.ask(named, 0)).groups[0].topics
            assert topic.partitions[0].error_code == reported
            assert [t.topic_name for t in (await client.ask(everything, 0)).groups[0].topics] == listed

    with_rules(test, tmp_path)


def test_result_of_records_is_known_only_by_reading(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        await begin_sharing(client, topic_id)
        batches = [share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])]
        partition = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topic = share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
        request = share_acknowledge.ShareAcknowledgeRequest(**MEMBER, share_session_epoch=1, topics=[topic])
        for rules, code in (((READS_T,), GROUP_REFUSED), ((READS_G,), TOPIC_REFUSED)):
            only(client, *rules)
            assert codes(await client.ask(request, 1)) == {code}

    with_rules(test, tmp_path)


def test_progress_is_deleted_of_topics_that_may_be_read(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        topic_id = await prepare(client)
        await begin_sharing(client, topic_id)
        leave = ShareGroupHeartbeatRequest(**MEMBER, member_epoch=-1)
        assert not codes(await client.ask(leave, 1))
        topics = [delete_share.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in ("t", "s")]
        request = delete_share.DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
        only(client, DELETES_G, READS_T)
        answer = await client.ask(request, 0)
        assert [topic.error_code for topic in answer.responses] == [0, TOPIC_REFUSED]
        be(client, ADMIN)
        assert not codes(await client.ask(request, 0))

    with_rules(test, tmp_path)
