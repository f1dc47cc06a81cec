"""Producer ids that brokers of Apache Kafka ask the controller for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.broker.asking import Asker, with_broker

from ottla.errors import BrokerIdNotRegisteredError, NotControllerError, StaleBrokerEpochError
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest


def test_registered_broker_gets_a_block_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        own = client.context.image.brokers[client.context.broker_id]

        async def ask(broker_id: int, epoch: int) -> tuple[int, range]:
            answer = await client.as_broker().ask(
                AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch), 0
            )
            first = answer.producer_id_start
            return answer.error_code, range(first, first + answer.producer_id_len)

        code, block = await ask(own.id, own.epoch)
        assert (code, len(block)) == (0, 1000)
        _, other = await ask(own.id, own.epoch)
        assert not set(block) & set(other)
        assert await client.context.producer_ids.next_id() not in {*block, *other}
        assert (await ask(own.id, own.epoch - 1))[0] == StaleBrokerEpochError.code
        assert (await ask(own.id + 1, own.epoch))[0] == BrokerIdNotRegisteredError.code
        monkeypatch.setattr(type(client.context.controller), "is_active", False)
        assert (await ask(own.id, own.epoch))[0] == NotControllerError.code
        monkeypatch.undo()

    with_broker(test, tmp_path)
