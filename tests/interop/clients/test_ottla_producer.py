"""Our producers, synchronous and asynchronous, against our broker and Apache Kafka."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest

from ottla import (
    ConfigResource,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    ProducerRecord,
    TopicPartition,
    aio,
)
from ottla.errors import KafkaError, MessageTooLargeError, ProducerFencedError
from ottla.model import RecordMetadata

pytestmark = pytest.mark.interop

PARTITIONS = 3
TOPIC_RESOURCE = 2


def create_topic(address: str, **options: str) -> str:
    name = f"p-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, topic_configs=options)])
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        # Once this returns, every partition has a leader, so that no record sent with acks=0 is lost.
        consumer.end_offsets([TopicPartition(name, p) for p in range(PARTITIONS)])
    return name


@pytest.fixture
def topic(address: str) -> str:
    return create_topic(address)


def read(address: str, topic: str, count: int, **options: Any) -> list[Any]:
    """Return the first `count` records of a topic, in the order of their partitions and offsets."""
    result: list[Any] = []
    with KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
        consumer.seek_to_beginning()
        for _ in range(300):
            if len(result) >= count:
                break
            result += [row for rows in consumer.poll(timeout_ms=200).values() for row in rows]
    return sorted(result, key=lambda record: (record.partition, record.offset))


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_producer_sends_with_and_without_future_and_callback(address: str, topic: str, acks: Any) -> None:
    reported: list[tuple[RecordMetadata | None, BaseException | None]] = []
    with KafkaProducer(bootstrap_servers=address, acks=acks) as producer:
        producer.send(topic, b"forgotten", partition=1)
        place = producer.send(topic, b"waited for", partition=1).get(30)
        producer.send(
            ProducerRecord(topic, b"called back", partition=1),
            lambda metadata, error: reported.append((metadata, error)),
        )
        producer.flush(30)
        assert producer.partitions_for(topic) == {0, 1, 2}
    assert (place.topic, place.partition) == (topic, 1)
    assert place.offset == (-1 if acks == 0 else 1)
    ((metadata, error),) = reported
    assert error is None
    assert metadata is not None
    assert metadata.offset == (-1 if acks == 0 else 2)
    assert [r.value for r in read(address, topic, 3)] == [b"forgotten", b"waited for", b"called back"]


def test_key_value_headers_and_timestamp_of_a_record_are_preserved(address: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:
        headers = [("a", b"1"), ("a", b"2"), ("none", None), ("", b"")]
        producer.send(topic, b"v", b"k", headers, partition=2, timestamp_ms=1_700_000_000_123)
        producer.send(topic, None, b"tombstone", partition=2)
        producer.send(topic, b"", None, partition=2)
    first, second, third = read(address, topic, 3)
    assert (first.key, first.value, first.headers) == (b"k", b"v", headers)
    assert (first.partition, first.offset, first.timestamp, first.timestamp_type) == (2, 0, 1_700_000_000_123, 0)
    assert (second.key, second.value) == (b"tombstone", None)
    assert (third.key, third.value) == (None, b"")


def test_log_append_time_is_set_by_the_broker(address: str) -> None:
    topic = create_topic(address, **{"message.timestamp.type": "LogAppendTime"})
    with KafkaProducer(bootstrap_servers=address) as producer:
        place = producer.send(topic, b"v", partition=0, timestamp_ms=1).get(30)
    (record,) = read(address, topic, 1)
    assert place.timestamp == record.timestamp > 1_600_000_000_000
    assert (place.timestamp_type, record.timestamp_type) == (1, 1)


def test_records_of_a_key_stay_in_order_with_five_requests_in_flight(address: str, topic: str) -> None:
    options: dict[str, Any] = {"batch_size": 500, "linger_ms": 0, "max_in_flight_requests_per_connection": 5}
    with KafkaProducer(bootstrap_servers=address, **options) as producer:
        for i in range(5000):
            producer.send(topic, b"%d" % i, b"%d" % (i % 10))
    records = read(address, topic, 5000)
    for key in range(10):
        assert [int(r.value) for r in records if r.key == b"%d" % key] == list(range(key, 5000, 10))


def test_producer_splits_a_batch_that_the_broker_rejects_as_too_large(address: str) -> None:
    topic = create_topic(address, **{"max.message.bytes": "2000"})
    with KafkaProducer(bootstrap_servers=address, batch_size=100_000, linger_ms=1000) as producer:
        futures = [producer.send(topic, b"%0100d" % i, partition=0) for i in range(200)]
        producer.flush(60)
        assert [future.get(0).offset for future in futures] == list(range(200))
        with pytest.raises(MessageTooLargeError):
            producer.send(topic, b"." * 3000, partition=0).get(30)
    assert [int(r.value) for r in read(address, topic, 200)] == list(range(200))


def test_producer_rejects_a_record_larger_than_max_request_size(address: str, topic: str) -> None:
    errors: list[BaseException | None] = []
    with KafkaProducer(bootstrap_servers=address, max_request_size=1000) as producer:
        future = producer.send(ProducerRecord(topic, b"." * 2000), lambda metadata, error: errors.append(error))
        with pytest.raises(MessageTooLargeError, match="max.request.size"):
            future.get(0)
    assert [type(error) for error in errors] == [MessageTooLargeError]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_arrow_columns_are_sent_and_polled(address: str, topic: str, codec: str) -> None:
    pa = pytest.importorskip("pyarrow")
    values = [b"%d" % i if i % 7 else None for i in range(3000)]
    with KafkaProducer(bootstrap_servers=address, compression_type=codec) as producer:
        sent = producer.send_batch(topic, pa.array(values, pa.binary()), [b"k%d" % i for i in range(3000)])
        sent.get(30)
        producer.send_batch(topic, ["one", "two"], partition=0).get(30)
    rows = 0
    with KafkaConsumer(bootstrap_servers=address) as consumer:
        consumer.assign([TopicPartition(topic, p) for p in range(PARTITIONS)])
        consumer.seek_to_beginning()
        result: dict[bytes, bytes | None] = {}
        for _ in range(300):
            for columns in consumer.poll_batch(timeout_ms=200).values():
                rows += columns.rows
                for i in range(columns.rows):
                    key = columns.keys.get(i)
                    if key is not None:
                        result[key] = columns.values.get(i)
            if rows == 3002:
                break
    assert rows == 3002
    assert result == {b"k%d" % i: value for i, value in enumerate(values)}


def test_read_committed_consumer_skips_aborted_transactions(address: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=address, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"first", partition=0)
            producer.send(topic, b"second", partition=1)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            producer.send(topic, b"never", partition=0)
            producer.flush(30)
            raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, b"third", partition=0)
    committed = read(address, topic, 3, isolation_level="read_committed")
    assert [r.value for r in committed] == [b"first", b"third", b"second"]
    assert b"never" in [r.value for r in read(address, topic, 4)]


def test_new_producer_fences_the_previous_one_of_its_transactional_id(address: str, topic: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": address, "transactional_id": topic}
    with KafkaProducer(**options) as old, KafkaProducer(**options) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send(topic, b"half", partition=0)
        old.flush(30)
        new.init_transactions()
        with new.transaction():
            new.send(topic, b"whole", partition=0)
        with pytest.raises(KafkaError) as refused:
            old.send(topic, b"zombie", partition=0)
            old.commit_transaction()
        assert isinstance(refused.value, ProducerFencedError) or refused.value.code is not None
        with pytest.raises(ProducerFencedError):
            old.begin_transaction()
    assert [r.value for r in read(address, topic, 1, isolation_level="read_committed")] == [b"whole"]


def test_threads_share_a_producer(address: str, topic: str) -> None:
    with KafkaProducer(bootstrap_servers=address) as producer:

        def send(thread: int) -> None:
            for i in range(500):
                producer.send(topic, b"%d" % i, b"%d" % thread)

        threads = [threading.Thread(target=send, args=(t,)) for t in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(30)
    records = read(address, topic, 4000)
    for thread_number in range(8):
        assert [int(r.value) for r in records if r.key == b"%d" % thread_number] == list(range(500))


def test_producer_continues_after_topic_is_deleted_and_created_again(address: str, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=address) as admin, KafkaProducer(bootstrap_servers=address) as producer:
        producer.send(topic, b"before", partition=0).get(30)
        admin.delete_topics([topic])
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
        producer.send(topic, b"after", partition=0).get(60)
        producer.send(topic, b"and on", partition=0).get(60)
    assert [r.value for r in read(address, topic, 2)] == [b"after", b"and on"]


def test_producer_uses_added_partitions(address: str, topic: str) -> None:
    options: dict[str, Any] = {"metadata_max_age_ms": 200, "partitioner": "roundrobin"}
    with KafkaAdminClient(bootstrap_servers=address) as admin, KafkaProducer(bootstrap_servers=address, **options) as p:
        p.send(topic, b"v").get(30)
        admin.create_partitions({topic: PARTITIONS + 2})
        for _ in range(300):
            if p.send(topic, b"v").get(30).partition >= PARTITIONS:
                break
        else:
            raise AssertionError("new partitions are not used")
        assert p.send(topic, b"v", partition=PARTITIONS + 1).get(30).partition == PARTITIONS + 1


def test_topic_config_is_described_as_created(address: str) -> None:
    topic = create_topic(address, **{"retention.ms": "123456"})
    with KafkaAdminClient(bootstrap_servers=address) as admin:
        resource = ConfigResource(TOPIC_RESOURCE, topic)
        assert admin.describe_configs([resource])[resource]["retention.ms"].value == "123456"


def test_async_clients_send_and_read_a_transaction(address: str, topic: str) -> None:
    async def run() -> list[tuple[bytes, bytes]]:
        async with aio.KafkaProducer(bootstrap_servers=address, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                futures = [await producer.send(topic, b"%d" % i, key=b"k", partition=i % 3) for i in range(300)]
                await producer.flush()
            assert [(await future).partition for future in futures] == [i % 3 for i in range(300)]
        result: list[tuple[bytes, bytes]] = []
        options: dict[str, Any] = {
            "group_id": topic,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
        }
        async with aio.KafkaConsumer(topic, bootstrap_servers=address, **options) as consumer:
            async for record in consumer:
                result.append((record.key, record.value))
                if len(result) == 300:
                    return result
        raise AssertionError("unreachable")

    actual = asyncio.run(run())
    assert sorted(int(value) for _, value in actual) == list(range(300))
    assert {key for key, _ in actual} == {b"k"}
