"""Scenarios of all metadata stores: SQLite in unit tests, ZooKeeper in tests/interop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Check,
    Create,
    Delete,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Set,
)


async def znodes_are_created_set_and_deleted_with_versions(store: MetadataStore) -> None:
    await store.multi([Create("/a", b"1"), Create("/a/b", b"2")])
    await store.multi([Set("/a", b"3", 0)])
    assert (await store.get("/a") or ())[:2] == (b"3", 1)
    assert await store.children("/a") == ["b"]
    assert await store.children("/none") == []
    for wrong, error in (
        (Create("/a"), NodeExistsError),
        (Create("/x/y"), NoNodeError),
        (Set("/a", b"", 0), BadVersionError),
        (Delete("/a"), NotEmptyError),
        (Delete("/none"), NoNodeError),
        (Check("/a", 7), BadVersionError),
    ):
        with pytest.raises(error):
            await store.multi([wrong])
    await store.multi([Delete("/a/b"), Delete("/a")])
    assert await store.get("/a") is None


async def multi_is_executed_completely_or_not_at_all(store: MetadataStore) -> None:
    with pytest.raises(NoNodeError):
        await store.multi([Create("/half", b""), Set("/none", b"")])
    assert await store.get("/half") is None


async def recreated_znode_has_another_creation_number(store: MetadataStore) -> None:
    created = []
    for _ in range(2):
        await store.multi([Create("/again")])
        node = await store.get("/again")
        assert node is not None
        created.append(node.created)
        await store.multi([Delete("/again")])
    assert created[0] < created[1]


async def sequences_continue_after_a_deletion(store: MetadataStore) -> None:
    await store.multi([Create("/s")])
    await store.multi([Create("/s/c_", b"", sequence=True), Create("/s/c_", b"", sequence=True)])
    names = await store.children("/s")
    await store.multi([Delete(f"/s/{name}") for name in names])
    await store.multi([Create("/s/c_", b"", sequence=True)])
    (last,) = await store.children("/s")
    assert last > names[-1] > names[0]
    assert len(last) == len("c_") + 10


async def watch_fires_once_for_the_next_change(store: MetadataStore) -> None:
    await store.multi([Create("/w")])
    events: asyncio.Queue[str] = asyncio.Queue()

    def watcher(event: str) -> Callable[[], None]:
        return lambda: events.put_nowait(event)

    await store.get("/w/x", watcher("created"))
    await store.children("/w", watcher("child created"))
    await store.multi([Create("/w/x")])
    assert {await events.get(), await events.get()} == {"created", "child created"}
    await store.get("/w/x", watcher("set"))
    await store.multi([Set("/w/x", b"1")])
    await store.multi([Set("/w/x", b"2")])
    assert await events.get() == "set"
    await store.get("/w/x", watcher("deleted"))
    await store.multi([Delete("/w/x")])
    assert await events.get() == "deleted"
    twice = watcher("once")
    await store.children("/w", twice)
    await store.children("/w", twice)
    await store.multi([Create("/w/y")])
    await store.get("/w/y", watcher("after it"))
    await store.multi([Set("/w/y", b"")])
    assert [await events.get(), await events.get()] == ["once", "after it"]
    assert events.empty()


SCENARIOS: list[Callable[[MetadataStore], Awaitable[None]]] = [
    znodes_are_created_set_and_deleted_with_versions,
    multi_is_executed_completely_or_not_at_all,
    recreated_znode_has_another_creation_number,
    sequences_continue_after_a_deletion,
    watch_fires_once_for_the_next_change,
]
