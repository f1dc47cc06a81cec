"""Ottla: Kafka, in Python.

Public names are imported when they are first used, so that `import ottla` is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers treat it like typing.TYPE_CHECKING, whose import would take most of the time
if TYPE_CHECKING:
    from ottla.broker.embedded import Broker as Broker
    from ottla.client.admin.admin import KafkaAdminClient as KafkaAdminClient
    from ottla.client.admin.cluster import ClusterDescription as ClusterDescription
    from ottla.client.admin.cluster import FeatureUpdate as FeatureUpdate
    from ottla.client.admin.cluster import UpgradeType as UpgradeType
    from ottla.client.admin.configs import AlterConfigOp as AlterConfigOp
    from ottla.client.admin.configs import ConfigEntry as ConfigEntry
    from ottla.client.admin.configs import ConfigResource as ConfigResource
    from ottla.client.admin.configs import ConfigResourceType as ConfigResourceType
    from ottla.client.admin.configs import ConfigSource as ConfigSource
    from ottla.client.admin.groups.group_descriptions import GroupDescription as GroupDescription
    from ottla.client.admin.groups.group_descriptions import GroupListing as GroupListing
    from ottla.client.admin.groups.group_descriptions import GroupMember as GroupMember
    from ottla.client.admin.groups.group_descriptions import GroupState as GroupState
    from ottla.client.admin.groups.group_descriptions import GroupType as GroupType
    from ottla.client.admin.groups.groups import MemberToRemove as MemberToRemove
    from ottla.client.admin.groups.streams_groups import StreamsGroupDescription as StreamsGroupDescription
    from ottla.client.admin.groups.streams_groups import StreamsGroupMember as StreamsGroupMember
    from ottla.client.admin.groups.streams_groups import StreamsInternalTopic as StreamsInternalTopic
    from ottla.client.admin.groups.streams_groups import StreamsSubtopology as StreamsSubtopology
    from ottla.client.admin.groups.streams_groups import StreamsTasks as StreamsTasks
    from ottla.client.admin.log_dirs import LogDirDescription as LogDirDescription
    from ottla.client.admin.log_dirs import ReplicaInfo as ReplicaInfo
    from ottla.client.admin.log_dirs import ReplicaLogDirInfo as ReplicaLogDirInfo
    from ottla.client.admin.log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from ottla.client.admin.quorum import RaftVoterEndpoint as RaftVoterEndpoint
    from ottla.client.admin.quotas import ClientQuotaAlteration as ClientQuotaAlteration
    from ottla.client.admin.quotas import ClientQuotaFilter as ClientQuotaFilter
    from ottla.client.admin.quotas import ClientQuotaFilterComponent as ClientQuotaFilterComponent
    from ottla.client.admin.security.scram import ScramCredentialInfo as ScramCredentialInfo
    from ottla.client.admin.security.scram import ScramMechanism as ScramMechanism
    from ottla.client.admin.security.scram import UserScramCredentialDeletion as UserScramCredentialDeletion
    from ottla.client.admin.security.scram import UserScramCredentialUpsertion as UserScramCredentialUpsertion
    from ottla.client.admin.topics.delete_records import RecordsToDelete as RecordsToDelete
    from ottla.client.admin.topics.offsets import IsolationLevel as IsolationLevel
    from ottla.client.admin.topics.offsets import ListedOffset as ListedOffset
    from ottla.client.admin.topics.offsets import OffsetSpec as OffsetSpec
    from ottla.client.admin.topics.partitions import ElectionType as ElectionType
    from ottla.client.admin.topics.partitions import NewPartitionReassignment as NewPartitionReassignment
    from ottla.client.admin.topics.partitions import PartitionReassignment as PartitionReassignment
    from ottla.client.admin.topics.topic_partitions import Cursor as Cursor
    from ottla.client.admin.topics.topics import CreatedTopic as CreatedTopic
    from ottla.client.admin.topics.topics import NewPartitions as NewPartitions
    from ottla.client.admin.topics.topics import NewTopic as NewTopic
    from ottla.client.admin.topics.topics import TopicListing as TopicListing
    from ottla.client.admin.transactions import AbortTransactionSpec as AbortTransactionSpec
    from ottla.client.admin.transactions import ProducerState as ProducerState
    from ottla.client.admin.transactions import TransactionDescription as TransactionDescription
    from ottla.client.admin.transactions import TransactionListing as TransactionListing
    from ottla.client.admin.transactions import TransactionState as TransactionState
    from ottla.client.consumer.consumer import KafkaConsumer as KafkaConsumer
    from ottla.client.consumer.group.membership import ConsumerRebalanceListener as ConsumerRebalanceListener
    from ottla.client.consumer.group.membership import GroupMembershipOperation as GroupMembershipOperation
    from ottla.client.consumer.interceptors import ConsumerInterceptor as ConsumerInterceptor
    from ottla.client.consumer.share.acknowledgements import AcknowledgeType as AcknowledgeType
    from ottla.client.consumer.share.acquired_records import ShareConsumerRecord as ShareConsumerRecord
    from ottla.client.consumer.share.share_consumer import KafkaShareConsumer as KafkaShareConsumer
    from ottla.client.consumer.subscription import SubscriptionPattern as SubscriptionPattern
    from ottla.client.kafka_python import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
    from ottla.client.kafka_python import ConfigSourceType as ConfigSourceType
    from ottla.client.kafka_python import DefaultSerializer as DefaultSerializer
    from ottla.client.kafka_python import PartitionProducerState as PartitionProducerState
    from ottla.client.kafka_python import UpdateFeatureType as UpdateFeatureType
    from ottla.client.options.admin import AdminOptions as AdminOptions
    from ottla.client.options.consumer import ConsumerOptions as ConsumerOptions
    from ottla.client.options.producer import ProducerOptions as ProducerOptions
    from ottla.client.options.share_consumer import ShareConsumerOptions as ShareConsumerOptions
    from ottla.client.producer.interceptors import ProducerInterceptor as ProducerInterceptor
    from ottla.client.producer.producer import KafkaProducer as KafkaProducer
    from ottla.client.serializers import Deserializer as Deserializer
    from ottla.client.serializers import Serializer as Serializer
    from ottla.errors import KafkaError as KafkaError
    from ottla.model import ACLOperation as ACLOperation
    from ottla.model import ConsumerGroupMetadata as ConsumerGroupMetadata
    from ottla.model import Node as Node
    from ottla.model import OffsetAndMetadata as OffsetAndMetadata
    from ottla.model import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.model import ProducerRecord as ProducerRecord
    from ottla.model import RecordMetadata as RecordMetadata
    from ottla.model import TopicPartition as TopicPartition
    from ottla.records.consumer_record import ConsumerRecord as ConsumerRecord
    from ottla.security.acl import ACL as ACL
    from ottla.security.acl import ACLFilter as ACLFilter
    from ottla.security.acl import ACLPermissionType as ACLPermissionType
    from ottla.security.acl import ACLResourcePatternType as ACLResourcePatternType
    from ottla.security.acl import ResourcePattern as ResourcePattern
    from ottla.security.acl import ResourcePatternFilter as ResourcePatternFilter
    from ottla.security.acl import ResourceType as ResourceType
    from ottla.serializers import BooleanDeserializer as BooleanDeserializer
    from ottla.serializers import BooleanSerializer as BooleanSerializer
    from ottla.serializers import ByteArrayDeserializer as ByteArrayDeserializer
    from ottla.serializers import ByteArraySerializer as ByteArraySerializer
    from ottla.serializers import ByteBufferDeserializer as ByteBufferDeserializer
    from ottla.serializers import ByteBufferSerializer as ByteBufferSerializer
    from ottla.serializers import BytesDeserializer as BytesDeserializer
    from ottla.serializers import BytesSerializer as BytesSerializer
    from ottla.serializers import DoubleDeserializer as DoubleDeserializer
    from ottla.serializers import DoubleSerializer as DoubleSerializer
    from ottla.serializers import FloatDeserializer as FloatDeserializer
    from ottla.serializers import FloatSerializer as FloatSerializer
    from ottla.serializers import IntegerDeserializer as IntegerDeserializer
    from ottla.serializers import IntegerSerializer as IntegerSerializer
    from ottla.serializers import JsonDeserializer as JsonDeserializer
    from ottla.serializers import JsonSerializer as JsonSerializer
    from ottla.serializers import ListDeserializer as ListDeserializer
    from ottla.serializers import ListSerializer as ListSerializer
    from ottla.serializers import LongDeserializer as LongDeserializer
    from ottla.serializers import LongSerializer as LongSerializer
    from ottla.serializers import ShortDeserializer as ShortDeserializer
    from ottla.serializers import ShortSerializer as ShortSerializer
    from ottla.serializers import StringDeserializer as StringDeserializer
    from ottla.serializers import StringSerializer as StringSerializer
    from ottla.serializers import UUIDDeserializer as UUIDDeserializer
    from ottla.serializers import UUIDSerializer as UUIDSerializer
    from ottla.serializers import VoidDeserializer as VoidDeserializer
    from ottla.serializers import VoidSerializer as VoidSerializer
    from ottla.version import __version__ as __version__

_HOMES = {
    "ACL": "ottla.security.acl",
    "ACLFilter": "ottla.security.acl",
    "ACLOperation": "ottla.model",
    "ACLPermissionType": "ottla.security.acl",
    "ACLResourcePatternType": "ottla.security.acl",
    "AbortTransactionSpec": "ottla.client.admin.transactions",
    "AcknowledgeType": "ottla.client.consumer.share.acknowledgements",
    "AdminOptions": "ottla.client.options.admin",
    "AlterConfigOp": "ottla.client.admin.configs",
    "AsyncConsumerRebalanceListener": "ottla.client.kafka_python",
    "BooleanDeserializer": "ottla.serializers",
    "BooleanSerializer": "ottla.serializers",
    "Broker": "ottla.broker.embedded",
    "ByteArrayDeserializer": "ottla.serializers",
    "ByteArraySerializer": "ottla.serializers",
    "ByteBufferDeserializer": "ottla.serializers",
    "ByteBufferSerializer": "ottla.serializers",
    "BytesDeserializer": "ottla.serializers",
    "BytesSerializer": "ottla.serializers",
    "ClientQuotaAlteration": "ottla.client.admin.quotas",
    "ClientQuotaFilter": "ottla.client.admin.quotas",
    "ClientQuotaFilterComponent": "ottla.client.admin.quotas",
    "ClusterDescription": "ottla.client.admin.cluster",
    "ConfigEntry": "ottla.client.admin.configs",
    "ConfigResource": "ottla.client.admin.configs",
    "ConfigResourceType": "ottla.client.admin.configs",
    "ConfigSource": "ottla.client.admin.configs",
    "ConfigSourceType": "ottla.client.kafka_python",
    "ConsumerGroupMetadata": "ottla.model",
    "ConsumerInterceptor": "ottla.client.consumer.interceptors",
    "ConsumerOptions": "ottla.client.options.consumer",
    "ConsumerRebalanceListener": "ottla.client.consumer.group.membership",
    "ConsumerRecord": "ottla.records.consumer_record",
    "CreatedTopic": "ottla.client.admin.topics.topics",
    "Cursor": "ottla.client.admin.topics.topic_partitions",
    "DefaultSerializer": "ottla.client.kafka_python",
    "Deserializer": "ottla.client.serializers",
    "DoubleDeserializer": "ottla.serializers",
    "DoubleSerializer": "ottla.serializers",
    "ElectionType": "ottla.client.admin.topics.partitions",
    "FeatureUpdate": "ottla.client.admin.cluster",
    "FloatDeserializer": "ottla.serializers",
    "FloatSerializer": "ottla.serializers",
    "GroupDescription": "ottla.client.admin.groups.group_descriptions",
    "GroupListing": "ottla.client.admin.groups.group_descriptions",
    "GroupMember": "ottla.client.admin.groups.group_descriptions",
    "GroupMembershipOperation": "ottla.client.consumer.group.membership",
    "GroupState": "ottla.client.admin.groups.group_descriptions",
    "GroupType": "ottla.client.admin.groups.group_descriptions",
    "IntegerDeserializer": "ottla.serializers",
    "IntegerSerializer": "ottla.serializers",
    "IsolationLevel": "ottla.client.admin.topics.offsets",
    "JsonDeserializer": "ottla.serializers",
    "JsonSerializer": "ottla.serializers",
    "KafkaAdminClient": "ottla.client.admin.admin",
    "KafkaConsumer": "ottla.client.consumer.consumer",
    "KafkaError": "ottla.errors",
    "KafkaProducer": "ottla.client.producer.producer",
    "KafkaShareConsumer": "ottla.client.consumer.share.share_consumer",
    "ListDeserializer": "ottla.serializers",
    "ListSerializer": "ottla.serializers",
    "ListedOffset": "ottla.client.admin.topics.offsets",
    "LogDirDescription": "ottla.client.admin.log_dirs",
    "LongDeserializer": "ottla.serializers",
    "LongSerializer": "ottla.serializers",
    "MemberToRemove": "ottla.client.admin.groups.groups",
    "NewPartitionReassignment": "ottla.client.admin.topics.partitions",
    "NewPartitions": "ottla.client.admin.topics.topics",
    "NewTopic": "ottla.client.admin.topics.topics",
    "Node": "ottla.model",
    "OffsetAndMetadata": "ottla.model",
    "OffsetAndTimestamp": "ottla.model",
    "OffsetSpec": "ottla.client.admin.topics.offsets",
    "PartitionProducerState": "ottla.client.kafka_python",
    "PartitionReassignment": "ottla.client.admin.topics.partitions",
    "ProducerInterceptor": "ottla.client.producer.interceptors",
    "ProducerOptions": "ottla.client.options.producer",
    "ProducerRecord": "ottla.model",
    "ProducerState": "ottla.client.admin.transactions",
    "RaftVoterEndpoint": "ottla.client.admin.quorum",
    "RecordMetadata": "ottla.model",
    "RecordsToDelete": "ottla.client.admin.topics.delete_records",
    "ReplicaInfo": "ottla.client.admin.log_dirs",
    "ReplicaLogDirInfo": "ottla.client.admin.log_dirs",
    "ResourcePattern": "ottla.security.acl",
    "ResourcePatternFilter": "ottla.security.acl",
    "ResourceType": "ottla.security.acl",
    "ScramCredentialInfo": "ottla.client.admin.security.scram",
    "ScramMechanism": "ottla.client.admin.security.scram",
    "Serializer": "ottla.client.serializers",
    "ShareConsumerOptions": "ottla.client.options.share_consumer",
    "ShareConsumerRecord": "ottla.client.consumer.share.acquired_records",
    "ShortDeserializer": "ottla.serializers",
    "ShortSerializer": "ottla.serializers",
    "StreamsGroupDescription": "ottla.client.admin.groups.streams_groups",
    "StreamsGroupMember": "ottla.client.admin.groups.streams_groups",
    "StreamsInternalTopic": "ottla.client.admin.groups.streams_groups",
    "StreamsSubtopology": "ottla.client.admin.groups.streams_groups",
    "StreamsTasks": "ottla.client.admin.groups.streams_groups",
    "StringDeserializer": "ottla.serializers",
    "StringSerializer": "ottla.serializers",
    "SubscriptionPattern": "ottla.client.consumer.subscription",
    "TopicListing": "ottla.client.admin.topics.topics",
    "TopicPartition": "ottla.model",
    "TopicPartitionReplica": "ottla.client.admin.log_dirs",
    "TransactionDescription": "ottla.client.admin.transactions",
    "TransactionListing": "ottla.client.admin.transactions",
    "TransactionState": "ottla.client.admin.transactions",
    "UUIDDeserializer": "ottla.serializers",
    "UUIDSerializer": "ottla.serializers",
    "UpdateFeatureType": "ottla.client.kafka_python",
    "UpgradeType": "ottla.client.admin.cluster",
    "UserScramCredentialDeletion": "ottla.client.admin.security.scram",
    "UserScramCredentialUpsertion": "ottla.client.admin.security.scram",
    "VoidDeserializer": "ottla.serializers",
    "VoidSerializer": "ottla.serializers",
}
"""The module that each public name is imported from."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = "ottla.version" if name == "__version__" else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
