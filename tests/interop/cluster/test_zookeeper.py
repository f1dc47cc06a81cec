"""The metadata store on a real ZooKeeper: the scenarios of every store, session expiry, and lost connections."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
pytest.importorskip("kazoo")

from tests.unit.cluster.store_scenarios import SCENARIOS

from ottla.cli.main import main
from ottla.cluster.store.metadata_store import (
    Create,
    Delete,
    MetadataStore,
    MetadataStoreTimeoutError,
    NodeExistsError,
    Operation,
    Set,
)
from ottla.cluster.store.zk_client import ZkClient
from ottla.cluster.store.zookeeper_store import ConnectionLostError, ZooKeeperMetadataStore
from ottla.errors import StartupError
from ottla.zookeeper_server import ZooKeeperServer

SESSION_MS = 1_500


@pytest.fixture
def connect(zookeeper: ZooKeeperServer, request: pytest.FixtureRequest) -> str:
    """Return a connect string with a chroot of the test."""
    return f"{zookeeper.connect}/{request.node.name.replace('[', '-').replace(']', '')}"


def run(
    test: Callable[[ZooKeeperMetadataStore], Awaitable[None]], connect: str, session_timeout_ms: int = SESSION_MS
) -> None:
    async def inner() -> None:
        store = ZooKeeperMetadataStore(connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=10_000)
        await store.open()
        try:
            await test(store)
        finally:
            await store.close()

    asyncio.run(asyncio.wait_for(inner(), 60))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_zookeeper_store_passes_metadata_store_scenario(
    scenario: Callable[[MetadataStore], Awaitable[None]], connect: str
) -> None:
    run(scenario, connect)


def test_ephemeral_znodes_are_deleted_with_the_session(connect: str) -> None:
    async def mine(store: ZooKeeperMetadataStore) -> None:
        await store.multi([Create("/mine", b"", ephemeral=True), Create("/kept")])

    async def later(store: ZooKeeperMetadataStore) -> None:
        assert await store.get("/mine") is None
        assert await store.get("/kept") is not None

    run(mine, connect)
    run(later, connect)


def test_session_expiry_calls_watches_and_new_session_callback(connect: str) -> None:
    async def test(store: ZooKeeperMetadataStore) -> None:
        renewed, changed = asyncio.Event(), asyncio.Event()

        async def make_again() -> None:
            await store.multi([Create("/me", b"again", ephemeral=True)])
            renewed.set()

        store.on_new_session(make_again)
        before = store.session_id
        await store.multi([Create("/me", b"first", ephemeral=True)])
        await store.get("/me", changed.set)
        assert store.session is not None
        await store.end_session(store.session)
        await renewed.wait()
        await changed.wait()
        assert store.session_id != before
        assert (await store.get("/me") or ())[:2] == (b"again", 0)

    run(test, connect)


def test_ending_an_ended_session_does_not_end_the_new_one(connect: str) -> None:
    async def test(store: ZooKeeperMetadataStore) -> None:
        renewed = asyncio.Event()

        async def on_new_session() -> None:
            renewed.set()

        store.on_new_session(on_new_session)
        removed = store.session
        assert removed is not None
        await store.end_session(removed)
        await renewed.wait()
        remaining = store.session
        await store.multi([Create("/kept", ephemeral=True)])
        await store.end_session(removed)
        assert await store.get("/kept") is not None
        assert store.session == remaining

    run(test, connect)


def test_writes_are_applied_once_through_server_restarts(zookeeper: ZooKeeperServer, connect: str) -> None:
    """The server is killed during conditional writes: each is applied once, although responses are lost."""

    async def test(store: ZooKeeperMetadataStore) -> None:
        await store.multi([Create("/n", b"0")])
        done = 0

        async def write() -> None:
            nonlocal done
            while done < 300:
                await store.multi([Set("/n", b"%d" % (done + 1), done), Create(f"/n/{done}")])
                done += 1

        writing = asyncio.create_task(write())
        for _ in range(2):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(zookeeper.kill)
            await asyncio.to_thread(zookeeper.start)
        await writing
        assert (await store.get("/n") or ())[:2] == (b"300", 300)
        assert len(await store.children("/n")) == 300

    run(test, connect, session_timeout_ms=30_000)


@pytest.mark.parametrize("write", [Create("/n/new", b"x"), Set("/n", b"1", 0), Delete("/n/old")], ids=str)
def test_applied_write_is_not_repeated_after_its_response_is_lost(
    write: Operation, connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(store: ZooKeeperMetadataStore) -> None:
        await store.multi([Create("/n"), Create("/n/old")])
        results = []
        check = store._check

        def lose(operations: Sequence[Operation], actual: Sequence[object]) -> None:
            results.append(actual)
            check(operations, actual)
            raise ConnectionLostError("n")

        monkeypatch.setattr(store, "_check", lose)
        await store.multi([write])
        assert len(results) == 1

    run(test, connect)


def test_unresponsive_server_causes_a_timeout(zookeeper: ZooKeeperServer, connect: str) -> None:
    async def test(store: ZooKeeperMetadataStore) -> None:
        assert zookeeper.pid is not None
        os.kill(zookeeper.pid, signal.SIGSTOP)
        # until all of its threads have stopped, one may still respond
        await asyncio.to_thread(os.waitid, os.P_PID, zookeeper.pid, os.WSTOPPED)
        try:
            with pytest.raises(MetadataStoreTimeoutError, match="does not answer"):
                await store.get("/x")
        finally:
            os.kill(zookeeper.pid, signal.SIGCONT)
        await store.multi([Create("/x")])
        with pytest.raises(NodeExistsError):
            await store.multi([Create("/x")])
        await store.multi([Delete("/x")])

    run(test, connect)


@pytest.mark.parametrize(
    "command",
    ["topics --list", "create-topic --topic visits", "console-consumer --topic visits --timeout-ms 2000"],
)
def test_tools_do_not_create_a_missing_chroot(
    command: str, zookeeper: ZooKeeperServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--zookeeper", f"{zookeeper.connect}/nope/there"]) == 1
    error = capsys.readouterr().err
    assert f"ZooKeeper at {zookeeper.connect} has no cluster below /nope/there" in error
    assert error.count("\n") == 1
    with ZkClient(zookeeper.connect) as zk:
        assert "nope" not in zk.children("/")


def test_missing_server_is_reported_with_address_and_config(tmp_path: Path) -> None:
    async def open_it() -> None:
        await ZooKeeperMetadataStore("127.0.0.1:1/kafka", connection_timeout_ms=300).open()

    with pytest.raises(StartupError, match=r"127\.0\.0\.1:1/kafka.*zookeeper\.connection\.timeout\.ms"):
        asyncio.run(open_it())
