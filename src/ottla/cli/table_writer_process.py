"""The process of `ottla tables run` that `ottla broker` starts with `ottla.tables.enable`, and restarts whenever it
ends.

It stops when its standard input ends, so it also stops if the broker was killed.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Final

from ottla.backoff import RestartBackoff

log: Final = logging.getLogger("ottla.broker")

RESTART_SECONDS: Final = (1.0, 60.0)
STOP_SECONDS: Final = 10.0
"""Time in seconds after SIGTERM after which the process is killed. The next process writes the uncommitted records."""


class TableWriterProcess:
    """Runs `ottla tables run`, and restarts it after a delay whenever it ends, until `stop` is called.

    Args:
        address: the broker's address, as HOST:PORT.
        command_config: properties file with client configs; None if the listener needs none.
    """

    def __init__(self, address: str, command_config: str | None) -> None:
        self._command = [sys.executable, "-m", "ottla", "tables", "run", "--until-eof", "--bootstrap-server", address]
        if command_config is not None:
            self._command += ["--command-config", command_config]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process in a task of the running event loop."""
        self._task = asyncio.create_task(self._run(), name="table-writer")

    async def stop(self) -> None:
        """Stop the process with SIGTERM, after STOP_SECONDS with SIGKILL, and return when it has ended."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        backoff, loop = RestartBackoff(*RESTART_SECONDS), asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                delay = backoff.delay(0.0)
                log.error(
                    "Cannot start the table writer process (ottla tables run); trying again in %.0f s: %s", delay, error
                )
                await asyncio.sleep(delay)
                continue
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            delay = backoff.delay(loop.time() - began)
            log.error(
                "The table writer process (ottla tables run) has ended with exit code %d; its errors, if any, are "
                "on standard error; restarting it in %.0f s",
                code,
                delay,
            )
            await asyncio.sleep(delay)


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except ProcessLookupError:
        pass
    except TimeoutError:
        process.kill()
        await process.wait()
