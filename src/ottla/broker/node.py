"""A node of several brokers: one process each, with its own event loop, port and log directories.

Kafka's clients send each request to the leader of its partition, so nothing is forwarded, and the brokers share only
the metadata. The parent process starts them, waits until all are ready, starts one again that has failed, and stops
all of them.

A socket connects the parent with each broker: the broker writes its addresses into it when it is ready, and stops when
it is closed, so that no broker outlives a parent that was killed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.backoff import ExponentialBackoff
from ottla.errors import StartupError

log = logging.getLogger("ottla.broker")

SOCKET_VARIABLE: Final = "OTTLA_NODE_SOCKET"
"""Environment variable of a broker's process: the descriptor of its socket to the parent."""
RESTART_SECONDS: Final = (0.1, 30.0)
STABLE_SECONDS: Final = 60.0
"""A broker that ran for this long is started again at once after a failure."""
MAX_MESSAGE: Final = 64 * 1024


class MultiBrokerNode:
    """The parent process. `stop` may be called at any time, also before `run`."""

    def __init__(self, brokers: Sequence[Mapping[str, Any]], arguments: Sequence[str]) -> None:
        """`brokers`: their configs. `arguments`: of the command that runs one broker, which reads its configs from
        its standard input.
        """
        self._brokers = [_Process(configs, arguments) for configs in brokers]
        self._stopping = asyncio.Event()
        self.endpoints: list[str] = []
        """The addresses of the brokers, when all are ready."""

    async def start(self) -> None:
        """Start all brokers, and return when they serve clients. Raises StartupError if one cannot start."""
        starting = asyncio.gather(*(broker.start() for broker in self._brokers))
        try:
            await self._until_stopping(starting)
            if starting.done():
                self.endpoints = starting.result()
        except BaseException:
            await self._end()
            raise
        finally:
            starting.cancel()

    async def run(self) -> int:
        """Keep the brokers running until `stop`. Returns the exit code: 1 if a broker did not stop in order."""
        if not self._stopping.is_set():
            running = asyncio.gather(*(broker.keep_running() for broker in self._brokers))
            await self._until_stopping(running)
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # marks it as retrieved: that brokers stop in order is no error
        return await self._end()

    async def _until_stopping(self, work: asyncio.Future[Any]) -> None:
        """Return when the work is done, or `stop` was called."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def stop(self) -> None:
        """Let `run` stop all brokers in order, and return."""
        self._stopping.set()

    async def _end(self) -> int:
        codes = await asyncio.gather(*(broker.stop() for broker in self._brokers))
        return int(any(codes))


class _Process:
    """The process of one broker."""

    def __init__(self, configs: Mapping[str, Any], arguments: Sequence[str]) -> None:
        self._id = configs["broker.id"]
        self._configs = dict(configs)
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None

    async def start(self) -> str:
        """Start the process, and return the broker's addresses when it is ready. Raises StartupError if it fails."""
        own, theirs = socket.socketpair()
        with theirs:
            self._close_socket()
            self._socket = own
            own.setblocking(False)
            process = self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "ottla",
                *self._arguments,
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, SOCKET_VARIABLE: str(theirs.fileno())},
                start_new_session=True,  # Ctrl+C is for the parent, which stops the brokers in order
            )
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._configs).encode())
        process.stdin.close()
        try:
            endpoints = await asyncio.get_running_loop().sock_recv(own, MAX_MESSAGE)
        except ConnectionError:
            endpoints = b""
        if not endpoints:
            code = await process.wait()
            raise StartupError(f"broker {self._id} did not start (exit code {code}); the reason is logged above")
        self._configs["listeners"] = endpoints.decode()  # a free port stays this broker's when it is started again
        return endpoints.decode()

    async def keep_running(self) -> None:
        """Start the broker again whenever it fails, and return when it has stopped in order."""
        backoff, failures, loop = ExponentialBackoff(*RESTART_SECONDS), 0, asyncio.get_running_loop()
        while True:
            assert self._process is not None
            began = loop.time()
            code = await self._process.wait()
            if code == 0:
                log.warning("Broker %s was stopped; the other brokers of the node continue", self._id)
                return
            failures = 0 if loop.time() - began > STABLE_SECONDS else failures
            while True:
                delay = backoff.backoff(failures)
                failures += 1
                log.error("Broker %s has ended with exit code %d; restarting it in %.1f s", self._id, code, delay)
                await asyncio.sleep(delay)
                try:
                    await self.start()
                    break
                except StartupError:
                    code = 1

    async def stop(self) -> int:
        """Stop in order, and return the exit code."""
        process = self._process
        if process is None:
            return 0
        self._close_socket()  # before the signal, which then stops the whole node, not one broker of it
        if process.returncode is None:
            try:
                process.send_signal(signal.SIGTERM)
            except ProcessLookupError:
                pass
        return await process.wait()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()


class Parent:
    """The parent process, as a broker of its node sees it."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)

    @staticmethod
    def read_configs() -> dict[str, Any]:
        """Return this broker's configs."""
        configs: dict[str, Any] = json.load(sys.stdin)
        return configs

    async def report_ready(self, endpoints: str) -> None:
        """Send the addresses of this broker, which serves clients now."""
        await asyncio.get_running_loop().sock_sendall(self._socket, endpoints.encode())

    async def wait_end(self) -> None:
        """Return when the parent process has ended."""
        try:
            await asyncio.get_running_loop().sock_recv(self._socket, 1)
        except ConnectionError:
            pass

    def has_ended(self) -> bool:
        """Return whether the parent process stops the whole node, or has ended."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


def parent() -> Parent | None:
    """Return the parent of this process if it runs a broker of a node."""
    descriptor = os.environ.pop(SOCKET_VARIABLE, None)
    return None if descriptor is None else Parent(int(descriptor))
