"""The SQLite store: a tree with versions and transactions that survives a crash."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.store_scenarios import SCENARIOS

from ottla.cluster.store import sqlite_store, sqlite_tree
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    MetadataStoreStorageError,
    MetadataStoreTimeoutError,
    Operation,
    Set,
)
from ottla.cluster.store.sqlite_store import FILE_NAME, SqliteMetadataStore
from ottla.cluster.store.sqlite_tree import SqliteTree
from ottla.errors import KafkaStorageError, StartupError


def run(test: Callable[[SqliteMetadataStore], Awaitable[None]], directory: Path, *, close: bool = True) -> None:
    async def inner() -> None:
        store = SqliteMetadataStore(directory)
        await store.open()
        await test(store)
        if close:
            await store.close()

    asyncio.run(inner())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_sqlite_store_is_a_metadata_store(scenario: Callable[[MetadataStore], Awaitable[None]], tmp_path: Path) -> None:
    run(scenario, tmp_path)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_shared_store_is_a_metadata_store(scenario: Callable[[MetadataStore], Awaitable[None]], tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 2) as (store, _):
            await scenario(store)

    asyncio.run(test())


def test_reopen_after_a_crash_keeps_all_but_ephemeral_znodes(tmp_path: Path) -> None:
    async def first(store: SqliteMetadataStore) -> None:
        await store.multi([Create("/kept", b"x"), Create("/mine", b"", ephemeral=True)])

    async def second(store: SqliteMetadataStore) -> None:
        assert (await store.get("/kept") or ())[:2] == (b"x", 0)
        assert await store.get("/mine") is None

    run(first, tmp_path, close=False)
    run(second, tmp_path)


def test_damaged_file_is_a_startup_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StartupError, match=FILE_NAME):
        asyncio.run(SqliteMetadataStore(tmp_path).open())


@asynccontextmanager
async def stores(
    directory: Path, count: int, session_timeout_ms: int = 9_000
) -> AsyncIterator[list[SqliteMetadataStore]]:
    """Stores over one directory, as several processes have them."""
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(count):
            store = SqliteMetadataStore(directory, shared=True, session_timeout_ms=session_timeout_ms)
            stack.push_async_callback(store.close)
            await store.open()
            opened.append(store)
        yield opened


def test_change_by_one_process_fires_the_watches_of_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 3) as (first, second, third):
            await first.multi([Create("/a"), Create("/a/b")])
            for store in (second, third):
                changed, child = asyncio.Event(), asyncio.Event()
                assert await store.get("/a/b", changed.set)
                assert await store.children("/a", child.set) == ["b"]
                await first.multi([Set("/a/b", b"1")])
                await asyncio.wait_for(changed.wait(), 5)
                stored = await store.get("/a/b")
                assert stored is not None
                assert stored[0] == b"1"
                assert not child.is_set()
                await first.multi([Create("/a/c")])
                await asyncio.wait_for(child.wait(), 5)
                await first.multi([Delete("/a/c")])

    asyncio.run(test())


def test_versions_are_compared_across_processes(tmp_path: Path) -> None:
    """Each of four processes counts to fifty; no increment is lost."""

    async def count(store: SqliteMetadataStore) -> None:
        for _ in range(50):
            while True:
                node = await store.get("/n")
                assert node is not None
                try:
                    await store.multi([Set("/n", b"%d" % (int(node.value) + 1), node.version)])
                except BadVersionError:
                    continue
                break

    async def test() -> None:
        async with stores(tmp_path, 4) as opened:
            await opened[0].multi([Create("/n", b"0")])
            await asyncio.gather(*map(count, opened))
            assert (await opened[0].get("/n") or ())[:2] == (b"200", 200)

    asyncio.run(test())


OTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from ottla.cluster.store.metadata_store import Create
from ottla.cluster.store.sqlite_store import SqliteMetadataStore

async def main():
    store = SqliteMetadataStore(Path(sys.argv[1]), shared=True, session_timeout_ms=int(sys.argv[2]))
    await store.open()
    async def again():
        await store.multi([Create("/other", b"again", ephemeral=True)])
    store.on_new_session(again)
    await store.multi([Create("/other", b"first", ephemeral=True)])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.close()

asyncio.run(main())
"""


