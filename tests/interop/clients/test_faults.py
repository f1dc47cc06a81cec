"""Faults of the pytest plugin with third-party clients, which react to them as they do with Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interop.java_clients import run_java

from ottla.testing.clients import ConsumerFactory, TopicFactory
from ottla.testing.faults import Faults

pytestmark = pytest.mark.interop

NEWEST_JAVA = "4.4.0"
SECONDS = 20.0


def rdkafka_offset(producer: Any, topic: str) -> Any:
    """Send one record, and return its offset or the name of the error."""
    outcomes: list[Any] = []
    producer.produce(
        topic, b"v", on_delivery=lambda error, message: outcomes.append(error.name() if error else message.offset())
    )
    producer.flush(SECONDS)
    return outcomes[0]


def test_librdkafka_sees_lost_responses_errors_and_drops(
    ottla_faults: Faults, ottla_bootstrap_servers: str, ottla_create_topic: TopicFactory
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = ottla_create_topic(partitions=1)
    configs = {"bootstrap.servers": ottla_bootstrap_servers, "enable.idempotence": True, "socket.timeout.ms": 500}
    producer = confluent_kafka.Producer(configs, logger=None)
    ottla_faults.on("Produce", topic=topic).lose_response()
    assert [rdkafka_offset(producer, topic) for _ in range(2)] == [0, 1]
    ottla_faults.on("Produce", topic=topic).drop()
    assert rdkafka_offset(producer, topic) == 2
    ottla_faults.on("Produce", topic=topic).fail("TOPIC_AUTHORIZATION_FAILED")
    assert rdkafka_offset(producer, topic) == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_cannot_commit_for_an_expired_member(
    ottla_faults: Faults, ottla_bootstrap_servers: str, ottla_create_topic: TopicFactory, protocol: str
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = ottla_create_topic(partitions=1)
    configs = {"bootstrap.servers": ottla_bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    assert rdkafka_offset(confluent_kafka.Producer({"bootstrap.servers": ottla_bootstrap_servers}), topic) == 0
    consumer = confluent_kafka.Consumer({**configs, "enable.auto.commit": False, "group.protocol": protocol})
    consumer.subscribe([topic])
    assert consumer.poll(SECONDS).value() == b"v"
    ottla_faults.on("OffsetCommit", group=topic).expire_member()
    with pytest.raises(confluent_kafka.KafkaException, match="UNKNOWN_MEMBER_ID|unknown member"):
        consumer.commit(asynchronous=False)
    consumer.close()


def test_librdkafka_producer_is_fenced(
    ottla_faults: Faults, ottla_bootstrap_servers: str, ottla_create_topic: TopicFactory
) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    topic = ottla_create_topic(partitions=1)
    configs = {"bootstrap.servers": ottla_bootstrap_servers, "transactional.id": topic}
    producer = confluent_kafka.Producer(configs, logger=None)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    assert rdkafka_offset(producer, topic) == 0
    ottla_faults.on("EndTxn", transactional_id=topic).fence_producer()
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        producer.commit_transaction(SECONDS)
    assert failed.value.args[0].code() == confluent_kafka.KafkaError._FENCED


def test_kafka_python_writes_twice_without_idempotence(
    ottla_faults: Faults,
    ottla_bootstrap_servers: str,
    ottla_create_topic: TopicFactory,
    ottla_consumer: ConsumerFactory,
) -> None:
    kafka = pytest.importorskip("kafka")
    topic = ottla_create_topic(partitions=1)
    ottla_faults.on("Produce", topic=topic).lose_response()
    producer = kafka.KafkaProducer(bootstrap_servers=ottla_bootstrap_servers, enable_idempotence=False, retries=5)
    assert producer.send(topic, b"v").get(SECONDS).offset == 1
    producer.close()
    consumer = ottla_consumer(topic, consumer_timeout_ms=200)
    assert [record.value for record in consumer] == [b"v", b"v"]


async def test_aiokafka_continues_after_fetch_errors(
    ottla_faults: Faults, ottla_bootstrap_servers: str, ottla_create_topic: TopicFactory
) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    topic = ottla_create_topic(partitions=1)
    failed = ottla_faults.on("Fetch", topic=topic, times=2).fail("NOT_LEADER_OR_FOLLOWER")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=ottla_bootstrap_servers) as producer:
        await producer.send_and_wait(topic, b"v")
    async with aiokafka.AIOKafkaConsumer(
        topic, bootstrap_servers=ottla_bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert (await anext(consumer)).value == b"v"
    assert failed.hits == 2


def test_java_clients_see_the_faults_of_their_client_ids(
    ottla_faults: Faults, ottla_bootstrap_servers: str, ottla_create_topic: TopicFactory
) -> None:
    topic = ottla_create_topic(partitions=1)
    ottla_faults.on("Produce", client_id="lost").lose_response()
    ottla_faults.on("Produce", client_id="denied").fail("TOPIC_AUTHORIZATION_FAILED")
    ottla_faults.on("EndTxn", client_id="fenced").fence_producer()
    for protocol in ("classic", "consumer"):
        ottla_faults.on("OffsetCommit", client_id=f"expired-{protocol}").expire_member()
    checked = run_java("kafka-clients", NEWEST_JAVA, "Faulty", ottla_bootstrap_servers, topic, with_=["Consumers"])
    assert len(checked) == 6
