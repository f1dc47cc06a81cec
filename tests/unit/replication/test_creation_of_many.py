"""Creation of thousands of partitions by one request: other tasks run in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker

from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.replication.partitions import CREATIONS_AT_ONCE
from ottla.storage.log_dir import LogDir

PARTITIONS = 5 * CREATIONS_AT_ONCE


def test_other_tasks_run_while_many_logs_are_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 0
    created_per_turn: Counter[int] = Counter()
    create = LogDir.create

    def count(directory: LogDir, *arguments: Any) -> Any:
        created_per_turn[turn] += 1
        return create(directory, *arguments)

    async def take_turns() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def test(client: BrokerClient) -> None:
        monkeypatch.setattr(LogDir, "create", count)
        turns = asyncio.create_task(take_turns())
        topic = CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)
        response = await client.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
        turns.cancel()
        assert [topic.error_code for topic in response.topics] == [0]
        assert created_per_turn.total() == PARTITIONS
        assert max(created_per_turn.values()) <= CREATIONS_AT_ONCE

    with_broker(test, tmp_path)
