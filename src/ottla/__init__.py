"""Ottla: Kafka, in Python.

Names are imported when they are first used, so that `import ottla` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # what type checkers take for typing's; importing typing would take most of the time here
if TYPE_CHECKING:
    from ottla.broker.embedded import Broker as Broker
    from ottla.client.admin import KafkaAdminClient as KafkaAdminClient
    from ottla.client.admin_model import ConfigResource as ConfigResource
    from ottla.client.admin_model import NewPartitions as NewPartitions
    from ottla.client.admin_model import NewTopic as NewTopic
    from ottla.client.consumer import KafkaConsumer as KafkaConsumer
    from ottla.client.consumer_interceptors import ConsumerInterceptor as ConsumerInterceptor
    from ottla.client.member import ConsumerRebalanceListener as ConsumerRebalanceListener
    from ottla.client.member import GroupMembershipOperation as GroupMembershipOperation
    from ottla.client.producer import KafkaProducer as KafkaProducer
    from ottla.client.producer_core import ProducerRecord as ProducerRecord
    from ottla.client.records import ConsumerRecord as ConsumerRecord
    from ottla.client.subscription import SubscriptionPattern as SubscriptionPattern
    from ottla.errors import KafkaError as KafkaError
    from ottla.model import ConsumerGroupMetadata as ConsumerGroupMetadata
    from ottla.model import Node as Node
    from ottla.model import OffsetAndMetadata as OffsetAndMetadata
    from ottla.model import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.model import RecordMetadata as RecordMetadata
    from ottla.model import TopicPartition as TopicPartition

_HOMES = {
    "Broker": "ottla.broker.embedded",
    "ConfigResource": "ottla.client.admin_model",
    "ConsumerGroupMetadata": "ottla.model",
    "ConsumerInterceptor": "ottla.client.consumer_interceptors",
    "ConsumerRebalanceListener": "ottla.client.member",
    "ConsumerRecord": "ottla.client.records",
    "GroupMembershipOperation": "ottla.client.member",
    "KafkaAdminClient": "ottla.client.admin",
    "KafkaConsumer": "ottla.client.consumer",
    "KafkaError": "ottla.errors",
    "KafkaProducer": "ottla.client.producer",
    "NewPartitions": "ottla.client.admin_model",
    "NewTopic": "ottla.client.admin_model",
    "Node": "ottla.model",
    "OffsetAndMetadata": "ottla.model",
    "OffsetAndTimestamp": "ottla.model",
    "ProducerRecord": "ottla.client.producer_core",
    "RecordMetadata": "ottla.model",
    "SubscriptionPattern": "ottla.client.subscription",
    "TopicPartition": "ottla.model",
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
