"""A node of several brokers: one process each, with its own event loop, port and log directories.

Kafka's clients send records to the leader of their partition, so the processes need not share data: they are brokers
of a cluster like any others. The parent process starts the brokers, waits until all are ready, restarts a broker that
has failed, and stops all of them.

A socket connects the parent with each broker. The broker sends its addresses when it is ready, and stops when the
parent closes its end. So brokers also stop if the parent was killed.
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

from ottla.backoff import RestartBackoff
from ottla.errors import StartupError

log = logging.getLogger("ottla.broker")

SOCKET_VARIABLE: Final = "OTTLA_NODE_SOCKET"
"""Environment variable of a broker's process: the file descriptor of the socket to the parent."""
RESTART_SECONDS: Final = (0.1, 30.0)
MAX_MESSAGE: Final = 64 * 1024


class MultiBrokerNode:
    """The parent process of the brokers. `stop` may be called at any time, even before `run`."""

    def __init__(self, brokers: Sequence[Mapping[str, Any]], arguments: Sequence[str]) -> None:
        """`brokers`: the configs of each broker.

        `arguments`: arguments of `ottla` that run one broker, which reads its configs from its standard input.
        """
        self._brokers = [_Process(configs, arguments) for configs in brokers]
        self._stopping = asyncio.Event()
        self.endpoints: list[str] = []
        """The addresses of the brokers; empty until all are ready."""

    async def start(self) -> None:
        """Start all brokers, and return when they serve clients, or when `stop` is called.

        If one cannot start, stop the other brokers and raise its error, usually StartupError.
        """
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
        """Keep the brokers running until `stop`, or until all have stopped cleanly; then stop those that are running.

        Returns the exit code: 1 if a broker did not stop cleanly, else 0.
        """
        if not self._stopping.is_set():
            running = asyncio.gather(*(broker.keep_running() for broker in self._brokers))
            await self._until_stopping(running)
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.exception()  # marks it as retrieved: a clean stop is not an error
        return await self._end()

    async def _until_stopping(self, work: asyncio.Future[Any]) -> None:
        """Return when the work is done or `stop` is called."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def stop(self) -> None:
        """Make `start` return, and `run` stop all brokers cleanly and return."""
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
        """Start the process, and return the broker's addresses when it is ready.

        Raises StartupError if the broker ends before that, and OSError if its process cannot be created.
        """
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
                start_new_session=True,  # only the parent receives Ctrl+C; it stops the brokers
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
        self._configs["listeners"] = endpoints.decode()  # a restarted broker keeps the port that was chosen for port 0
        return endpoints.decode()

    async def keep_running(self) -> None:
        """Restart the broker whenever it fails; return when it has stopped cleanly."""
        backoff, loop = RestartBackoff(*RESTART_SECONDS), asyncio.get_running_loop()
        while True:
            assert self._process is not None
            began = loop.time()
            code = await self._process.wait()
            if code == 0:
                log.warning(
                    "Broker %s has stopped cleanly, so it is not restarted; this does not stop the other brokers",
                    self._id,
                )
                return
            ran = loop.time() - began
            while True:
                delay, ran = backoff.delay(ran), 0.0
                log.error("Broker %s has ended with exit code %d; restarting it in %.1f s", self._id, code, delay)
                await asyncio.sleep(delay)
                try:
                    await self.start()
                    break
                except StartupError:
                    code = await self._process.wait()
                except OSError as error:  # there is no new process; the exit code is still that of the previous one
                    log.error("Cannot start broker %s: %s", self._id, error)

    async def stop(self) -> int:
        """Stop the broker cleanly, and return the exit code of its process; 0 if it was never started."""
        process = self._process
        if process is None:
            return 0
        self._close_socket()  # before the signal, so that the broker knows that the whole node stops
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
    """The connection of a broker to the parent process of its node."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)

    @staticmethod
    def read_configs() -> dict[str, Any]:
        """Read this broker's configs from the standard input."""
        configs: dict[str, Any] = json.load(sys.stdin)
        return configs

    async def report_ready(self, endpoints: str) -> None:
        """Send the addresses of this broker to the parent: it serves clients now."""
        await asyncio.get_running_loop().sock_sendall(self._socket, endpoints.encode())

    async def wait_end(self) -> None:
        """Wait until the parent process closes the socket, because it stops the node or has ended."""
        try:
            await asyncio.get_running_loop().sock_recv(self._socket, 1)
        except ConnectionError:
            pass

    def has_ended(self) -> bool:
        """Return whether the parent process has closed the socket, because it stops the whole node or has ended."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


def parent() -> Parent | None:
    """Return the connection to the parent process; None if this broker is not part of a node of several brokers.

    Removes `SOCKET_VARIABLE` from the environment, so a second call returns None.
    """
    descriptor = os.environ.pop(SOCKET_VARIABLE, None)
    return None if descriptor is None else Parent(int(descriptor))
