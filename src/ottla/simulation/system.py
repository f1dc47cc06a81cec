"""Replaces time, randomness, files, sockets and threads in the production modules with simulated ones.

In each imported module of Ottla outside the simulation, `os`, `socket`, `time` and other such objects are replaced if
they are globals, or default values of parameters of functions and instance methods. So a new module in one of PACKAGES
needs no entry. Imports within functions are not replaced.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import functools
import importlib
import os
import pathlib
import pkgutil
import random
import resource
import secrets
import socket
import sqlite3
import sys
import time
import types
import uuid
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

from ottla.broker.request_time import MeteredWorkers
from ottla.remote_log.remote_storage import ObjectStorage
from ottla.simulation.disk import SYSTEM, Disks, OsModule, SimulatedPath
from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.network import Network, SocketModule
from ottla.simulation.pipes import Pipes
from ottla.simulation.process import PROCESS, current
from ottla.simulation.stores.object_store import SimulatedStorage
from ottla.simulation.stores.sqlite import SqliteModule
from ottla.simulation.workers import SimulatedExecutor
from ottla.storage.append_writer import WriterThread
from ottla.storage.log import Log
from ottla.storage.recovery import open_log as production_open_log

EPOCH_MS: Final = 1_800_000_000_000
"""The wall clock time at which every simulation begins, in milliseconds since 1970."""

PACKAGES: Final = (
    "broker",
    "cluster",
    "client",
    "config",
    "coordinator",
    "metrics",
    "net",
    "protocol",
    "records",
    "remote_log",
    "replication",
    "security",
    "storage",
)
SKIPPED: Final = (
    "ottla.broker.http",
    "ottla.broker.monitoring.request_tracing",
    "ottla.broker.node",
    "ottla.client.tracing",
    "ottla.net.client.blocking_channel",
)
"""Prefixes of the names of modules that no simulated process needs, some of which import optional packages."""


class TimeModule(types.ModuleType):
    """Stands in for the module `time` in production code."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__("time")
        self._loop = loop
        self.monotonic = self.perf_counter = self.process_time = self.thread_time = loop.time

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time_ns(self) -> int:
        process = PROCESS.get()
        offset = 0 if process is None else process.clock_offset_ms
        return (EPOCH_MS + offset) * 1_000_000 + int(self._loop.time() * 1e9)

    def time(self) -> float:
        return self.time_ns() / 1e9

    def monotonic_ns(self) -> int:
        return int(self._loop.time() * 1e9)

    perf_counter_ns = monotonic_ns

    def sleep(self, seconds: float) -> None:
        raise RuntimeError("time.sleep would block the event loop")


