"""Clients for asyncio, with the names of the synchronous clients.

    async with ottla.aio.KafkaProducer(bootstrap_servers="localhost:9092") as producer:
        metadata = await (await producer.send("topic", b"value"))

    async with ottla.aio.KafkaConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as consumer:
        async for record in consumer:
            print(record.value)

Configs and behaviour are those of the synchronous clients, but methods that wait are coroutines. These clients run on
the caller's event loop, not in an I/O thread.
"""

from __future__ import annotations

from ottla.client.admin.async_admin import KafkaAdminClient
from ottla.client.admin.configs import ConfigResource
from ottla.client.admin.topics.topics import NewPartitions, NewTopic
from ottla.client.consumer.async_consumer import KafkaConsumer
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.client.consumer.share.async_share_consumer import KafkaShareConsumer
from ottla.client.producer.async_producer import KafkaProducer
from ottla.model import ProducerRecord, TopicPartition
from ottla.records.consumer_record import ConsumerRecord

__all__ = [
    "ConfigResource",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaShareConsumer",
    "NewPartitions",
    "NewTopic",
    "ProducerRecord",
    "TopicPartition",
]
