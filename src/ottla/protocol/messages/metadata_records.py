"""Records of Apache Kafka's `__cluster_metadata` (KRaft), for the import of a data directory and `ottla dump-log`.

Except in control batches, a record's value is a frame version (1), the number of its type, its version, and the
message, all three numbers as unsigned varints (KIP-631).
"""

from __future__ import annotations

from uuid import UUID

from ottla.protocol import fields as f
from ottla.protocol.message import Data, Struct


class TopicRecord(Data, versions="0", flexible="0+"):
    """A topic was created."""

    name: str = f.string("0+")
    topic_id: UUID = f.uuid("0+")


class PartitionRecord(Data, versions="0-2", flexible="0+"):
    """A partition was created; in a snapshot, the state of a partition."""

    partition_id: int = f.int32("0+", default=-1)
    topic_id: UUID = f.uuid("0+")
    replicas: list[int] = f.array(f.int32(), "0+")
    isr: list[int] = f.array(f.int32(), "0+")
    removing_replicas: list[int] = f.array(f.int32(), "0+")
    adding_replicas: list[int] = f.array(f.int32(), "0+")
    leader: int = f.int32("0+", default=-1)
    leader_recovery_state: int = f.int8("0+", tag=0)
    leader_epoch: int = f.int32("0+", default=-1)
    partition_epoch: int = f.int32("0+", default=-1)
    directories: list[UUID] = f.array(f.uuid(), "1+")
    eligible_leader_replicas: list[int] | None = f.array(f.int32(), "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = f.array(f.int32(), "2+", nullable="2+", default=None, tag=2)


class PartitionChangeRecord(Data, versions="0-2", flexible="0+"):
    """A partition changed. Fields that have their default are unchanged."""

    partition_id: int = f.int32("0+", default=-1)
    topic_id: UUID = f.uuid("0+")
    isr: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None, tag=0)
    leader: int = f.int32("0+", default=-2, tag=1)
    replicas: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = f.array(f.int32(), "0+", nullable="0+", default=None, tag=4)
    leader_recovery_state: int = f.int8("0+", default=-1, tag=5)
    eligible_leader_replicas: list[int] | None = f.array(f.int32(), "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = f.array(f.int32(), "2+", nullable="2+", default=None, tag=7)
    directories: list[UUID] | None = f.array(f.uuid(), "1+", nullable="1+", default=None, tag=8)


class ConfigRecord(Data, versions="0", flexible="0+"):
    """A config was set, or was removed if the value is None."""

    # As in DescribeConfigs: 2 topic, 4 broker, 16 client metrics, 32 group.
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    name: str = f.string("0+")
    value: str | None = f.string("0+", nullable="0+")


class RemoveTopicRecord(Data, versions="0", flexible="0+"):
    """A topic was deleted."""

    topic_id: UUID = f.uuid("0+")


class UserScramCredentialRecord(Data, versions="0", flexible="0+"):
    """A SCRAM credential was set."""

    name: str = f.string("0+")
    mechanism: int = f.int8("0+")
    salt: bytes = f.binary("0+")
    stored_key: bytes = f.binary("0+")
    server_key: bytes = f.binary("0+")
    iterations: int = f.int32("0+")


class RemoveUserScramCredentialRecord(Data, versions="0", flexible="0+"):
    """A SCRAM credential was removed."""

    name: str = f.string("0+")
    mechanism: int = f.int8("0+")


class QuotaEntity(Struct):
    """One part of the entity that a quota limits."""

    entity_type: str = f.string("0+")
    entity_name: str | None = f.string("0+", nullable="0+")


class ClientQuotaRecord(Data, versions="0", flexible="0+"):
    """A quota was set or removed."""

    entity: list[QuotaEntity] = f.array(QuotaEntity, "0+")
    key: str = f.string("0+")
    value: float = f.float64("0+")
    remove: bool = f.boolean("0+")


class ProducerIdsRecord(Data, versions="0", flexible="0+"):
    """The first producer id after the block that was allocated to a broker."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("0+", default=-1)
    next_producer_id: int = f.int64("0+")


class AccessControlEntryRecord(Data, versions="0", flexible="0+"):
    """An ACL was added."""

    id: UUID = f.uuid("0+")
    resource_type: int = f.int8("0+")
    resource_name: str = f.string("0+")
    pattern_type: int = f.int8("0+")
    principal: str = f.string("0+")
    host: str = f.string("0+")
    operation: int = f.int8("0+")
    permission_type: int = f.int8("0+")


class RemoveAccessControlEntryRecord(Data, versions="0", flexible="0+"):
    """An ACL was removed."""

    id: UUID = f.uuid("0+")


class BeginTransactionRecord(Data, versions="0", flexible="0+"):
    """The beginning of a metadata transaction: the records that follow take effect only when it ends."""

    name: str | None = f.string("0+", nullable="0+", default=None, tag=0)


class EndTransactionRecord(Data, versions="0", flexible="0+"):
    """The end of a metadata transaction: its records take effect."""


class AbortTransactionRecord(Data, versions="0", flexible="0+"):
    """The abort of a metadata transaction: its records have no effect."""

    reason: str | None = f.string("0+", nullable="0+", default=None, tag=0)


class Endpoint(Struct):
    """An address of a broker or controller, by the name of its listener."""

    name: str = f.string("0+")
    host: str = f.string("0+")
    port: int = f.uint16("0+")
    security_protocol: int = f.int16("0+")


class SupportedFeature(Struct):
    """The levels of a feature that a broker or controller supports."""

    name: str = f.string("0+")
    min_supported_version: int = f.int16("0+")
    max_supported_version: int = f.int16("0+")


class RegisterBrokerRecord(Data, versions="0-4", flexible="0+"):
    """A broker was registered."""

    broker_id: int = f.int32("0+")
    is_migrating_zk_broker: bool = f.boolean("2+")
    incarnation_id: UUID = f.uuid("0+")
    broker_epoch: int = f.int64("0+")
    end_points: list[Endpoint] = f.array(Endpoint, "0+")
    features: list[SupportedFeature] = f.array(SupportedFeature, "0+")
    rack: str | None = f.string("0+", nullable="0+")
    fenced: bool = f.boolean("0+", default=True)
    in_controlled_shutdown: bool = f.boolean("1+")
    log_dirs: list[UUID] = f.array(f.uuid(), "3+", tag=0)
    cordoned_log_dirs: list[UUID] | None = f.array(f.uuid(), "4+", nullable="4+", default=None, tag=1)


class UnregisterBrokerRecord(Data, versions="0", flexible="0+"):
    """The registration of a broker was removed."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("0+")


class FenceBrokerRecord(Data, versions="0", flexible="0+"):
    """A broker was fenced: it may not lead partitions. Written before metadata version 3.3."""

    id: int = f.int32("0+")
    epoch: int = f.int64("0+")


class UnfenceBrokerRecord(Data, versions="0", flexible="0+"):
    """A broker was unfenced: it may lead partitions. Written before metadata version 3.3."""

    id: int = f.int32("0+")
    epoch: int = f.int64("0+")


class BrokerRegistrationChangeRecord(Data, versions="0-3", flexible="0+"):
    """The registration of a broker changed. The flags: 1 sets, -1 clears, 0 leaves unchanged."""

    broker_id: int = f.int32("0+")
    broker_epoch: int = f.int64("0+")
    fenced: int = f.int8("0+", tag=0)
    in_controlled_shutdown: int = f.int8("1+", tag=1)
    log_dirs: list[UUID] = f.array(f.uuid(), "2+", tag=2)
    cordoned_log_dirs: list[UUID] | None = f.array(f.uuid(), "3+", nullable="3+", default=None, tag=3)


class DelegationTokenRecord(Data, versions="0", flexible="0+"):
    """A delegation token was created, or its expiry was changed."""

    owner: str = f.string("0+")
    requester: str = f.string("0+")
    renewers: list[str] = f.array(f.string(), "0+")
    issue_timestamp: int = f.int64("0+")
    max_timestamp: int = f.int64("0+")
    expiration_timestamp: int = f.int64("0+")
    token_id: str = f.string("0+")


class RemoveDelegationTokenRecord(Data, versions="0", flexible="0+"):
    """A delegation token was removed."""

    token_id: str = f.string("0+")


class FeatureLevelRecord(Data, versions="0", flexible="0+"):
    """The level of a feature was set; 0: the feature is off."""

    name: str = f.string("0+")
    feature_level: int = f.int16("0+")


class NoOpRecord(Data, versions="0", flexible="0+"):
    """A record without effect, which the active controller writes periodically (KIP-835)."""


class ZkMigrationStateRecord(Data, versions="0", flexible="0+"):
    """The state of a migration from ZooKeeper."""

    zk_migration_state: int = f.int8("0+")


class RegisterControllerRecord(Data, versions="0", flexible="0+"):
    """A controller was registered."""

    controller_id: int = f.int32("0+")
    incarnation_id: UUID = f.uuid("0+")
    zk_migration_ready: bool = f.boolean("0+")
    end_points: list[Endpoint] = f.array(Endpoint, "0+")
    features: list[SupportedFeature] = f.array(SupportedFeature, "0+")


class ClearElrRecord(Data, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic were cleared; those of all topics if the name is empty."""

    topic_name: str = f.string("0+")


RECORDS: dict[int, type[Data]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}
"""The record classes by type number."""


class QuorumVoter(Struct):
    """A controller that votes in the election of a leader."""

    voter_id: int = f.int32("0+")
    voter_directory_id: UUID = f.uuid("1+", ignorable=True)


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """A new leader of the metadata quorum."""

    version: int = f.int16("0+")
    leader_id: int = f.int32("0+")
    voters: list[QuorumVoter] = f.array(QuorumVoter, "0+")
    granting_voters: list[QuorumVoter] = f.array(QuorumVoter, "0+")


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The beginning of a snapshot."""

    version: int = f.int16("0+")
    last_contained_log_timestamp: int = f.int64("0+")


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The end of a snapshot."""

    version: int = f.int16("0+")


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The version of the metadata quorum's protocol."""

    version: int = f.int16("0+")
    k_raft_version: int = f.int16("0+")


class VoterEndpoint(Struct):
    """An address of a controller."""

    name: str = f.string("0+")
    host: str = f.string("0+")
    port: int = f.uint16("0+")


class KRaftVersionFeature(Struct):
    """The versions of the metadata quorum's protocol that a controller supports."""

    min_supported_version: int = f.int16("0+")
    max_supported_version: int = f.int16("0+")


class Voter(Struct):
    """A controller that votes."""

    voter_id: int = f.int32("0+")
    voter_directory_id: UUID = f.uuid("0+")
    endpoints: list[VoterEndpoint] = f.array(VoterEndpoint, "0+")
    k_raft_version_feature: KRaftVersionFeature = f.struct(KRaftVersionFeature, "0+")


class VotersRecord(Data, versions="0", flexible="0+"):
    """The controllers that vote."""

    version: int = f.int16("0+")
    voters: list[Voter] = f.array(Voter, "0+")
