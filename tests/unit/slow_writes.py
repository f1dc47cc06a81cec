"""A log directory on a slow disk: writes are queued until the test runs them."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from unittest.mock import patch

from tests.unit.replication.partitions import Held

from ottla.storage.append_writer import SLOW_SECONDS, AppendWriter
from ottla.storage.files import LogFile


class SlowWrites:
    """A writer after its first slow write, and the thread that it uses from then on."""

    def __init__(self, directory: Path) -> None:
        self.now = 0.0
        self.thread = Held()
        self.writer = AppendWriter(directory, lambda: self.now, self.thread)
        self.writer.write(_SlowFile(self), 0, b"")  # type: ignore[arg-type]

    async def write_next(self, writes: int = 1, error: BaseException | None = None) -> None:
        """Run the next queued writes, and let the event loop handle their results."""
        for _ in range(writes):
            with contextlib.nullcontext() if error is None else patch.object(LogFile, "write", side_effect=error):
                self.thread.run_one()
        for _ in range(3):
            await asyncio.sleep(0)


class _SlowFile:
    def __init__(self, disk: SlowWrites) -> None:
        self._disk = disk

    def write(self, position: int, data: bytes) -> None:
        self._disk.now += 2 * SLOW_SECONDS
