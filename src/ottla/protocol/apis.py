"""The table of the declared APIs. The classes of a row are imported at first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ottla.errors import UnsupportedVersionError
from ottla.protocol.message import Request, Response


class Api(NamedTuple):
    """One API: its number, Kafka's name for it, and its first flexible version, or None."""

    key: int
    name: str
    flexible: int | None

    @property
    def module(self) -> str:
        """The module that declares the messages."""
        words = "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name)
        return f"ottla.protocol.messages.{words.lstrip('_')}"

    @property
    def request(self) -> type[Request[Any]]:
        """The class of the requests."""
        message_class: type[Request[Any]] = getattr(importlib.import_module(self.module), f"{self.name}Request")
        return message_class

    @property
    def response(self) -> type[Response]:
        """The class of the responses."""
        message_class: type[Response] = getattr(importlib.import_module(self.module), f"{self.name}Response")
        return message_class


APIS: Final = (
    Api(0, "Produce", 9),
    Api(1, "Fetch", 12),
    Api(2, "ListOffsets", 6),
    Api(3, "Metadata", 9),
    Api(4, "LeaderAndIsr", 4),
    Api(5, "StopReplica", 2),
    Api(6, "UpdateMetadata", 6),
    Api(7, "ControlledShutdown", 3),
    Api(8, "OffsetCommit", 8),
    Api(9, "OffsetFetch", 6),
    Api(10, "FindCoordinator", 3),
    Api(11, "JoinGroup", 6),
    Api(12, "Heartbeat", 4),
    Api(13, "LeaveGroup", 4),
    Api(14, "SyncGroup", 4),
    Api(15, "DescribeGroups", 5),
    Api(16, "ListGroups", 3),
    Api(17, "SaslHandshake", None),
    Api(18, "ApiVersions", 3),
    Api(19, "CreateTopics", 5),
    Api(20, "DeleteTopics", 4),
    Api(21, "DeleteRecords", 2),
    Api(22, "InitProducerId", 2),
    Api(23, "OffsetForLeaderEpoch", 4),
    Api(24, "AddPartitionsToTxn", 3),
    Api(25, "AddOffsetsToTxn", 3),
    Api(26, "EndTxn", 3),
    Api(27, "WriteTxnMarkers", 1),
    Api(28, "TxnOffsetCommit", 3),
    Api(29, "DescribeAcls", 2),
    Api(30, "CreateAcls", 2),
    Api(31, "DeleteAcls", 2),
    Api(32, "DescribeConfigs", 4),
    Api(33, "AlterConfigs", 2),
    Api(34, "AlterReplicaLogDirs", 2),
    Api(35, "DescribeLogDirs", 2),
    Api(36, "SaslAuthenticate", 2),
    Api(37, "CreatePartitions", 2),
    Api(38, "CreateDelegationToken", 2),
    Api(39, "RenewDelegationToken", 2),
    Api(40, "ExpireDelegationToken", 2),
    Api(41, "DescribeDelegationToken", 2),
    Api(42, "DeleteGroups", 2),
    Api(43, "ElectLeaders", 2),
    Api(44, "IncrementalAlterConfigs", 1),
    Api(45, "AlterPartitionReassignments", 0),
    Api(46, "ListPartitionReassignments", 0),
    Api(47, "OffsetDelete", None),
    Api(48, "DescribeClientQuotas", 1),
    Api(49, "AlterClientQuotas", 1),
    Api(50, "DescribeUserScramCredentials", 0),
    Api(51, "AlterUserScramCredentials", 0),
    Api(55, "DescribeQuorum", 0),
    Api(56, "AlterPartition", 0),
    Api(57, "UpdateFeatures", 0),
    Api(60, "DescribeCluster", 0),
    Api(61, "DescribeProducers", 0),
    Api(64, "UnregisterBroker", 0),
    Api(65, "DescribeTransactions", 0),
    Api(66, "ListTransactions", 0),
    Api(67, "AllocateProducerIds", 0),
    Api(68, "ConsumerGroupHeartbeat", 0),
    Api(69, "ConsumerGroupDescribe", 0),
    Api(71, "GetTelemetrySubscriptions", 0),
    Api(72, "PushTelemetry", 0),
    Api(74, "ListConfigResources", 0),
    Api(75, "DescribeTopicPartitions", 0),
    Api(76, "ShareGroupHeartbeat", 0),
    Api(77, "ShareGroupDescribe", 0),
    Api(78, "ShareFetch", 0),
    Api(79, "ShareAcknowledge", 0),
    Api(80, "AddRaftVoter", 0),
    Api(81, "RemoveRaftVoter", 0),
    Api(83, "InitializeShareGroupState", 0),
    Api(84, "ReadShareGroupState", 0),
    Api(85, "WriteShareGroupState", 0),
    Api(86, "DeleteShareGroupState", 0),
    Api(87, "ReadShareGroupStateSummary", 0),
    Api(88, "StreamsGroupHeartbeat", 0),
    Api(89, "StreamsGroupDescribe", 0),
    Api(90, "DescribeShareGroupOffsets", 0),
    Api(91, "AlterShareGroupOffsets", 0),
    Api(92, "DeleteShareGroupOffsets", 0),
)
"""Every declared API, in the order of their numbers."""

NOT_DECLARED: Final[Mapping[int, str]] = {
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    58: "Envelope",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    70: "ControllerRegistration",
    73: "AssignReplicasToDirs",
    82: "UpdateRaftVoter",
    93: "StreamsGroupTopologyDescriptionUpdate",
    94: "UnregisterController",
}
"""The names of Kafka's APIs that are not in `APIS`, by number. Ottla neither sends nor supports them."""

BY_KEY: Final = {api.key: api for api in APIS}
BY_NAME: Final = {api.name: api for api in APIS}


def api(key: int) -> Api:
    """Return the row of an API. Raises UnsupportedVersionError for an unknown key."""
    entry = BY_KEY.get(key)
    if entry is None:
        raise UnsupportedVersionError(f"no API has the number {key}")
    return entry
