"""Streams of the 0.8 consumer, and the fetchers that fill them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.unit.client.scripted import ScriptedBroker

from ottla.broker.embedded import Broker
from ottla.legacy import (
    ConsumerConfig,
    ConsumerTimeoutException,
    DefaultDecoder,
    KafkaStream,
    KeyedMessage,
    Message,
    MessageAndOffset,
    MessageSizeTooLargeException,
    Producer,
    ProducerConfig,
)
from ottla.legacy.consumer.consumer_fetcher import ConsumerFetcherManager
from ottla.legacy.consumer.partition_topic_info import INVALID_OFFSET, ChunkQueue, FetchedDataChunk, PartitionTopicInfo
from ottla.model import TopicPartition

OPTIONS = {
    "group.id": "g",
    "zookeeper.connect": "z",
    "auto.offset.reset": "smallest",
    "refresh.leader.backoff.ms": "10",
}


def stream(queue: ChunkQueue, timeout_ms: int = 10_000) -> KafkaStream:
    return KafkaStream(queue, timeout_ms, DefaultDecoder(), DefaultDecoder())


def chunk(info: PartitionTopicInfo, *offsets: int) -> FetchedDataChunk:
    messages = tuple(MessageAndOffset(Message(None, b"%d" % offset), offset) for offset in offsets)
    return FetchedDataChunk(info, info.fetch_offset, messages)


def test_message_counts_as_consumed_when_the_iterator_returns_it() -> None:
    queue = ChunkQueue(2)
    info = PartitionTopicInfo(TopicPartition("t", 0), queue, 0)
    queue.put(chunk(info, 0, 1, 2))
    messages = iter(stream(queue))
    assert (next(messages).message, info.consume_offset) == (b"0", 1)
    info.drop()
    queue.close()
    assert list(messages) == []
    assert info.consume_offset == 1


def test_messages_of_a_compressed_set_before_the_offset_are_skipped() -> None:
    queue = ChunkQueue(2)
    info = PartitionTopicInfo(TopicPartition("t", 0), queue, 5)
    queue.put(chunk(info, 3, 4, 5))
    assert stream(queue).iterator().next().offset == 5


def test_timeout_is_reported_and_reading_can_continue() -> None:
    queue = ChunkQueue(2)
    info = PartitionTopicInfo(TopicPartition("t", 0), queue, 0)
    messages = stream(queue, 10).iterator()
    with pytest.raises(ConsumerTimeoutException):
        messages.has_next()
    queue.put(chunk(info, 0))
    assert messages.has_next()
    assert messages.next().message == b"0"


def test_message_larger_than_a_fetch_is_reported() -> None:
    queue = ChunkQueue(2)
    queue.put(chunk(PartitionTopicInfo(TopicPartition("t", 0), queue, 7)))
    with pytest.raises(MessageSizeTooLargeException, match=r"offset 7.*fetch\.message\.max\.bytes"):
        stream(queue).iterator().next()


def test_put_into_a_full_queue_ends_when_the_partition_is_dropped() -> None:
    queue = ChunkQueue(1)
    info, remaining = (PartitionTopicInfo(TopicPartition("t", p), queue, 0) for p in (0, 1))
    queue.put(chunk(remaining, 0))
    put: list[bool] = []
    thread = threading.Thread(target=lambda: put.append(queue.put(chunk(info, 0))))
    thread.start()
    info.drop()
    queue.clear_dropped()
    thread.join(10)
    assert put == [False]
    actual = queue.poll(0)
    assert actual is not None
    assert actual.info is remaining


@pytest.fixture(scope="module")
def node() -> Iterator[Broker]:
    with Broker() as node:
        yield node


def produce(node: Broker, topic: str, *values: bytes) -> tuple[str, int]:
    """Send messages to partition 0 of a new topic, and return the address of its leader."""
    props = {"metadata.broker.list": node.bootstrap_servers, "request.required.acks": "-1"}
    with Producer[bytes, bytes](ProducerConfig(props)) as producer:
        for value in values:
            producer.send(KeyedMessage(topic, value))
    host, _, port = node.bootstrap_servers.rpartition(":")
    return host, int(port)


def read(address: tuple[str, int], topic: str, offset: int, count: int) -> list[bytes]:
    config = ConsumerConfig(OPTIONS)
    queue = ChunkQueue(2)
    info = PartitionTopicInfo(TopicPartition(topic, 0), queue, offset)
    manager = ConsumerFetcherManager(config, "m", lambda: [address])
    manager.start_connections([info])
    try:
        messages = stream(queue).iterator()
        return [messages.next().message for _ in range(count)]
    finally:
        info.drop()
        queue.close()
        manager.stop_connections()


@pytest.mark.parametrize("offset", [INVALID_OFFSET, 0, 17])
def test_missing_or_out_of_range_offset_is_reset_by_auto_offset_reset(node: Broker, offset: int) -> None:
    topic = f"reset-{offset + 1}"
    assert read(produce(node, topic, b"a", b"b"), topic, offset, 2) == [b"a", b"b"]


def test_stream_continues_at_the_stored_offset(node: Broker) -> None:
    assert read(produce(node, "stored", b"a", b"b"), "stored", 1, 1) == [b"b"]


def test_leader_that_moves_is_looked_up_again(node: Broker) -> None:
    address = produce(node, "moved", b"a")
    with ScriptedBroker() as removed:
        leaders = iter([(removed.host, removed.port), address])
    config = ConsumerConfig(OPTIONS)
    queue = ChunkQueue(2)
    info = PartitionTopicInfo(TopicPartition("moved", 0), queue, 0)
    manager = ConsumerFetcherManager(config, "m", lambda: [next(leaders, address)])
    manager.start_connections([info])
    try:
        assert stream(queue).iterator().next().message == b"a"
    finally:
        info.drop()
        manager.stop_connections()
