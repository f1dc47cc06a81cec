"""StopReplica, which deletes only logs of partitions that this broker does not serve."""

from __future__ import annotations

from pathlib import Path

from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.cluster.image.image_delta import DELETED
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

FENCED, STALE_CONTROLLER = 74, 11


def request(leader_epoch: int, controller_epoch: int = 1) -> StopReplicaRequest:
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=True)
    topics = [StopReplicaTopicState(topic_name="t", partition_states=[state])]
    return StopReplicaRequest(controller_id=1, controller_epoch=controller_epoch, topic_states=topics)


def test_stale_stop_replica_deletes_nothing(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        response = await client.as_broker().request(request(DELETED), 3)
        assert [p.error_code for p in response.partition_errors] == [FENCED]
        assert (tmp_path / "t-0").is_dir()
        assert (await client.as_broker().request(request(0, controller_epoch=0), 3)).error_code == STALE_CONTROLLER

    with_broker(test, tmp_path)


def test_log_of_a_topic_removed_from_the_metadata_is_deleted(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        await client.context.metadata_cache.update(lambda image: image.with_topics({}))
        assert (tmp_path / "t-0").is_dir()
        response = await client.as_broker().request(request(DELETED), 3)
        assert [p.error_code for p in response.partition_errors] == [0]
        assert not (tmp_path / "t-0").is_dir()

    with_broker(test, tmp_path)
