"""The registry of one node: a tree with versions, all or nothing, there again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.cluster.embedded import FILE_NAME, EmbeddedRegistry
from ottla.cluster.registry import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Set,
)
from ottla.errors import StartupError


def run(test: Callable[[EmbeddedRegistry], Awaitable[None]], directory: Path, *, close: bool = True) -> None:
    async def inner() -> None:
        registry = EmbeddedRegistry(directory)
        registry.open()
        await test(registry)
        if close:
            await registry.close()

    asyncio.run(inner())


def test_nodes_are_made_set_and_deleted_with_versions(tmp_path: Path) -> None:
    async def test(registry: EmbeddedRegistry) -> None:
        await registry.multi([Create("/a", b"1"), Create("/a/b", b"2")])
        await registry.multi([Set("/a", b"3", 0)])
        assert await registry.get("/a") == (b"3", 1)
        assert await registry.children("/a") == ["b"]
        for wrong, error in (
            (Create("/a"), NodeExistsError),
            (Create("/x/y"), NoNodeError),
            (Set("/a", b"", 0), BadVersionError),
            (Delete("/a"), NotEmptyError),
            (Delete("/none"), NoNodeError),
            (Check("/a", 7), BadVersionError),
        ):
            with pytest.raises(error):
                await registry.multi([wrong])
        await registry.multi([Delete("/a/b"), Delete("/a")])
        assert await registry.get("/a") is None

    run(test, tmp_path)


def test_a_multi_is_done_whole_or_not_at_all(tmp_path: Path) -> None:
    async def test(registry: EmbeddedRegistry) -> None:
        with pytest.raises(NoNodeError):
            await registry.multi([Create("/a"), Set("/missing", b"")])
        assert await registry.get("/a") is None

    run(test, tmp_path)


def test_nodes_outlive_a_crash_but_ephemeral_ones(tmp_path: Path) -> None:
    async def first(registry: EmbeddedRegistry) -> None:
        await registry.multi([Create("/kept", b"x"), Create("/mine", b"", ephemeral=True)])

    async def second(registry: EmbeddedRegistry) -> None:
        assert await registry.get("/kept") == (b"x", 0)
        assert await registry.get("/mine") is None

    run(first, tmp_path, close=False)
    run(second, tmp_path)


def test_a_damaged_file_is_a_startup_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StartupError, match=FILE_NAME):
        EmbeddedRegistry(tmp_path).open()
