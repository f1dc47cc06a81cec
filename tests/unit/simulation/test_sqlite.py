"""The simulated pipes and the SQLite file of the embedded metadata store."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ottla.simulation.event_loop import SimulatedLoop
from ottla.simulation.network import Network
from ottla.simulation.pipes import LATE_SECONDS, Pipes
from ottla.simulation.process import Process
from ottla.simulation.stores.sqlite import MetadataFile, SqliteModule
from ottla.simulation.stores.zookeeper import HOST


def test_pipe_wakes_its_reader_with_delay_and_ends_with_its_owner(tmp_path: Path) -> None:
    loop = SimulatedLoop()
    pipes = Pipes(loop, random.Random(1))
    owner, other = Process("owner", "10.0.0.1"), Process("other", "10.0.0.2")
    path = tmp_path / "7.alive"
    pipes.create(path, 0o600)
    with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):  # no process reads it
        other.run(pipes.open, path, os.O_WRONLY | os.O_NONBLOCK)
    reading_end = owner.run(pipes.open, path, os.O_RDWR)
    other_reading_end = other.run(pipes.open, path, os.O_RDONLY)
    writing_end = other.run(pipes.open, path, os.O_WRONLY)
    with pytest.raises(BlockingIOError):
        pipes.read(reading_end, 10)
    assert list(pipes.held_by("10.0.0.1")) == [str(path)]

    async def wait() -> None:
        woken: asyncio.Future[None] = loop.create_future()
        loop.add_reader(reading_end, woken.set_result, None)
        assert pipes.write(writing_end, 3) == 3
        assert not pipes.ends[reading_end].is_readable
        await asyncio.wait_for(woken, LATE_SECONDS * 2)
        loop.remove_reader(reading_end)
        assert pipes.read(reading_end, 10) == bytes(3)
        pipes.close(writing_end)
        ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(other_reading_end, ended.set_result, None)
        owner.kill()
        await asyncio.wait_for(ended, 1)
        loop.remove_reader(other_reading_end)
        assert pipes.read(other_reading_end, 10) == b""

    loop.run_until_complete(wait())
    path.unlink()
    with pytest.raises(FileNotFoundError):
        other.run(pipes.open, path, os.O_RDONLY)
    loop.close()


def test_sqlite_faults_fail_statements_and_writes_are_reported(tmp_path: Path) -> None:
    loop = SimulatedLoop()
    network = Network(loop, random.Random(1))
    file = MetadataFile(tmp_path, network, Pipes(loop, random.Random(1)), random.Random(1))
    written: list[tuple[str, Any]] = []
    file.on_write = lambda path, value: written.append((path, value))
    assert file.node("/") is None  # creates the file
    process = Process("broker-0", "10.0.0.1")
    database = process.run(functools.partial(SqliteModule(file).connect, file.path, isolation_level=None))

    def put(path: str) -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT OR REPLACE INTO nodes VALUES (?, '/', ?, 0, 0, 0)", (path, b"v"))
        try:
            database.execute("COMMIT")
        finally:
            if database.in_transaction:
                database.execute("ROLLBACK")

    put("/a")
    network.cut("10.0.0.1", HOST)
    with pytest.raises(sqlite3.OperationalError, match="locked") as locked:
        put("/b")
    assert locked.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
    network.heal("10.0.0.1", HOST)
    file.lost_responses = 1.0
    outcomes = set()
    for number in range(20):
        with pytest.raises(sqlite3.OperationalError, match="I/O"):
            put(f"/{number}")
        outcomes.add(file.node(f"/{number}") is not None)
    assert outcomes == {True, False}, "a transaction that fails may have been applied"
    assert written[0] == ("/a", b"v")
    assert {path for path, _ in written} == {"/a", *(f"/{n}" for n in range(20) if file.node(f"/{n}") is not None)}
    process.kill()
    with pytest.raises(sqlite3.ProgrammingError):
        database.execute("SELECT 1")
    file.close()
    loop.close()
