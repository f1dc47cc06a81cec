"""The APIs that this broker supports. ApiVersions and the docs are derived from this table.

All APIs of `protocol/apis.py` are supported, except CONTROLLER_APIS. The versions of an API are those of its message
(`protocol/messages`) unless its row limits them, and the handler of API `Xy` is `handle` in `broker/handlers/xy.py`. A
handler is imported at the first request; ApiVersions imports the messages of all APIs that it lists. Only APIs with
special properties, such as limits or required authorization, have a row here.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ottla.broker.request_context import RequestContext
from ottla.model import ACLOperation
from ottla.protocol import apis
from ottla.protocol.message import Response

Handler = Callable[[Any, RequestContext], "Response | Awaitable[Response | None] | None"]
"""Handles a decoded request.

Returns the response, None if there is none, or an awaitable of either if the handler has to wait.
"""

MAX_ITEMS = 100_000
"""Maximum number of array items in one request of a client, unless the API's row has another limit.

This many items take about 30 MB when decoded.
"""
MAX_ITEMS_TOGETHER = 10_000
"""A lower maximum of array items, for APIs that process all items of a request together or expect few."""


class ApiEntry(NamedTuple):
    """One API that the broker supports."""

    name: str
    required_cluster_operation: ACLOperation | None = None
    """The operation on the cluster that a client must be authorized for; None if there is none.

    `dispatch` also checks that inter-broker requests come from brokers. Handlers check all other authorization.
    """
    by_controller: bool = False
    """Whether requests during a controller election wait for its end, at most `dispatch.ELECTION_SECONDS`, because they
    are for the controller.
    """
    inter_broker_since: int | None = None
    """The first version that only brokers of the cluster may send, and that a standalone broker does not support; None
    if clients may send all versions.
    """

    last_version: int | None = None
    """The last version that the broker supports, if the message has later ones; None for the message's last version."""

    parts: tuple[str, ...] = ()
    """Paths of arrays in the request whose items are independent, so that a long request is processed in parts (see
    `request_parts`).
    """
    merged_levels: int | None = None
    """Number of array levels in the partial responses that are merged by name; None: one less than the levels of
    `parts`.
    """
    max_items: int = MAX_ITEMS
    """Maximum number of items of all arrays of a request together. A client that sends more is disconnected. Brokers of
    the cluster may send more.
    """

    def versions(self, *, in_cluster: bool) -> range:
        """Return the supported versions; an empty range if the API is not supported.

        `in_cluster`: whether the broker is not standalone.
        """
        versions: range = self.api.request.VERSIONS
        if self.last_version is not None:
            versions = range(versions.start, self.last_version + 1)
        if in_cluster or self.inter_broker_since is None:
            return versions
        return range(versions.start, self.inter_broker_since)

    @property
    def api(self) -> apis.Api:
        """The API's row in the protocol's table."""
        return apis.BY_NAME[self.name]

    @property
    def handler(self) -> Handler:
        """The function that handles a request."""
        module = self.api.module.rpartition(".")[2]
        handler: Handler = importlib.import_module(f"ottla.broker.handlers.{module}").handle
        return handler