class Randomness:
    """Generates random bytes, tokens and UUIDs from the seed. The methods have the names of the functions that they
    replace.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def urandom(self, nbytes: int) -> bytes:
        return self._rng.randbytes(nbytes)

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(bytes=self._rng.randbytes(16), version=4)

    def token_bytes(self, nbytes: int | None = None) -> bytes:
        return self._rng.randbytes(nbytes or 32)

    def token_urlsafe(self, nbytes: int | None = None) -> str:
        return self._rng.randbytes(nbytes or 32).hex()


class FcntlModule(types.ModuleType):
    """Stands in for the module `fcntl` in production code. `flock` locks a simulated file until the process dies."""

    def __init__(self, disks: Disks) -> None:
        super().__init__("fcntl")
        self._disks = disks
        self._owners: dict[str, object] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(fcntl, name)

    def flock(self, fd: int, operation: int) -> None:
        opened = self._disks.open_files.get(fd)
        if opened is None:
            return
        path, process = str(opened[1]), current()
        owner = self._owners.get(path)
        if owner is not None and owner is not process:
            raise BlockingIOError(11, "locked")
        self._owners[path] = process
        process.on_death.append(lambda: self._release(path))

    def _release(self, path: str) -> None:
        self._owners.pop(path, None)

    def lockf(self, fd: int, operation: int, *arguments: int) -> None:
        pass


def load_modules() -> None:
    """Import the modules that simulated processes may use, so that `install` finds their globals. Modules whose
    optional packages are not installed are left out.
    """
    import ottla

    importlib.import_module("ottla.aio")
    for package in PACKAGES:
        name = f"ottla.{package}"
        module = importlib.import_module(name)
        for info in pkgutil.walk_packages(module.__path__, f"{name}."):
            if not info.name.startswith(SKIPPED):
                try:
                    importlib.import_module(info.name)
                except ModuleNotFoundError as error:
                    if (error.name or "").startswith("ottla"):
                        raise  # else an optional package is not installed, and no run uses the module
    assert ottla.__version__


def install(
    loop: SimulatedLoop,
    network: Network,
    disks: Disks,
    pipes: Pipes,
    sqlite: SqliteModule,
    rng: random.Random,
    resolve: Callable[[str], str],
    open_log: Callable[..., Log] = production_open_log,
) -> None:
    """Replace the parts of the operating system that production code uses, its threads, its object storage and the
    function that opens logs. This cannot be undone in this process, but a later call replaces the previous simulation.

    `resolve`: returns the address of a host name. `open_log`: opens logs; it may check them as well.
    """
    randomness = Randomness(rng)
    clock = TimeModule(loop)
    system = OsModule(disks, network.sockets.get, pipes, randomness.urandom, clock.time_ns)
    SYSTEM[:] = [system]
    SimulatedExecutor.loop, SimulatedExecutor.rng = loop, rng
    secret = types.SimpleNamespace(
        token_bytes=randomness.token_bytes,
        token_urlsafe=randomness.token_urlsafe,
        compare_digest=secrets.compare_digest,
    )
    ids = types.SimpleNamespace(uuid4=randomness.uuid4, UUID=uuid.UUID)
    replacements: dict[int, Any] = {
        id(os): system,
        id(time): clock,
        id(time.time): clock.time,
        id(time.monotonic): loop.time,
        id(time.perf_counter): loop.time,
        id(socket): SocketModule(network, resolve),
        id(sqlite3): sqlite,
        id(fcntl): FcntlModule(disks),
        id(secrets): secret,
        id(resource): types.SimpleNamespace(
            getrlimit=lambda _: (2**31, 2**31), RLIMIT_NOFILE=resource.RLIMIT_NOFILE, RLIM_INFINITY=-1
        ),
        id(uuid): ids,
        id(uuid.uuid4): randomness.uuid4,
        id(pathlib.Path): SimulatedPath,
        id(concurrent.futures.ThreadPoolExecutor): SimulatedExecutor,
        id(MeteredWorkers): SimulatedExecutor,
        id(WriterThread): SimulatedExecutor,
        id(production_open_log): open_log,
        id(ObjectStorage): SimulatedStorage,
    }
    _replace(replacements)
    random.seed(rng.random())


_places: list[tuple[Callable[[Any], None], int]] = []
"""The globals and default values in production modules that the first `install` replaced: for each, a function that
replaces it, and the identity of the original object.
"""


def _replace(replacements: dict[int, Any]) -> None:
    if not _places:
        _places.extend(_find_places(replacements))
    for replace, original in _places:
        replace(replacements[original])


def _find_places(originals: Container[int]) -> Iterator[tuple[Callable[[Any], None], int]]:
    """Yield an item for `_places` for each global and default value whose identity is among `originals`."""
    for name, module in list(sys.modules.items()):
        if not name.startswith("ottla.") or name.startswith("ottla.simulation"):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in originals:
                yield functools.partial(setattr, module, attribute), id(value)
        for function in _functions(module):
            for number, value in enumerate(function.__defaults__ or ()):
                if id(value) in originals:
                    yield functools.partial(_set_default, function, number), id(value)
            keywords: dict[str, Any] = function.__kwdefaults__ or {}
            for keyword, value in keywords.items():
                if id(value) in originals:
                    yield functools.partial(keywords.__setitem__, keyword), id(value)


def _set_default(function: types.FunctionType, number: int, value: Any) -> None:
    defaults = list(function.__defaults__ or ())
    defaults[number] = value
    function.__defaults__ = tuple(defaults)


def _functions(module: types.ModuleType) -> list[types.FunctionType]:
    classes = [cls for cls in vars(module).values() if isinstance(cls, type) and cls.__module__ == module.__name__]
    values = [*vars(module).values(), *(value for cls in classes for value in vars(cls).values())]
    return [value for value in values if isinstance(value, types.FunctionType) and value.__module__ == module.__name__]
