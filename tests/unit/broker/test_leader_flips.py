"""An idempotent producer with several batches in flight while leadership moves away and returns."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker

from ottla.broker.handlers import produce
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import (
    InvalidProducerEpochError,
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.replication import leader_replica
from ottla.replication.partition import Partition

OTHER = 7
NOT_LEADER = NotLeaderOrFollowerError.code
OUT_OF_ORDER = OutOfOrderSequenceNumberError.code


async def with_topic(client: BrokerClient, **state: Any) -> Partition:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    if state:
        await change(client, **state)
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    return partition


async def change(client: BrokerClient, **state: Any) -> None:
    """Change the state of the partition, as the controller does."""

    def changed(image: ClusterImage) -> ClusterImage:
        topic = image.topics["t"]
        (p,) = topic.partitions
        p = replace(p, leader_epoch=p.leader_epoch + ("leader" in state), state_version=p.state_version + 1, **state)
        other = BrokerImage(OTHER, (Endpoint("PLAINTEXT", "far", 9097),), "r")
        image = replace(image, brokers=MappingProxyType({**image.brokers, OTHER: other}))
        return image.with_topics({"t": replace(topic, partitions=(p,))})

    await client.context.metadata_cache.update(changed)


async def write(client: BrokerClient, sequence: int, timeout_ms: int = 10_000, epoch: int = 0) -> int:
    """Produce one record, and return the error code."""
    return (await response_to_write(client, sequence, timeout_ms, epoch)).error_code


async def response_to_write(
    client: BrokerClient, sequence: int, timeout_ms: int, epoch: int = 0
) -> PartitionProduceResponse:
    records = memoryview(batch(b"v", producer_id=1, producer_epoch=epoch, base_sequence=sequence))
    data = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[data])
    response = await client.request(ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic]), 8)
    return response.responses[0].partition_responses[0]


def test_batches_behind_one_rejected_by_a_resigned_leader_get_the_same_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await with_topic(client)
        assert await write(client, 0) == 0
        await change(client, leader=OTHER)
        assert await write(client, 1) == NOT_LEADER
        await change(client, leader=0)
        assert [await write(client, s) for s in (2, 3)] == [NOT_LEADER] * 2
        assert [await write(client, s) for s in (1, 2, 3)] == [0] * 3
        assert await write(client, 5) == OUT_OF_ORDER

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batches_behind_one_appended_although_rejected_are_accepted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        partition = await with_topic(client, replicas=(0, OTHER), isr=(0, OTHER))
        first = asyncio.create_task(write(client, 0))
        await asyncio.sleep(0)
        assert partition.log.log_end_offset == 1
        await change(client, leader=OTHER)
        assert await first == NOT_LEADER
        await change(client, leader=0, isr=(0,))
        assert await write(client, 1) == 0
        assert await write(client, 0) == 0, "the producer sends it again"
        assert partition.log.log_end_offset == 2

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batches_behind_a_truncated_one_get_the_same_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        partition = await with_topic(client, replicas=(0, OTHER), isr=(0, OTHER))
        first = asyncio.create_task(write(client, 0))
        await asyncio.sleep(0)
        await change(client, leader=OTHER)
        assert await first == NOT_LEADER
        partition.log.truncate_to(0)
        await change(client, leader=0, isr=(0,))
        assert await write(client, 1) == NOT_LEADER
        assert [await write(client, s) for s in (0, 1)] == [0, 0]

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batches_behind_one_without_enough_replicas_get_the_same_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await with_topic(client, replicas=(0, OTHER), isr=(0,))
        assert await write(client, 0) == NotEnoughReplicasError.code
        await change(client, replicas=(0,))
        assert await write(client, 1) == NotEnoughReplicasError.code
        assert [await write(client, s) for s in (0, 1)] == [0, 0]

    with_broker(test, tmp_path, min_insync_replicas=2, controlled_shutdown_enable="false")


def test_batch_is_appended_but_rejected_if_the_isr_shrinks_below_min_insync_replicas(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await with_topic(client, replicas=(0, OTHER), isr=(0, OTHER))
        first = asyncio.create_task(write(client, 0))
        await asyncio.sleep(0)
        await change(client, isr=(0,))
        assert await first == NotEnoughReplicasAfterAppendError.code
        await change(client, replicas=(0,))
        assert [await write(client, s) for s in (1, 0, 2)] == [0] * 3

    with_broker(test, tmp_path, min_insync_replicas=2, controlled_shutdown_enable="false")


def test_batches_behind_one_for_an_unknown_topic_get_the_same_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        assert await write(client, 0) == UnknownTopicOrPartitionError.code
        await with_topic(client)
        assert await write(client, 1) == UnknownTopicOrPartitionError.code
        assert [await write(client, s) for s in (0, 1)] == [0, 0]

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batches_behind_one_that_timed_out_are_accepted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await with_topic(client, replicas=(0, OTHER), isr=(0, OTHER))
        assert await write(client, 0, timeout_ms=1) == RequestTimedOutError.code
        await change(client, replicas=(0,), isr=(0,))
        assert await write(client, 1) == 0

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batches_behind_one_on_a_failed_disk_get_the_same_error(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        partition = await with_topic(client)
        partition._closed = partition._failed = True
        assert await write(client, 0) == KafkaStorageError.code
        partition._closed = partition._failed = False
        assert await write(client, 1) == KafkaStorageError.code
        assert [await write(client, s) for s in (0, 1)] == [0, 0]

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batch_that_may_have_overtaken_one_at_the_previous_leader_has_to_be_sent_again(tmp_path: Path) -> None:
    """librdkafka sends it while the earlier one still waits for the response of the previous leader."""

    async def test(client: BrokerClient) -> None:
        partition = await with_topic(client, leader=OTHER, replicas=(0, OTHER), isr=(0, OTHER))
        await change(client, leader=0, isr=(0,))
        assert await write(client, 1) == NotEnoughReplicasError.code, "the log does not know the producer"
        assert await write(client, 0) == 0
        await change(client, leader=OTHER)
        await change(client, leader=0, isr=(0,))
        assert [await write(client, s) for s in (2, 3)] == [NotEnoughReplicasError.code] * 2
        assert [await write(client, s) for s in (1, 2, 3)] == [0] * 3
        assert await write(client, 5) == NotEnoughReplicasError.code, "outdated metadata may have led to the old leader"
        assert await write(client, 1, epoch=1) == NotEnoughReplicasError.code
        assert await write(client, 0, epoch=1) == 0
        assert await write(client, 9) == InvalidProducerEpochError.code
        assert partition.log.log_end_offset == 5

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_batch_is_out_of_order_if_no_earlier_one_can_be_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_replica, "OVERTAKING_SECONDS", 0.0)

    async def test(client: BrokerClient) -> None:
        await with_topic(client, leader=OTHER, replicas=(0, OTHER), isr=(0, OTHER))
        await change(client, leader=0, isr=(0,))
        assert await write(client, 0) == 0
        await change(client, leader=OTHER)
        await change(client, leader=0, isr=(0,))
        assert await write(client, 2) == OUT_OF_ORDER

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


async def fetch_as_follower(client: BrokerClient, session_id: int = 0, epoch: int = 0) -> int:
    """Fetch as the other replica from the end of the log, and return the id of the fetch session."""
    partition = client.context.partitions.get(TopicPartition("t", 0))
    assert partition is not None
    end = partition.log.log_end_offset
    leader_epoch = partition.image.leader_epoch
    fetch_partition = FetchPartition(
        partition=0, current_leader_epoch=leader_epoch, fetch_offset=end, log_start_offset=0, partition_max_bytes=1000
    )
    topics = [FetchTopic(topic="t", partitions=[fetch_partition])] if epoch == 0 else []
    request = FetchRequest(
        replica_id=OTHER, max_wait_ms=500, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=topics
    )
    response = await client.as_broker().request(request, 11)
    assert response.error_code == 0
    return response.session_id


def test_out_of_order_sequence_at_an_unconfirmed_leader_returns_not_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a broker that was paused: another one leads, and has the batches that are missing here
    monkeypatch.setattr(produce, "CONFIRM_SECONDS", 0.05)
    monkeypatch.setattr(leader_replica, "OVERTAKING_SECONDS", 0.0)

    async def test(client: BrokerClient) -> None:
        await with_topic(client)
        assert await write(client, 0) == 0
        await change(client, leader=0, replicas=(0, OTHER), isr=(0, OTHER))
        assert await write(client, 5) == NOT_LEADER
        await change(client, isr=(0,))
        await change(client, replicas=(0,))
        assert await write(client, 1) == 0

    with_broker(test, tmp_path, controlled_shutdown_enable="false")


def test_out_of_order_sequence_is_returned_after_the_next_fetch_of_the_followers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "CONFIRM_SECONDS", 60.0)
    monkeypatch.setattr(leader_replica, "OVERTAKING_SECONDS", 0.0)

    async def test(client: BrokerClient) -> None:
        await with_topic(client)
        assert await write(client, 0) == 0
        await change(client, leader=0, replicas=(0, OTHER), isr=(0, OTHER))
        expired = await response_to_write(client, 5, timeout_ms=0)
        assert expired.error_code == RequestTimedOutError.code
        assert expired.error_message is not None
        assert "the followers have not confirmed within timeout.ms=0 that this broker leads" in expired.error_message
        session = await fetch_as_follower(client)
        waiting = asyncio.create_task(fetch_as_follower(client, session, 1))
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()
        rejected = asyncio.create_task(write(client, 5))
        await waiting
        assert asyncio.get_running_loop().time() - began < 0.4, "the follower is answered at once"
        assert not rejected.done(), "that fetch may have waited while this broker was paused"
        await fetch_as_follower(client, session, 2)
        assert await rejected == OUT_OF_ORDER
        stats = client.context.partitions.topic_stats.get("t")
        assert (stats.produce_requests, stats.failed_produce_requests, stats.invalid_offset_or_sequence) == (3, 2, 2)

    with_broker(test, tmp_path, controlled_shutdown_enable="false")
