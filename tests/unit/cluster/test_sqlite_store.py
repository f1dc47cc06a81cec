"""The SQLite store: a tree with versions and transactions that survives a crash."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.store_scenarios import SCENARIOS

from ottla.cluster.store.metadata_store import Create, MetadataStore
from ottla.cluster.store.sqlite_store import FILE_NAME, SqliteMetadataStore
from ottla.errors import StartupError


def run(test: Callable[[SqliteMetadataStore], Awaitable[None]], directory: Path, *, close: bool = True) -> None:
    async def inner() -> None:
        store = SqliteMetadataStore(directory)
        store.open()
        await test(store)
        if close:
            await store.close()

    asyncio.run(inner())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_sqlite_store_is_a_metadata_store(scenario: Callable[[MetadataStore], Awaitable[None]], tmp_path: Path) -> None:
    run(scenario, tmp_path)


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
        SqliteMetadataStore(tmp_path).open()


def modes(directory: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in directory.iterdir()}


def test_store_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async def check(store: SqliteMetadataStore) -> None:
        await store.multi([Create("/secret", b"ssl.keystore.password")])
        found_modes = modes(tmp_path)
        assert found_modes.keys() == {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
        assert set(found_modes.values()) == {0o600}

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
    disk, begun, change = threading.Event(), threading.Event(), SqliteMetadataStore._change

    def slow(store: SqliteMetadataStore, operations: Any) -> None:
        begun.set()
        assert disk.wait(10)
        change(store, operations)

    async def test(store: SqliteMetadataStore) -> None:
        monkeypatch.setattr(SqliteMetadataStore, "_change", slow)
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
