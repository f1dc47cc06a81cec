"""Logs are deleted where the controller says so, and only of what this broker does not serve."""

from __future__ import annotations

from pathlib import Path

from tests.unit.broker.asking import Asker, with_broker

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


def test_a_request_that_comes_late_deletes_nothing(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        expected = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.ask(CreateTopicsRequest(topics=[expected], timeout_ms=1000), 5)
        answer = await client.as_broker().ask(request(DELETED), 3)
        assert [p.error_code for p in answer.partition_errors] == [FENCED]
        assert (tmp_path / "t-0").is_dir()
        assert (await client.as_broker().ask(request(0, controller_epoch=0), 3)).error_code == STALE_CONTROLLER

    with_broker(test, tmp_path)


def test_a_log_of_a_topic_that_is_not_served_any_more_is_deleted(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        expected = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        await client.ask(CreateTopicsRequest(topics=[expected], timeout_ms=1000), 5)
        await client.context.metadata_cache.update(lambda image: image.with_topics({}))
        assert (tmp_path / "t-0").is_dir()
        answer = await client.as_broker().ask(request(DELETED), 3)
        assert [p.error_code for p in answer.partition_errors] == [0]
        assert not (tmp_path / "t-0").is_dir()

    with_broker(test, tmp_path)
