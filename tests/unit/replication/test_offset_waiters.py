"""Futures for offsets: completed, failed, and cancelled."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from tests.unit.replication.virtual_loop import run

from ottla.errors import NotLeaderOrFollowerError
from ottla.replication.offset_waiters import OffsetWaiters


def test_fail_all_fails_pending_waiters() -> None:
    async def test() -> None:
        waits = OffsetWaiters()
        future = waits.add(3)
        waits.fail_all(NotLeaderOrFollowerError())
        with pytest.raises(NotLeaderOrFollowerError):
            await future

    run(test())


def test_failed_waiter_without_an_awaiter_logs_nothing() -> None:
    contexts: list[dict[str, Any]] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
        waits = OffsetWaiters()
        waits.add(3)
        waits.fail_all(NotLeaderOrFollowerError())
        gc.collect()

    run(test())
    assert contexts == []
