"""The rights that requests of groups and transactions require, and the errors without them."""

from __future__ import annotations

from pathlib import Path
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
from tests.unit.broker.group_authorization import (
    CLUSTER,
    CODES,
    DELETES_G,
    DESCRIBE,
    MEMBER,
    READS_G,
    READS_T,
    ROWS,
    SEES_G,
    SEES_T,
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
from tests.unit.broker.transacting import find_coordinator

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
        assert answer.assignment is not None
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
