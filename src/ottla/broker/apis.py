"""The table of all that this broker serves: one row per API. ApiVersions and the docs are made from it.

The handler of API `Xy` is `handle` in `broker/handlers/xy.py`, imported when the first request for it comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol import apis
from ottla.protocol.message import Response

Handler = Callable[[Any, RequestContext], "Response | Awaitable[Response | None] | None"]
"""Answers a decoded request: at once, or with an awaitable where it has to wait."""


MAX_ITEMS = 100_000
"""Items that one request of a client may have where the API does not say less; some 30 MB once they are decoded."""
FEW_ITEMS = 10_000
"""Where all items of a request are worked on together."""


class Served(NamedTuple):
    """One API, in the versions that are answered."""

    name: str
    first: int
    last: int
    needs: ACLOperation | None = None
    """What a client must be allowed to do with the cluster for the whole of a request; handlers check the rest."""
    by_controller: bool = False
    """Whether only the controller answers; a request that comes during an election waits for its end."""
    brokers_from: int | None = None
    """The first version that only brokers of the cluster may send; a standalone broker does not serve it."""

    parts: tuple[str, ...] = ()
    """Arrays of requests whose items are independent: a long one is worked on in parts (`request_parts`)."""
    joined: int | None = None
    """How many levels of the response are joined by name then; by default those of the request without the last."""
    most: int = MAX_ITEMS
    """Items of all arrays of a request together; a client that sends more is disconnected."""

    def last_served(self, *, in_cluster: bool) -> int:
        """The newest version that is served; below `first` if this API is not served."""
        return self.last if in_cluster or self.brokers_from is None else self.brokers_from - 1

    @property
    def api(self) -> apis.Api:
        """The API's row in the protocol's table."""
        return apis.BY_NAME[self.name]

    @property
    def handler(self) -> Handler:
        """The function that answers it."""
        module = self.api.module.rpartition(".")[2]
        found: Handler = importlib.import_module(f"ottla.broker.handlers.{module}").handle
        return found


SERVED = (
    Served("Produce", 0, 13, parts=("topic_data.partition_data",)),
    Served("Fetch", 0, 18, most=40_000),
    Served("ListOffsets", 0, 11, parts=("topics.partitions",)),
    Served("Metadata", 0, 13, parts=("topics",)),
    Served("LeaderAndIsr", 0, 7, brokers_from=0),
    Served("StopReplica", 0, 4, brokers_from=0),
    Served("UpdateMetadata", 0, 8, brokers_from=0),
    Served("ControlledShutdown", 0, 3, brokers_from=0),
    Served("OffsetCommit", 0, 10, parts=("topics.partitions",)),
    Served("OffsetFetch", 0, 10, parts=("topics.partition_indexes", "groups.topics.partition_indexes")),
    Served("FindCoordinator", 0, 6, parts=("coordinator_keys",)),
    Served("JoinGroup", 0, 9, most=FEW_ITEMS),
    Served("Heartbeat", 0, 4),
    Served("LeaveGroup", 0, 5, parts=("members",)),
    Served("SyncGroup", 0, 5, most=FEW_ITEMS),
    Served("DescribeGroups", 0, 6, parts=("groups",)),
    Served("ListGroups", 0, 5, most=FEW_ITEMS),
    Served("ApiVersions", 0, 5),
    Served("CreateTopics", 0, 7, parts=("topics",), by_controller=True),
    Served("DeleteTopics", 0, 6, parts=("topics", "topic_names"), by_controller=True),
    Served("DeleteRecords", 0, 2, parts=("topics.partitions",)),
    Served("InitProducerId", 0, 6),
    Served("OffsetForLeaderEpoch", 0, 4, parts=("topics.partitions",)),
    Served("AddPartitionsToTxn", 0, 5, brokers_from=4, most=FEW_ITEMS),
    Served("AddOffsetsToTxn", 0, 4),
    Served("EndTxn", 0, 5),
    Served("WriteTxnMarkers", 0, 2, most=FEW_ITEMS),
    Served("TxnOffsetCommit", 0, 6, most=FEW_ITEMS),
    Served("DescribeConfigs", 0, 4, parts=("resources",)),
    Served("IncrementalAlterConfigs", 0, 1, parts=("resources",)),
    Served("AlterConfigs", 0, 2, parts=("resources",)),
    Served("CreatePartitions", 0, 3, parts=("topics",), by_controller=True),
    Served("DeleteGroups", 0, 3, parts=("groups_names",)),
    Served("OffsetDelete", 0, 0, parts=("topics.partitions",)),
    Served("AlterReplicaLogDirs", 0, 2, parts=("dirs.topics.partitions",), joined=1),
    Served("DescribeLogDirs", 0, 5, parts=("topics.partitions",), joined=2),
    Served("DescribeClientQuotas", 0, 1, needs=ACLOperation.DESCRIBE_CONFIGS, most=FEW_ITEMS),
    Served("AlterClientQuotas", 0, 1, parts=("entries",), most=FEW_ITEMS),
    Served("UpdateFeatures", 0, 2, needs=ACLOperation.ALTER, most=FEW_ITEMS, by_controller=True),
    Served("ConsumerGroupHeartbeat", 0, 1, most=FEW_ITEMS),
    Served("ConsumerGroupDescribe", 0, 1, parts=("group_ids",)),
    Served("ShareGroupHeartbeat", 1, 1, most=FEW_ITEMS),
    Served("ShareGroupDescribe", 1, 1, parts=("group_ids",)),
    Served("ShareFetch", 1, 2, most=FEW_ITEMS),
    Served("ShareAcknowledge", 1, 2, most=FEW_ITEMS),
    Served("DescribeShareGroupOffsets", 0, 1, parts=("groups.topics.partitions",)),
    Served("AlterShareGroupOffsets", 0, 0, most=FEW_ITEMS),
    Served("DeleteShareGroupOffsets", 0, 0, most=FEW_ITEMS),
    Served("DescribeCluster", 0, 2),
    Served("DescribeProducers", 0, 0, parts=("topics.partition_indexes",)),
    Served("DescribeTransactions", 0, 0, parts=("transactional_ids",)),
    Served("ListTransactions", 0, 2, most=FEW_ITEMS),
    Served("SaslHandshake", 0, 1, most=FEW_ITEMS),
    Served("SaslAuthenticate", 0, 2),
    Served("DescribeAcls", 0, 3, needs=ACLOperation.DESCRIBE),
    Served("CreateAcls", 0, 3, parts=("creations",)),
    Served("DeleteAcls", 0, 3, parts=("filters",)),
    Served("CreateDelegationToken", 0, 3, most=FEW_ITEMS),
    Served("RenewDelegationToken", 0, 2),
    Served("ExpireDelegationToken", 0, 2),
    Served("DescribeDelegationToken", 0, 3, most=FEW_ITEMS),
    Served("ElectLeaders", 0, 2, parts=("topic_partitions.partitions",), by_controller=True),
    Served("AlterPartition", 0, 3, brokers_from=0),
    Served("AllocateProducerIds", 0, 0, brokers_from=0),
    Served(
        "AlterPartitionReassignments", 0, 1, needs=ACLOperation.ALTER, parts=("topics.partitions",), by_controller=True
    ),
    Served(
        "ListPartitionReassignments",
        0,
        0,
        needs=ACLOperation.DESCRIBE,
        parts=("topics.partition_indexes",),
        by_controller=True,
    ),
    Served("DescribeUserScramCredentials", 0, 0, needs=ACLOperation.DESCRIBE, parts=("users",)),
    Served("AlterUserScramCredentials", 0, 0, most=FEW_ITEMS),
    Served("GetTelemetrySubscriptions", 0, 0),
    Served("PushTelemetry", 0, 0),
    Served("ListConfigResources", 0, 1, needs=ACLOperation.DESCRIBE_CONFIGS, most=FEW_ITEMS),
    Served("DescribeTopicPartitions", 0, 0, parts=("topics",)),
)
"""Every API that is answered."""

TELEMETRY = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})


def listed(*, telemetry: bool, in_cluster: bool) -> tuple[Served, ...]:
    """Return the APIs that ApiVersions lists, each with the newest version that clients may use.

    Those of client metrics need a receiver of them, as in Kafka; those between brokers a cluster.
    """
    rows = (row._replace(last=row.last_served(in_cluster=in_cluster)) for row in SERVED)
    return tuple(row for row in rows if row.last >= row.first and (telemetry or row.name not in TELEMETRY))


LEFT_OUT: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "of Kafka's own controllers (KRaft): a broker keeps what they would in its metadata store",
        (
            "Vote",
            "BeginQuorumEpoch",
            "EndQuorumEpoch",
            "DescribeQuorum",
            "Envelope",
            "FetchSnapshot",
            "BrokerRegistration",
            "BrokerHeartbeat",
            "UnregisterBroker",
            "ControllerRegistration",
            "UnregisterController",
            "AssignReplicasToDirs",
            "AddRaftVoter",
            "RemoveRaftVoter",
            "UpdateRaftVoter",
        ),
    ),
    (
        "between the coordinators of share groups, which are one thing here",
        (
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "WriteShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
        ),
    ),
    (
        "Kafka Streams' own group protocol (KIP-1071); Streams runs with the classic one, its default",
        ("StreamsGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupTopologyDescriptionUpdate"),
    ),
)
"""Every other API of Kafka 3.9 to 4.4, and why it is not answered."""

BY_KEY = {row.api.key: row for row in SERVED}
