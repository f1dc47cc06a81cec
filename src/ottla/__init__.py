"""Ottla: Kafka, in Python.

Names are imported when they are first used, so that `import ottla` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # what type checkers take for typing's; importing typing would take most of the time here
if TYPE_CHECKING:
    from ottla.broker.embedded import Broker as Broker
    from ottla.client.admin import KafkaAdminClient as KafkaAdminClient
    from ottla.client.admin_acls import ACL as ACL
    from ottla.client.admin_acls import ACLFilter as ACLFilter
    from ottla.client.admin_acls import ACLPermissionType as ACLPermissionType
    from ottla.client.admin_acls import ACLResourcePatternType as ACLResourcePatternType
    from ottla.client.admin_acls import ResourcePattern as ResourcePattern
    from ottla.client.admin_acls import ResourcePatternFilter as ResourcePatternFilter
    from ottla.client.admin_acls import ResourceType as ResourceType
    from ottla.client.admin_cluster import ClusterDescription as ClusterDescription
    from ottla.client.admin_cluster import FeatureUpdate as FeatureUpdate
    from ottla.client.admin_cluster import UpgradeType as UpgradeType
    from ottla.client.admin_configs import AlterConfigOp as AlterConfigOp
    from ottla.client.admin_configs import ConfigEntry as ConfigEntry
    from ottla.client.admin_configs import ConfigResource as ConfigResource
    from ottla.client.admin_configs import ConfigResourceType as ConfigResourceType
    from ottla.client.admin_configs import ConfigSource as ConfigSource
    from ottla.client.admin_group_descriptions import GroupDescription as GroupDescription
    from ottla.client.admin_group_descriptions import GroupListing as GroupListing
    from ottla.client.admin_group_descriptions import GroupMember as GroupMember
    from ottla.client.admin_group_descriptions import GroupState as GroupState
    from ottla.client.admin_group_descriptions import GroupType as GroupType
    from ottla.client.admin_groups import MemberToRemove as MemberToRemove
    from ottla.client.admin_log_dirs import LogDirDescription as LogDirDescription
    from ottla.client.admin_log_dirs import ReplicaInfo as ReplicaInfo
    from ottla.client.admin_log_dirs import ReplicaLogDirInfo as ReplicaLogDirInfo
    from ottla.client.admin_log_dirs import TopicPartitionReplica as TopicPartitionReplica
    from ottla.client.admin_offsets import IsolationLevel as IsolationLevel
    from ottla.client.admin_offsets import ListedOffset as ListedOffset
    from ottla.client.admin_offsets import OffsetSpec as OffsetSpec
    from ottla.client.admin_partitions import ElectionType as ElectionType
    from ottla.client.admin_partitions import NewPartitionReassignment as NewPartitionReassignment
    from ottla.client.admin_partitions import PartitionReassignment as PartitionReassignment
    from ottla.client.admin_quorum import RaftVoterEndpoint as RaftVoterEndpoint
    from ottla.client.admin_quotas import ClientQuotaAlteration as ClientQuotaAlteration
    from ottla.client.admin_quotas import ClientQuotaFilter as ClientQuotaFilter
    from ottla.client.admin_quotas import ClientQuotaFilterComponent as ClientQuotaFilterComponent
    from ottla.client.admin_records import RecordsToDelete as RecordsToDelete
    from ottla.client.admin_scram import ScramCredentialInfo as ScramCredentialInfo
    from ottla.client.admin_scram import ScramMechanism as ScramMechanism
    from ottla.client.admin_scram import UserScramCredentialDeletion as UserScramCredentialDeletion
    from ottla.client.admin_scram import UserScramCredentialUpsertion as UserScramCredentialUpsertion
    from ottla.client.admin_topic_pages import Cursor as Cursor
    from ottla.client.admin_topics import CreatedTopic as CreatedTopic
    from ottla.client.admin_topics import NewPartitions as NewPartitions
    from ottla.client.admin_topics import NewTopic as NewTopic
    from ottla.client.admin_topics import TopicListing as TopicListing
    from ottla.client.admin_transactions import AbortTransactionSpec as AbortTransactionSpec
    from ottla.client.admin_transactions import ProducerState as ProducerState
    from ottla.client.admin_transactions import TransactionDescription as TransactionDescription
    from ottla.client.admin_transactions import TransactionListing as TransactionListing
    from ottla.client.admin_transactions import TransactionState as TransactionState
    from ottla.client.consumer import KafkaConsumer as KafkaConsumer
    from ottla.client.consumer_interceptors import ConsumerInterceptor as ConsumerInterceptor
    from ottla.client.kafka_python import AsyncConsumerRebalanceListener as AsyncConsumerRebalanceListener
    from ottla.client.kafka_python import ConfigSourceType as ConfigSourceType
    from ottla.client.kafka_python import DefaultSerializer as DefaultSerializer
    from ottla.client.kafka_python import JsonSerializer as JsonSerializer
    from ottla.client.kafka_python import PartitionProducerState as PartitionProducerState
    from ottla.client.kafka_python import UpdateFeatureType as UpdateFeatureType
    from ottla.client.member import ConsumerRebalanceListener as ConsumerRebalanceListener
    from ottla.client.member import GroupMembershipOperation as GroupMembershipOperation
    from ottla.client.producer import KafkaProducer as KafkaProducer
    from ottla.client.producer_core import ProducerRecord as ProducerRecord
    from ottla.client.producer_interceptors import ProducerInterceptor as ProducerInterceptor
    from ottla.client.records import ConsumerRecord as ConsumerRecord
    from ottla.client.serializers import Deserializer as Deserializer
    from ottla.client.serializers import Serializer as Serializer
    from ottla.client.subscription import SubscriptionPattern as SubscriptionPattern
    from ottla.errors import KafkaError as KafkaError
    from ottla.model import ACLOperation as ACLOperation
    from ottla.model import ConsumerGroupMetadata as ConsumerGroupMetadata
    from ottla.model import Node as Node
    from ottla.model import OffsetAndMetadata as OffsetAndMetadata
    from ottla.model import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.model import RecordMetadata as RecordMetadata
    from ottla.model import TopicPartition as TopicPartition

_HOMES = {
    "ACL": "ottla.client.admin_acls",
    "ACLFilter": "ottla.client.admin_acls",
    "ACLOperation": "ottla.model",
    "ACLPermissionType": "ottla.client.admin_acls",
    "ACLResourcePatternType": "ottla.client.admin_acls",
    "AbortTransactionSpec": "ottla.client.admin_transactions",
    "AlterConfigOp": "ottla.client.admin_configs",
    "AsyncConsumerRebalanceListener": "ottla.client.kafka_python",
    "Broker": "ottla.broker.embedded",
    "ClientQuotaAlteration": "ottla.client.admin_quotas",
    "ClientQuotaFilter": "ottla.client.admin_quotas",
    "ClientQuotaFilterComponent": "ottla.client.admin_quotas",
    "ClusterDescription": "ottla.client.admin_cluster",
    "ConfigEntry": "ottla.client.admin_configs",
    "ConfigResource": "ottla.client.admin_configs",
    "ConfigResourceType": "ottla.client.admin_configs",
    "ConfigSource": "ottla.client.admin_configs",
    "ConfigSourceType": "ottla.client.kafka_python",
    "ConsumerGroupMetadata": "ottla.model",
    "ConsumerInterceptor": "ottla.client.consumer_interceptors",
    "ConsumerRebalanceListener": "ottla.client.member",
    "ConsumerRecord": "ottla.client.records",
    "CreatedTopic": "ottla.client.admin_topics",
    "Cursor": "ottla.client.admin_topic_pages",
    "DefaultSerializer": "ottla.client.kafka_python",
    "Deserializer": "ottla.client.serializers",
    "ElectionType": "ottla.client.admin_partitions",
    "FeatureUpdate": "ottla.client.admin_cluster",
    "GroupDescription": "ottla.client.admin_group_descriptions",
    "GroupListing": "ottla.client.admin_group_descriptions",
    "GroupMember": "ottla.client.admin_group_descriptions",
    "GroupMembershipOperation": "ottla.client.member",
    "GroupState": "ottla.client.admin_group_descriptions",
    "GroupType": "ottla.client.admin_group_descriptions",
    "IsolationLevel": "ottla.client.admin_offsets",
    "JsonSerializer": "ottla.client.kafka_python",
    "KafkaAdminClient": "ottla.client.admin",
    "KafkaConsumer": "ottla.client.consumer",
    "KafkaError": "ottla.errors",
    "KafkaProducer": "ottla.client.producer",
    "ListedOffset": "ottla.client.admin_offsets",
    "LogDirDescription": "ottla.client.admin_log_dirs",
    "MemberToRemove": "ottla.client.admin_groups",
    "NewPartitionReassignment": "ottla.client.admin_partitions",
    "NewPartitions": "ottla.client.admin_topics",
    "NewTopic": "ottla.client.admin_topics",
    "Node": "ottla.model",
    "OffsetAndMetadata": "ottla.model",
    "OffsetAndTimestamp": "ottla.model",
    "OffsetSpec": "ottla.client.admin_offsets",
    "PartitionProducerState": "ottla.client.kafka_python",
    "PartitionReassignment": "ottla.client.admin_partitions",
    "ProducerInterceptor": "ottla.client.producer_interceptors",
    "ProducerRecord": "ottla.client.producer_core",
    "ProducerState": "ottla.client.admin_transactions",
    "RaftVoterEndpoint": "ottla.client.admin_quorum",
    "RecordMetadata": "ottla.model",
    "RecordsToDelete": "ottla.client.admin_records",
    "ReplicaInfo": "ottla.client.admin_log_dirs",
    "ReplicaLogDirInfo": "ottla.client.admin_log_dirs",
    "ResourcePattern": "ottla.client.admin_acls",
    "ResourcePatternFilter": "ottla.client.admin_acls",
    "ResourceType": "ottla.client.admin_acls",
    "ScramCredentialInfo": "ottla.client.admin_scram",
    "ScramMechanism": "ottla.client.admin_scram",
    "Serializer": "ottla.client.serializers",
    "SubscriptionPattern": "ottla.client.subscription",
    "TopicListing": "ottla.client.admin_topics",
    "TopicPartition": "ottla.model",
    "TopicPartitionReplica": "ottla.client.admin_log_dirs",
    "TransactionDescription": "ottla.client.admin_transactions",
    "TransactionListing": "ottla.client.admin_transactions",
    "TransactionState": "ottla.client.admin_transactions",
    "UpdateFeatureType": "ottla.client.kafka_python",
    "UpgradeType": "ottla.client.admin_cluster",
    "UserScramCredentialDeletion": "ottla.client.admin_scram",
    "UserScramCredentialUpsertion": "ottla.client.admin_scram",
}
"""Every public name and the module that it comes from."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
