"""Records of Apache Kafka's `__cluster_metadata` (KRaft): the types that the import of a Kafka data directory reads.

A record's value is a frame version (1), the number of its type, its version, and the message, all three numbers as
unsigned varints (KIP-631).
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
    """A partition was created, or its state in a snapshot."""

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
    """A partition changed; missing fields are unchanged, as is a leader of -2."""

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
    """An option was set, or removed (None)."""

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
    """The next producer id after a block that a broker has been allocated."""

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
    """The begin of a metadata transaction: the records that follow take effect only when it ends."""

    name: str | None = f.string("0+", nullable="0+", default=None, tag=0)


class EndTransactionRecord(Data, versions="0", flexible="0+"):
    """The end of a metadata transaction: its records take effect."""


class AbortTransactionRecord(Data, versions="0", flexible="0+"):
    """The abort of a metadata transaction: its records have no effect."""

    reason: str | None = f.string("0+", nullable="0+", default=None, tag=0)


RECORDS: dict[int, type[Data]] = {
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    9: RemoveTopicRecord,
    11: UserScramCredentialRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
}
"""The record classes by type number. Other types concern Kafka's own brokers and controllers."""
