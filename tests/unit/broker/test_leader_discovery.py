"""Responses of the wrong broker name the leader (KIP-951)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.unit.broker import share_group_requests as share
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker

from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.config.broker.listener_config import Endpoint
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)

NOT_LEADER, FENCED, INVALID_REQUEST = 6, 74, 42


def with_other_leader(image: ClusterImage) -> ClusterImage:
    topic = image.topics["t"]
    (p,) = topic.partitions
    elsewhere = replace(p, leader=7, leader_epoch=p.leader_epoch + 1, replicas=(7, *p.replicas))
    brokers = {**image.brokers, 7: BrokerImage(7, (Endpoint("PLAINTEXT", "far", 9097),), "r")}
    image = replace(image, brokers=MappingProxyType(brokers))
    return image.with_topics({**image.topics, "t": replace(topic, partitions=(elsewhere,))})


def test_response_of_wrong_broker_names_leader_and_address(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        await client.context.metadata_cache.update(with_other_leader)
        data = PartitionProduceData(index=0, records=memoryview(batch(b"x")))
        sent = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
        fetch_partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9, current_leader_epoch=0)
        reading = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[fetch_partition])])
        produced = await client.request(sent, 10)
        fetched = await client.request(reading, 12)
        partitions: dict[int, Any] = {
            NOT_LEADER: produced.responses[0].partition_responses[0],
            FENCED: fetched.responses[0].partitions[0],
        }
        for code, partition in partitions.items():
            assert partition.error_code == code
            assert partition.current_leader is not None
            assert partition.current_leader.leader_id == 7
        assert [(n.node_id, n.host, n.port, n.rack) for n in produced.node_endpoints] == [(7, "far", 9097, "r")]

    with_broker(test, tmp_path)


def test_response_to_a_share_consumer_names_the_leader_or_that_it_is_unknown(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await share.prepare(client)
        assert share.acquired(await share.fetch(client, 0)) == [(0, 4, 1)]
        for epoch, leader, endpoints in ((1, 7, [(7, "far", 9097, "r")]), (3, -1, [])):
            await client.context.metadata_cache.update(with_other_leader if leader > 0 else without_leader)
            acknowledged = await client.request(acknowledgement(client, epoch), 2)
            fetched = await share.fetch(client, epoch + 1)
            for response in (acknowledged, fetched):
                (data,) = response.responses[0].partitions
                assert data.error_code == NOT_LEADER
                assert data.current_leader.leader_id == leader
                assert (data.current_leader.leader_epoch < 0) is (leader < 0)
                assert [(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints] == endpoints

    with_broker(test, tmp_path)


def test_response_to_a_share_consumer_with_another_error_names_no_leader(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await share.prepare(client)
        await share.fetch(client, 0)
        (data,) = (await client.request(acknowledgement(client, 1, offset=90), 2)).responses[0].partitions
        assert (data.error_code, data.current_leader.leader_id) == (INVALID_REQUEST, -1)

    with_broker(test, tmp_path)


def without_leader(image: ClusterImage) -> ClusterImage:
    topic = image.topics["t"]
    without = replace(topic, partitions=(replace(topic.partitions[0], leader=-1),))
    return image.with_topics({**image.topics, "t": without})


def acknowledgement(client: BrokerClient, epoch: int, offset: int = 0) -> ShareAcknowledgeRequest:
    batches = share.acknowledgements([(offset, offset, 1)])
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    topic = AcknowledgeTopic(topic_id=client.context.image.topics["t"].id, partitions=[partition])
    return ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=epoch, topics=[topic])
