"""The registry on a real ZooKeeper: what every registry does, and what only sessions and lost connections bring."""

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
    """A chroot of the test's own."""
    return f"{zookeeper.connect}/{request.node.name.replace('[', '-').replace(']', '')}"


def run(
    test: Callable[[ZooKeeperMetadataStore], Awaitable[None]], connect: str, session_timeout_ms: int = SESSION_MS
) -> None:
    async def inner() -> None:
        registry = ZooKeeperMetadataStore(connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=10_000)
        await registry.open()
        try:
            await test(registry)
        finally:
            await registry.close()

    asyncio.run(asyncio.wait_for(inner(), 60))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_is_a_registry(scenario: Callable[[MetadataStore], Awaitable[None]], connect: str) -> None:
    run(scenario, connect)


def test_ephemeral_nodes_go_with_the_session(connect: str) -> None:
    async def mine(registry: ZooKeeperMetadataStore) -> None:
        await registry.multi([Create("/mine", b"", ephemeral=True), Create("/kept")])

    async def later(registry: ZooKeeperMetadataStore) -> None:
        assert await registry.get("/mine") is None
        assert await registry.get("/kept") is not None

    run(mine, connect)
    run(later, connect)


def test_expired_session_and_its_watches_are_notified(connect: str) -> None:
    async def test(registry: ZooKeeperMetadataStore) -> None:
        renewed, changed = asyncio.Event(), asyncio.Event()

        async def make_again() -> None:
            await registry.multi([Create("/me", b"again", ephemeral=True)])
            renewed.set()

        registry.on_new_session(make_again)
        before = registry.session_id
        await registry.multi([Create("/me", b"first", ephemeral=True)])
        await registry.get("/me", changed.set)
        assert registry.session is not None
        await registry.end_session(registry.session)
        await renewed.wait()
        await changed.wait()
        assert registry.session_id != before
        assert (await registry.get("/me") or ())[:2] == (b"again", 0)

    run(test, connect)


def test_a_session_that_has_ended_can_be_ended(connect: str) -> None:
    async def test(registry: ZooKeeperMetadataStore) -> None:
        renewed = asyncio.Event()

        async def on_new_session() -> None:
            renewed.set()

        registry.on_new_session(on_new_session)
        removed = registry.session
        assert removed is not None
        await registry.end_session(removed)
        await renewed.wait()
        remaining = registry.session
        await registry.multi([Create("/kept", ephemeral=True)])
        await registry.end_session(removed)
        assert await registry.get("/kept") is not None
        assert registry.session == remaining

    run(test, connect)


def test_a_write_whose_answer_was_lost_is_done_once(zookeeper: ZooKeeperServer, connect: str) -> None:
    """Killed and restarted under a stream of writes with versions: each is done once, though answers are lost."""

    async def test(registry: ZooKeeperMetadataStore) -> None:
        await registry.multi([Create("/n", b"0")])
        done = 0

        async def write() -> None:
            nonlocal done
            while done < 300:
                await registry.multi([Set("/n", b"%d" % (done + 1), done), Create(f"/n/{done}")])
                done += 1

        writing = asyncio.create_task(write())
        for _ in range(2):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(zookeeper.kill)
            await asyncio.to_thread(zookeeper.start)
        await writing
        assert (await registry.get("/n") or ())[:2] == (b"300", 300)
        assert len(await registry.children("/n")) == 300

    run(test, connect, session_timeout_ms=30_000)


@pytest.mark.parametrize("write", [Create("/n/new", b"x"), Set("/n", b"1", 0), Delete("/n/old")], ids=str)
def test_a_write_that_was_done_before_its_answer_was_lost_is_not_done_again(
    write: Operation, connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(registry: ZooKeeperMetadataStore) -> None:
        await registry.multi([Create("/n"), Create("/n/old")])
        answers = []
        check = registry._check

        def lose(operations: Sequence[Operation], actual: Sequence[object]) -> None:
            answers.append(actual)
            check(operations, actual)
            raise ConnectionLostError("n")

        monkeypatch.setattr(registry, "_check", lose)
        await registry.multi([write])
        assert len(answers) == 1

    run(test, connect)


def test_a_server_that_is_silent_is_a_timeout_not_a_hang(zookeeper: ZooKeeperServer, connect: str) -> None:
    async def test(registry: ZooKeeperMetadataStore) -> None:
        assert zookeeper.pid is not None
        os.kill(zookeeper.pid, signal.SIGSTOP)
        # until all of its threads have stopped one may still answer
        await asyncio.to_thread(os.waitid, os.P_PID, zookeeper.pid, os.WSTOPPED)
        try:
            with pytest.raises(MetadataStoreTimeoutError, match="does not answer"):
                await registry.get("/x")
        finally:
            os.kill(zookeeper.pid, signal.SIGCONT)
        await registry.multi([Create("/x")])
        with pytest.raises(NodeExistsError):
            await registry.multi([Create("/x")])
        await registry.multi([Delete("/x")])

    run(test, connect)


@pytest.mark.parametrize(
    "command",
    ["topics --list", "create-topic --topic visits", "console-consumer --topic visits --timeout-ms 2000"],
)
def test_tools_do_not_make_a_cluster_of_a_mistyped_path(
    command: str, zookeeper: ZooKeeperServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.split(), "--zookeeper", f"{zookeeper.connect}/nope/there"]) == 1
    said = capsys.readouterr().err
    assert f"ZooKeeper at {zookeeper.connect} has no cluster below /nope/there" in said
    assert said.count("\n") == 1
    with ZkClient(zookeeper.connect) as zk:
        assert "nope" not in zk.children("/")


def test_no_server_is_an_error_that_names_address_and_option(tmp_path: Path) -> None:
    async def open_it() -> None:
        await ZooKeeperMetadataStore("127.0.0.1:1/kafka", connection_timeout_ms=300).open()

    with pytest.raises(StartupError, match=r"127\.0\.0\.1:1/kafka.*zookeeper\.connection\.timeout\.ms"):
        asyncio.run(open_it())
