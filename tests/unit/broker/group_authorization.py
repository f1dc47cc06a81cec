"""The ACLs that Apache Kafka requires for requests of groups and transactions, as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from tests.unit.broker.authorization import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    allow,
)

from ottla.model import ACLOperation
from ottla.protocol.messages import add_partitions_to_txn as add_partitions
from ottla.protocol.messages import alter_share_group_offsets as alter_share
from ottla.protocol.messages import delete_share_group_offsets as delete_share
from ottla.protocol.messages import describe_share_group_offsets as describe_share
from ottla.protocol.messages import offset_commit, offset_delete, offset_fetch, share_fetch
from ottla.protocol.messages import txn_offset_commit as txn_commit
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.security.acl import ResourceType

READ, WRITE, DELETE, DESCRIBE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DELETE, ACLOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
CODES = {
    TOPIC: TOPIC_AUTHORIZATION_FAILED,
    GROUP: GROUP_AUTHORIZATION_FAILED,
    CLUSTER: CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
WRITES_TX = allow(WRITE, TRANSACTIONAL_ID, "tx")
READS_G, READS_T = allow(READ, GROUP, "g"), allow(READ, TOPIC, "t")
DESCRIBES_G, DESCRIBES_T = allow(DESCRIBE, GROUP, "g"), allow(DESCRIBE, TOPIC, "t")
DELETES_G = allow(DELETE, GROUP, "g")
MEMBER: dict[str, Any] = {"group_id": "g", "member_id": "m"}
PRODUCER: dict[str, Any] = {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 0}


class Row(NamedTuple):
    """A request, and the ACLs that it requires."""

    version: int
    request: Callable[[UUID], Any]
    """Builds the request, given the id of topic t."""
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
    transaction = add_partitions.AddPartitionsToTxnTransaction(topics=topics, verify_only=True, **PRODUCER)
    return add_partitions.AddPartitionsToTxnRequest(transactions=[transaction])


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
    "OffsetFetch of the store": Row(0, old_fetch, (DESCRIBES_G, DESCRIBES_T)),
    "OffsetFetch without a top-level error": Row(1, old_fetch, (DESCRIBES_G, DESCRIBES_T)),
    "OffsetFetch of one group": Row(7, old_fetch, (DESCRIBES_G, DESCRIBES_T)),
    "OffsetFetch": Row(9, fetch, (DESCRIBES_G, DESCRIBES_T)),
    "OffsetFetch by id": Row(10, fetch, (DESCRIBES_G, DESCRIBES_T)),
    "OffsetDelete": Row(0, delete, (allow(DELETE, GROUP, "known"), READS_T)),
    "FindCoordinator of a group": Row(4, coordinator(0), (DESCRIBES_G,)),
    "FindCoordinator of a group, version 3": Row(3, lambda _: FindCoordinatorRequest(key="g"), (DESCRIBES_G,)),
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
    "DescribeGroups": Row(5, lambda _: DescribeGroupsRequest(groups=["g"]), (DESCRIBES_G,)),
    "DeleteGroups": Row(2, lambda _: DeleteGroupsRequest(groups_names=["g"]), (DELETES_G,)),
    "ConsumerGroupHeartbeat": Row(
        1,
        lambda _: ConsumerGroupHeartbeatRequest(
            **MEMBER, member_epoch=0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        ),
        (READS_G, DESCRIBES_T),
    ),
    "ConsumerGroupDescribe": Row(1, lambda _: ConsumerGroupDescribeRequest(group_ids=["g"]), (DESCRIBES_G,)),
    "ShareGroupHeartbeat": Row(
        1,
        lambda _: ShareGroupHeartbeatRequest(**MEMBER, member_epoch=0, subscribed_topic_names=["t"]),
        (READS_G, DESCRIBES_T),
    ),
    "ShareGroupDescribe": Row(1, lambda _: ShareGroupDescribeRequest(group_ids=["g"]), (DESCRIBES_G,)),
    "StreamsGroupHeartbeat": Row(
        0,
        lambda _: StreamsGroupHeartbeatRequest(
            **MEMBER,
            member_epoch=0,
            rebalance_timeout_ms=1,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            topology=Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"])]),
        ),
        (READS_G, DESCRIBES_T),
    ),
    "StreamsGroupDescribe": Row(1, lambda _: StreamsGroupDescribeRequest(group_ids=["g"]), (DESCRIBES_G,)),
    "ShareFetch": Row(1, acquire, (READS_G, READS_T)),
    "DescribeShareGroupOffsets": Row(0, describe_share_offsets, (DESCRIBES_G,)),
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