SPECIAL_APIS = (
    ApiEntry("Produce", parts=("topic_data.partition_data",)),
    ApiEntry("Fetch", max_items=40_000),
    ApiEntry("ListOffsets", parts=("topics.partitions",)),
    ApiEntry("Metadata", parts=("topics",)),
    ApiEntry("LeaderAndIsr", inter_broker_since=0),
    ApiEntry("StopReplica", inter_broker_since=0),
    ApiEntry("UpdateMetadata", inter_broker_since=0),
    ApiEntry("ControlledShutdown", inter_broker_since=0),
    ApiEntry("OffsetCommit", parts=("topics.partitions",)),
    ApiEntry("OffsetFetch", parts=("topics.partition_indexes", "groups.topics.partition_indexes")),
    ApiEntry("FindCoordinator", parts=("coordinator_keys",)),
    ApiEntry("JoinGroup", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("LeaveGroup", parts=("members",)),
    ApiEntry("SyncGroup", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeGroups", parts=("groups",)),
    ApiEntry("ListGroups", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("CreateTopics", parts=("topics",), by_controller=True),
    ApiEntry("DeleteTopics", parts=("topics", "topic_names"), by_controller=True),
    ApiEntry("DeleteRecords", parts=("topics.partitions",)),
    ApiEntry("OffsetForLeaderEpoch", parts=("topics.partitions",)),
    ApiEntry("AddPartitionsToTxn", inter_broker_since=4, max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("WriteTxnMarkers", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("TxnOffsetCommit", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeConfigs", parts=("resources",)),
    ApiEntry("IncrementalAlterConfigs", parts=("resources",)),
    ApiEntry("AlterConfigs", parts=("resources",)),
    ApiEntry("CreatePartitions", parts=("topics",), by_controller=True),
    ApiEntry("DeleteGroups", parts=("groups_names",)),
    ApiEntry("OffsetDelete", parts=("topics.partitions",)),
    ApiEntry("AlterReplicaLogDirs", parts=("dirs.topics.partitions",), merged_levels=1),
    ApiEntry("DescribeLogDirs", parts=("topics.partitions",), merged_levels=2),
    ApiEntry(
        "DescribeClientQuotas", required_cluster_operation=ACLOperation.DESCRIBE_CONFIGS, max_items=MAX_ITEMS_TOGETHER
    ),
    ApiEntry("AlterClientQuotas", parts=("entries",), max_items=MAX_ITEMS_TOGETHER),
    ApiEntry(
        "UpdateFeatures",
        required_cluster_operation=ACLOperation.ALTER,
        max_items=MAX_ITEMS_TOGETHER,
        by_controller=True,
    ),
    ApiEntry("ConsumerGroupHeartbeat", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("ConsumerGroupDescribe", parts=("group_ids",)),
    ApiEntry("ShareGroupHeartbeat", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("ShareGroupDescribe", parts=("group_ids",)),
    # from version 1 on members report offsets of their tasks, for warm-up tasks
    ApiEntry("StreamsGroupHeartbeat", last_version=0, max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("StreamsGroupDescribe", parts=("group_ids",)),
    ApiEntry("ShareFetch", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("ShareAcknowledge", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeShareGroupOffsets", parts=("groups.topics.partitions",)),
    ApiEntry("AlterShareGroupOffsets", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DeleteShareGroupOffsets", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeProducers", parts=("topics.partition_indexes",)),
    ApiEntry("DescribeTransactions", parts=("transactional_ids",)),
    ApiEntry("ListTransactions", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("SaslHandshake", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeAcls", required_cluster_operation=ACLOperation.DESCRIBE),
    ApiEntry("CreateAcls", parts=("creations",)),
    ApiEntry("DeleteAcls", parts=("filters",)),
    ApiEntry("CreateDelegationToken", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("DescribeDelegationToken", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry("ElectLeaders", parts=("topic_partitions.partitions",), by_controller=True),
    ApiEntry("AlterPartition", inter_broker_since=0),
    ApiEntry("AllocateProducerIds", inter_broker_since=0),
    ApiEntry("InitializeShareGroupState", inter_broker_since=0),
    ApiEntry("ReadShareGroupState", inter_broker_since=0),
    ApiEntry("WriteShareGroupState", inter_broker_since=0),
    ApiEntry("DeleteShareGroupState", inter_broker_since=0),
    ApiEntry("ReadShareGroupStateSummary", inter_broker_since=0),
    ApiEntry(
        "AlterPartitionReassignments",
        required_cluster_operation=ACLOperation.ALTER,
        parts=("topics.partitions",),
        by_controller=True,
    ),
    ApiEntry(
        "ListPartitionReassignments",
        required_cluster_operation=ACLOperation.DESCRIBE,
        parts=("topics.partition_indexes",),
        by_controller=True,
    ),
    ApiEntry("DescribeUserScramCredentials", required_cluster_operation=ACLOperation.DESCRIBE, parts=("users",)),
    ApiEntry("AlterUserScramCredentials", max_items=MAX_ITEMS_TOGETHER),
    ApiEntry(
        "ListConfigResources", required_cluster_operation=ACLOperation.DESCRIBE_CONFIGS, max_items=MAX_ITEMS_TOGETHER
    ),
    # not in parts: the limit of partitions and the cursor apply to the whole response
    ApiEntry("DescribeTopicPartitions", max_items=MAX_ITEMS_TOGETHER),
)
"""The APIs whose properties differ from the defaults of `ApiEntry`."""

CONTROLLER_APIS = frozenset({"DescribeQuorum", "UnregisterBroker", "AddRaftVoter", "RemoveRaftVoter"})
"""APIs of Kafka's KRaft clusters, which are declared only for the admin client. This broker does not support them."""


def _supported() -> tuple[ApiEntry, ...]:
    special = {entry.name: entry for entry in SPECIAL_APIS}
    return tuple(special.get(api.name) or ApiEntry(api.name) for api in apis.APIS if api.name not in CONTROLLER_APIS)


SUPPORTED_APIS = _supported()
"""All supported APIs in the order of their numbers."""

BY_KEY = {entry.api.key: entry for entry in SUPPORTED_APIS}
TELEMETRY = frozenset({"GetTelemetrySubscriptions", "PushTelemetry"})


@functools.cache  # each new connection of a client requests it
def advertised_apis(*, telemetry: bool, in_cluster: bool) -> tuple[tuple[ApiEntry, range], ...]:
    """Return the APIs that ApiVersions lists, with their versions.

    The APIs of client metrics are listed only if a class in `metric.reporters` receives the metrics (`telemetry`), as
    in Kafka; inter-broker APIs are listed only in a cluster.
    """
    entries = (entry for entry in SUPPORTED_APIS if telemetry or entry.name not in TELEMETRY)
    return tuple((entry, versions) for entry in entries if (versions := entry.versions(in_cluster=in_cluster)))


REASONS: tuple[tuple[str, str], ...] = (
    (
        "TopologyDescription",
        "for a plugin of Kafka's brokers that stores topologies; Kafka rejects it without one",
    ),
    ("", "for Kafka's KRaft controllers; Ottla keeps the cluster's metadata in the metadata store"),
)
"""The reasons why APIs are not supported, by a part of the API's name. The first matching row applies."""


def unsupported_apis() -> Mapping[str, str]:
    """Return the APIs of Kafka 3.9 to 4.4 that the broker does not support: by name, with the reason why."""
    names = {**{api.key: api.name for api in apis.APIS}, **apis.NOT_DECLARED}
    return {
        name: next(reason for part, reason in REASONS if part in name)
        for key, name in sorted(names.items())
        if key not in BY_KEY
    }