@contextmanager
def other_process(
    directory: Path, session_timeout_ms: int = 9_000, script: str = OTHER_PROCESS
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a session and the ephemeral znode `/other`."""
    command = [sys.executable, "-c", script, str(directory), str(session_timeout_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


async def value(store: SqliteMetadataStore, path: str, expected: bytes | None) -> None:
    """Wait until a znode has a value."""
    async with asyncio.timeout(30):
        while True:
            changed = asyncio.Event()
            node = await store.get(path, changed.set)
            if (None if node is None else node.value) == expected:
                return
            await changed.wait()


def test_death_of_a_process_deletes_its_ephemeral_znodes_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 2, session_timeout_ms=60_000) as (first, second):
            with other_process(tmp_path, 60_000) as process:
                await value(second, "/other", b"first")
                process.kill()
                killed = time.monotonic()
                await asyncio.gather(value(first, "/other", None), value(second, "/other", None))
                assert time.monotonic() - killed < 5  # not when the session times out

    asyncio.run(test())


def test_death_of_a_process_while_the_store_closes_is_not_a_failed_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closing, may_close = threading.Event(), threading.Event()
    end_session = SqliteTree.end_session

    def end_session_later(tree: SqliteTree, *arguments: Any) -> Any:
        closing.set()
        assert may_close.wait(30)
        return end_session(tree, *arguments)

    async def test() -> None:
        async with stores(tmp_path, 1, session_timeout_ms=60_000) as (store,):
            with other_process(tmp_path, 60_000) as process:
                while not store.has_peers:
                    await asyncio.sleep(0.01)
                monkeypatch.setattr(SqliteTree, "end_session", end_session_later)
                closed = asyncio.create_task(store.close())
                while not closing.is_set():
                    await asyncio.sleep(0.01)
                # The event loop notices the death and the end of its own session in the same iteration.
                process.kill()
                process.wait()
                may_close.set()
                time.sleep(0.5)  # noqa: ASYNC251
                await closed
                await asyncio.sleep(0.01)

    asyncio.run(test())
    assert caplog.messages == []


def test_sessions_of_dead_processes_are_removed_by_the_next_process(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 1) as (store,):
            assert await store.get("/other") is None
        assert list((tmp_path / "sessions").iterdir()) == []

    with other_process(tmp_path) as process:
        process.kill()
        process.wait()
        assert len(list((tmp_path / "sessions").iterdir())) == 2
        asyncio.run(test())


def test_paused_process_loses_its_session_and_starts_another(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 1, session_timeout_ms=300) as (store,):
            with other_process(tmp_path, 300) as process:
                os.kill(process.pid, signal.SIGSTOP)
                await value(store, "/other", None)
                os.kill(process.pid, signal.SIGCONT)
                await value(store, "/other", b"again")

    asyncio.run(test())


def test_write_of_an_ended_session_is_made_by_a_new_one(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 2) as (first, second):
            renewed, changed = asyncio.Event(), asyncio.Event()

            async def on_new_session() -> None:
                renewed.set()

            first.on_new_session(on_new_session)
            await first.multi([Create("/mine", ephemeral=True)])
            await first.get("/unrelated", changed.set)
            assert first._own is not None
            await second._end_session(first._own.id)
            await first.multi([Create("/mine", b"again", ephemeral=True)])
            await asyncio.wait_for(asyncio.gather(renewed.wait(), changed.wait()), 5)
            await second.multi([Create("/x")])
            assert (await second.get("/mine") or ())[:1] == (b"again",)

    asyncio.run(test())


def test_heartbeats_continue_after_a_failed_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    changes = SqliteTree.changes
    failures = [KafkaStorageError("disk"), MetadataStoreTimeoutError("locked"), OSError(24, "many files")]
    have_failed = asyncio.Event()

    def fail_at_first(tree: SqliteTree, after: int, session: int) -> sqlite_tree.Changes:
        if failures:
            raise failures.pop()
        have_failed.set()
        return changes(tree, after, session)

    async def test() -> None:
        async with stores(tmp_path, 2, session_timeout_ms=300) as (first, second):
            monkeypatch.setattr(SqliteTree, "changes", fail_at_first)
            await asyncio.wait_for(have_failed.wait(), 10)
            seen = asyncio.Event()
            await second.get("/x", seen.set)
            await first.multi([Create("/x", ephemeral=True)])
            await asyncio.wait_for(seen.wait(), 10)

    asyncio.run(test())
    # once for each store that has failed, however often
    outages = caplog.text.count("cannot be read; reading again soon")
    assert 1 <= outages <= 2
    assert 1 <= caplog.text.count("can be read again, after") <= outages


def test_failed_write_is_logged_once_and_so_is_the_end_of_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    change = SqliteTree.change
    failures = [MetadataStoreStorageError("disk is full")] * 3

    def fail_at_first(tree: SqliteTree, *arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return change(tree, *arguments)

    async def test() -> None:
        async with stores(tmp_path, 1) as (store,):
            monkeypatch.setattr(SqliteTree, "change", fail_at_first)
            for _ in range(3):
                with pytest.raises(KafkaStorageError):
                    await store.multi([Create("/x")])
            for number in range(2):
                await store.multi([Create(f"/x{number}")])

    asyncio.run(test())
    lines = [message for message in caplog.messages if "metadata store" in message]
    assert [re.sub(r"store \S+|\d\.\d s", "…", line) for line in lines] == [
        "The metadata … cannot be written; changes fail until it can: disk is full",
        "The metadata … can be written again, after …",
    ]


def test_end_of_a_write_failure_is_detected_without_another_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(sqlite_store, "PROBE_SECONDS", 0.01)

    async def test() -> None:
        async with stores(tmp_path, 1, session_timeout_ms=30) as (store,):
            with closing(sqlite3.connect(tmp_path / "registry.sqlite", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(MetadataStoreTimeoutError):
                    await store.multi([Create("/x")])
                assert re.search(r"cannot be written, for \d s so far: .* is locked by another", store.waits_for)
            async with asyncio.timeout(20):
                while store.waits_for:
                    await asyncio.sleep(0.01)

    asyncio.run(test())
    assert caplog.text.count("cannot be written; changes fail") == 1
    assert caplog.text.count("can be written again, after") == 1


def test_process_with_deleted_session_files_starts_another_session(tmp_path: Path) -> None:
    async def test() -> None:
        async with stores(tmp_path, 2, session_timeout_ms=300) as (first, second):
            await first.multi([Create("/mine", ephemeral=True)])
            for file in (tmp_path / "sessions").iterdir():
                file.unlink()
            assert first._own is not None
            await second._end_session(first._own.id)
            await value(second, "/mine", None)
            await first.multi([Create("/mine", b"again", ephemeral=True)])
            await value(second, "/mine", b"again")

    asyncio.run(test())


def test_lost_session_is_replaced_although_the_first_attempts_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_session = SqliteTree.begin_session
    failures: list[BaseException] = [MetadataStoreStorageError("disk is full"), OSError("no space for the pipes")]

    def fail_at_first(tree: SqliteTree, prepare: Callable[[int], None]) -> int:
        if failures and isinstance(failures[0], OSError):
            raise failures.pop(0)
        number = begin_session(tree, prepare)
        if failures:
            raise failures.pop(0)  # after it was written
        return number

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with stores(tmp_path, 2, session_timeout_ms=300) as (first, second):
            renewed = asyncio.Event()

            async def on_new_session() -> None:
                renewed.set()

            first.on_new_session(on_new_session)
            assert first._own is not None
            monkeypatch.setattr(SqliteTree, "begin_session", fail_at_first)
            await second._end_session(first._own.id)
            await asyncio.wait_for(renewed.wait(), 10)
            assert failures == []
            await first.multi([Create("/mine", ephemeral=True)])
            await value(second, "/mine", b"")
            assert len(first._tree.sessions()) == 2, "the session that failed after it was written has ended"
            await second.close()
            timers = [timer for timer in _timers() if "_beat" in repr(timer)]
            assert len(timers) == 1, "there is one heartbeat, not one for each session"

    unhandled: list[dict[str, Any]] = []
    asyncio.run(test())
    assert unhandled == []


def _timers() -> list[asyncio.TimerHandle]:
    scheduled: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
    return [timer for timer in scheduled if not timer.cancelled()]


def test_write_that_fails_after_it_was_applied_fires_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = SqliteTree.change

    def apply_and_fail(tree: SqliteTree, *arguments: Any) -> Any:
        change(tree, *arguments)
        raise MetadataStoreStorageError("disk I/O error")

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with stores(tmp_path, 2) as (first, second):
            own, other = asyncio.Event(), asyncio.Event()
            await first.get("/x", own.set)
            await second.get("/x", other.set)
            with monkeypatch.context() as patch:
                patch.setattr(SqliteTree, "change", apply_and_fail)
                with pytest.raises(MetadataStoreError):
                    await first.multi([Create("/x")])
            await asyncio.wait_for(own.wait(), 5)
            await asyncio.wait_for(other.wait(), 5)
            cancelled = asyncio.ensure_future(first.multi([Create("/x")]))  # fails: the znode exists
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await first.multi([Create("/y")])

    unhandled: list[dict[str, Any]] = []
    asyncio.run(test())
    assert unhandled == [], "the error of the change is retrieved although its caller was cancelled"


def test_watch_fires_after_more_changes_than_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_tree, "KEPT_CHANGES", 3)

    async def test() -> None:
        async with stores(tmp_path, 2) as (first, second):
            seen = asyncio.Event()
            await second.get("/0", seen.set)
            await first.multi([Create(f"/{number}") for number in range(10)])
            await asyncio.wait_for(seen.wait(), 5)

    asyncio.run(test())


def test_forked_child_does_not_keep_the_session_of_its_parent(tmp_path: Path) -> None:
    fork = (
        'import os, time; child = os.fork() or time.sleep(60)\n    print("ready", flush=True); print(child, flush=True)'
    )
    script = OTHER_PROCESS.replace('print("ready", flush=True)', fork)

    async def test() -> None:
        async with stores(tmp_path, 1, session_timeout_ms=60_000) as (store,):
            with other_process(tmp_path, 60_000, script) as process:
                assert process.stdout is not None
                child = int(process.stdout.readline())
                try:
                    await value(store, "/other", b"first")
                    process.kill()
                    await value(store, "/other", None)
                finally:
                    os.kill(child, signal.SIGKILL)

    asyncio.run(test())


def modes(directory: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in directory.iterdir()}


def test_store_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async def check(store: SqliteMetadataStore) -> None:
        await store.multi([Create("/secret", b"ssl.keystore.password")])
        file_modes = modes(tmp_path)
        assert file_modes.keys() == {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
        assert set(file_modes.values()) == {0o600}

    before = os.umask(0)
    try:
        run(check, tmp_path)
    finally:
        os.umask(before)


def test_store_file_of_an_earlier_release_is_protected_at_start(tmp_path: Path) -> None:
    async def crash(store: SqliteMetadataStore) -> None:
        await store.multi([Create("/secret", b"x")])

    async def check(store: SqliteMetadataStore) -> None:
        assert set(modes(tmp_path).values()) == {0o600}
        assert (await store.get("/secret") or ())[:1] == (b"x",)

    run(crash, tmp_path, close=False)
    for file in tmp_path.iterdir():
        file.chmod(0o644)
    run(check, tmp_path)


def test_change_of_the_store_does_not_block_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, begun, change = threading.Event(), threading.Event(), SqliteTree.change

    def slow(tree: SqliteTree, operations: Sequence[Operation], session: int) -> list[str]:
        begun.set()
        assert disk.wait(10)
        return change(tree, operations, session)

    async def test(store: SqliteMetadataStore) -> None:
        monkeypatch.setattr(SqliteTree, "change", slow)
        seen = asyncio.Event()
        assert await store.get("/x", seen.set) is None
        writing = asyncio.create_task(store.multi([Create("/x", b"1")]))
        await asyncio.to_thread(begun.wait, 10)
        assert await store.get("/x") is None
        assert not writing.done()
        writing.cancel()  # a cancelled request cancels neither its change nor its watches
        disk.set()
        await asyncio.wait_for(seen.wait(), 10)
        assert (await store.get("/x") or ())[:1] == (b"1",)

    run(test, tmp_path)
