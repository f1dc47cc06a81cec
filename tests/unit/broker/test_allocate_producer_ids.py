"""AllocateProducerIds, which brokers of Apache Kafka send to the controller."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.errors import BrokerIdNotRegisteredError, NotControllerError, StaleBrokerEpochError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest


def test_registered_broker_gets_its_own_block_of_producer_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        own = client.context.image.brokers[client.context.broker_id]

        async def allocate(broker_id: int, epoch: int) -> tuple[int, range]:
            response = await client.as_broker().request(
                AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch), 0
            )
            first = response.producer_id_start
            return response.error_code, range(first, first + response.producer_id_len)

        code, block = await allocate(own.id, own.epoch)
        assert (code, len(block)) == (0, 1000)
        _, other = await allocate(own.id, own.epoch)
        assert not set(block) & set(other)
        assert await client.context.producer_ids.next_id() not in {*block, *other}
        assert (await allocate(own.id, own.epoch - 1))[0] == StaleBrokerEpochError.code
        assert (await allocate(own.id + 1, own.epoch))[0] == BrokerIdNotRegisteredError.code
        monkeypatch.setattr(type(client.context.controller), "is_active", False)
        assert (await allocate(own.id, own.epoch))[0] == NotControllerError.code
        monkeypatch.undo()

    with_broker(test, tmp_path)
