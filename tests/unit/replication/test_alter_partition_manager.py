"""ISR updates to the controller: batched in one request, retried, and with separate results."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.replication import virtual_loop

from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.store.metadata_store import MetadataStoreTimeoutError
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import BrokerConnectionError, IneligibleReplicaError
from ottla.model import TopicPartition
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopicResult,
)
from ottla.replication.alter_partition_manager import AlterPartitionManager
from ottla.replication.isr_state import LeaderState
from ottla.replication.isr_updates import submit_until_settled

OWN, CONTROLLER = 1, 3
P = PartitionImage(OWN, 4, (1, 2), (1,), 7)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = UUID(int=5)


class ControllerConnection:
    """The connection to the controller: every request is encoded and decoded."""

    def __init__(self, *responses: Any) -> None:
        self.responses = list(responses)
        self.requests: list[AlterPartitionRequest] = []
        brokers = {i: BrokerImage(i, (Endpoint("PLAINTEXT", "h", 1),), epoch=90 + i) for i in (1, 2, 3)}
        self.image = ClusterImage("c", controller_id=CONTROLLER, brokers=brokers).with_topics(
            {"t": TopicImage("t", TOPIC_ID, (P, P))}
        )
        self.changes = AlterPartitionManager(OWN, self, lambda: self.image, self.alter)

    async def alter(self, *requests: Any) -> PartitionImage:
        raise AssertionError("another broker is the controller")

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str = "") -> Any:
        assert broker_id == CONTROLLER
        data = bytearray()
        encode(request, version, data)
        self.requests.append(decode(AlterPartitionRequest, memoryview(data), version, 0))
        await asyncio.sleep(0)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        data = bytearray()
        encode(response, version, data)
        return decode(AlterPartitionResponse, memoryview(data), version, 0)


def response(*results: AlterPartitionResult) -> AlterPartitionResponse:
    return AlterPartitionResponse(topics=[AlterPartitionTopicResult(topic_id=TOPIC_ID, partitions=list(results))])


def expanded(index: int) -> AlterPartitionResult:
    return AlterPartitionResult(partition_index=index, leader_id=OWN, leader_epoch=4, isr=[1, 2], partition_epoch=8)


def test_updates_share_a_request_with_their_members_broker_epochs() -> None:
    async def test() -> None:
        rejected = AlterPartitionResult(partition_index=1, error_code=IneligibleReplicaError.code or 0)
        connection = ControllerConnection(response(expanded(0), rejected))
        updates = [asyncio.ensure_future(connection.changes.submit(tp, P, (1, 2), {2: 55})) for tp in (T0, T1)]
        assert await updates[0] == replace(P, isr=(1, 2), state_version=8)
        with pytest.raises(IneligibleReplicaError):
            await updates[1]
        (request,) = connection.requests
        assert (request.broker_id, request.broker_epoch) == (OWN, 91)
        (topic,) = request.topics
        assert [p.partition_index for p in topic.partitions] == [0, 1]
        members = topic.partitions[0].new_isr_with_epochs
        assert [(m.broker_id, m.broker_epoch) for m in members] == [(1, 91), (2, 55)]

    asyncio.run(asyncio.wait_for(test(), 10))


def test_submit_without_an_answer_is_retried() -> None:
    async def test() -> None:
        left_out = response()
        connection = ControllerConnection(
            BrokerConnectionError(), left_out, RuntimeError("a bug"), response(expanded(0))
        )
        assert (await connection.changes.submit(T0, P, (1, 2), {})).isr == (1, 2)
        assert len(connection.requests) == 4

    asyncio.run(asyncio.wait_for(test(), 10))


def test_update_that_the_controller_cannot_write_is_repeated_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class UnreachableController:
        attempts = 0

        async def submit(self, *update: Any) -> PartitionImage:
            self.attempts += 1
            if self.attempts <= 5:
                raise MetadataStoreTimeoutError
            return replace(P, isr=(1, 2))

    async def test() -> None:
        state = LeaderState(P, 0, now=0.0, lag_seconds=30.0)
        state.set_pending((1, 2))
        assert state.pending_isr is not None
        updated = await submit_until_settled(UnreachableController(), T0, state, state.pending_isr)
        assert updated is not None
        assert updated.isr == (1, 2)

    with caplog.at_level(logging.WARNING):
        virtual_loop.run(test())
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"Cannot change the ISR of {T0} to [1, 2]; retrying in ")
