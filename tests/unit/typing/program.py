"""A user's program with all public clients, which mypy --strict checks and nothing runs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta

from ottla import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    AlterConfigOp,
    Broker,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConsumerRebalanceListener,
    ConsumerRecord,
    GroupDescription,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaError,
    KafkaProducer,
    ListedOffset,
    NewTopic,
    OffsetAndMetadata,
    OffsetSpec,
    ProducerRecord,
    RecordMetadata,
    ResourcePattern,
    ResourceType,
    TopicPartition,
    aio,
    legacy,
)
from ottla.errors import TopicAlreadyExistsError
from ottla.testing.clients import AsyncConsumerFactory, ProducerFactory, TopicFactory
from ottla.testing.clock import BrokerClock
from ottla.testing.faults import Fault, Faults


def events(metadata: RecordMetadata | None, error: BaseException | None) -> None:
    if metadata is not None:
        print(metadata.topic, metadata.partition, metadata.offset)
    else:
        print(error)


def produce(servers: str) -> int:
    with KafkaProducer(bootstrap_servers=servers, acks="all", linger_ms=20) as producer:
        metadata: RecordMetadata = producer.send("t", b"value", key=b"key", headers=[("h", b"1")]).get(timeout=10)
        producer.send(ProducerRecord("t", b"value", timestamp_ms=1), events)
        producer.flush(10)
        parts: set[int] = producer.partitions_for("t")
        return metadata.offset + len(parts)


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        print(assigned)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        print(revoked)


def consume(servers: str) -> list[bytes]:
    result: list[bytes] = []
    with KafkaConsumer({"bootstrap.servers": servers, "group.id": "g"}) as consumer:
        consumer.subscribe(["t"], listener=Listener())
        records: dict[TopicPartition, list[ConsumerRecord]] = consumer.poll(timeout_ms=100)
        for partition, batch in records.items():
            result += [record.value for record in batch]
            consumer.commit_sync({partition: OffsetAndMetadata(batch[-1].offset + 1)})
            position: int = consumer.position(partition)
            print(position)
        for record in consumer:
            offset: int = record.offset
            print(offset)
            break
    return result


def administer(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        errors_by_topic: dict[object, KafkaError] = {}
        try:
            created = admin.create_topics([NewTopic("t", 3, 1)], errors=errors_by_topic)
            partitions: int = created["t"].num_partitions
        except TopicAlreadyExistsError:
            partitions = len(admin.describe_topics(["t"])["t"].partitions)
        resource = ConfigResource(ConfigResourceType.TOPIC, "t", {"cleanup.policy": (AlterConfigOp.APPEND, "compact")})
        admin.alter_configs([resource])
        entries: dict[str, ConfigEntry] = admin.describe_configs([resource.plain])[resource.plain]
        tp = TopicPartition("t", 0)
        end: ListedOffset = admin.list_offsets({tp: OffsetSpec.latest()})[tp]
        group: GroupDescription = admin.describe_consumer_groups(["g"])["g"]
        cluster: ClusterDescription = admin.describe_cluster()
        pattern = ResourcePattern(ResourceType.TOPIC, "t")
        acls: list[ACL] = admin.create_acls([ACL("User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)])
        print(partitions, entries, end.offset, group.members, cluster.controller, acls)


async def side_by_side(servers: str) -> None:
    async with (
        aio.KafkaProducer(bootstrap_servers=servers) as producer,
        aio.KafkaConsumer("t", bootstrap_servers=servers, group_id="g") as consumer,
        aio.KafkaAdminClient(bootstrap_servers=servers) as admin,
    ):
        metadata: RecordMetadata = await (await producer.send("t", b"value"))
        names: list[str] = await admin.list_topics()
        async for record in consumer:
            print(record.value, metadata.offset, names)
            break


def classic(servers: str) -> None:
    config = legacy.ProducerConfig({"metadata.broker.list": servers})
    with legacy.Producer[str, str](config) as producer:
        producer.send(legacy.KeyedMessage("t", "key", "message"))
    with legacy.SimpleConsumer("localhost", 9092) as consumer:
        response = consumer.fetch(legacy.FetchRequestBuilder().add_fetch("t", 0, 0, 1000).build())
        for batch in response.message_set("t", 0):
            value: bytes | None = batch.message.value
            print(batch.offset, value)


async def use_fixtures(
    ottla_cluster: Broker,
    ottla_producer: ProducerFactory,
    ottla_aio_consumer: AsyncConsumerFactory,
    ottla_create_topic: TopicFactory,
    ottla_faults: Faults,
    ottla_clock: BrokerClock,
) -> None:
    topic: str = ottla_create_topic(partitions=1, replication_factor=3, configs={"retention.ms": "1000"})
    fault: Fault = ottla_faults.on("Produce", topic=topic, nth=2).delay(0.1).fail(TopicAlreadyExistsError)
    producer: KafkaProducer = ottla_producer(acks="all")
    consumer: aio.KafkaConsumer = await ottla_aio_consumer(topic, group_id="g")
    leader: int = ottla_cluster.move_leader(topic)
    ottla_clock.advance(timedelta(hours=1))
    print(fault.hits, producer, consumer, leader)


def main() -> None:
    with Broker() as broker:
        servers: str = broker.bootstrap_servers
        produce(servers)
        consume(servers)
        administer(servers)
        asyncio.run(side_by_side(servers))
        classic(servers)
