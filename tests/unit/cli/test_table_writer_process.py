"""The process that writes tables, started by the broker."""

from __future__ import annotations

import asyncio

import pytest

from ottla.cli import table_writer_process
from ottla.cli.table_writer_process import TableWriterProcess


async def test_process_that_cannot_be_created_is_started_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
    monkeypatch.setattr(table_writer_process, "RESTART_SECONDS", (0.01, 0.02))
    writer = TableWriterProcess("127.0.0.1:9092", None)
    writer.start()
    async with asyncio.timeout(10):
        while len(caplog.messages) < 2:
            await asyncio.sleep(0.01)
    await writer.stop()
    assert "Cannot start the table writer process" in caplog.messages[1]
    assert caplog.messages[1].endswith("Resource temporarily unavailable")
