"""The registry of one node: a tree with versions, all or nothing, there again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.unit.cluster.registry_scenarios import SCENARIOS

from ottla.cluster.embedded import FILE_NAME, EmbeddedRegistry
from ottla.cluster.registry import Create, Registry
from ottla.errors import StartupError


def run(test: Callable[[EmbeddedRegistry], Awaitable[None]], directory: Path, *, close: bool = True) -> None:
    async def inner() -> None:
        registry = EmbeddedRegistry(directory)
        registry.open()
        await test(registry)
        if close:
            await registry.close()

    asyncio.run(inner())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_it_is_a_registry(scenario: Callable[[Registry], Awaitable[None]], tmp_path: Path) -> None:
    run(scenario, tmp_path)


def test_nodes_outlive_a_crash_but_ephemeral_ones(tmp_path: Path) -> None:
    async def first(registry: EmbeddedRegistry) -> None:
        await registry.multi([Create("/kept", b"x"), Create("/mine", b"", ephemeral=True)])

    async def second(registry: EmbeddedRegistry) -> None:
        assert (await registry.get("/kept") or ())[:2] == (b"x", 0)
        assert await registry.get("/mine") is None

    run(first, tmp_path, close=False)
    run(second, tmp_path)


def test_a_damaged_file_is_a_startup_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)
    with pytest.raises(StartupError, match=FILE_NAME):
        EmbeddedRegistry(tmp_path).open()
