"""What every registry does: the embedded one here, ZooKeeper in tests/interop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.cluster.registry import (
    BadVersionError,
    Check,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Registry,
    Set,
)


async def nodes_are_made_set_and_deleted_with_versions(registry: Registry) -> None:
    await registry.multi([Create("/a", b"1"), Create("/a/b", b"2")])
    await registry.multi([Set("/a", b"3", 0)])
    assert (await registry.get("/a") or ())[:2] == (b"3", 1)
    assert await registry.children("/a") == ["b"]
    assert await registry.children("/none") == []
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


async def a_multi_is_done_whole_or_not_at_all(registry: Registry) -> None:
    with pytest.raises(NoNodeError):
        await registry.multi([Create("/half", b""), Set("/none", b"")])
    assert await registry.get("/half") is None


async def a_node_made_again_is_told_from_the_one_before(registry: Registry) -> None:
    made = []
    for _ in range(2):
        await registry.multi([Create("/again")])
        node = await registry.get("/again")
        assert node is not None
        made.append(node.created)
        await registry.multi([Delete("/again")])
    assert made[0] < made[1]


async def sequences_go_on_where_a_node_was_deleted(registry: Registry) -> None:
    await registry.multi([Create("/s")])
    await registry.multi([Create("/s/c_", b"", sequence=True), Create("/s/c_", b"", sequence=True)])
    names = await registry.children("/s")
    await registry.multi([Delete(f"/s/{name}") for name in names])
    await registry.multi([Create("/s/c_", b"", sequence=True)])
    (last,) = await registry.children("/s")
    assert last > names[-1] > names[0]
    assert len(last) == len("c_") + 10


async def a_watch_hears_once_of_the_next_change(registry: Registry) -> None:
    await registry.multi([Create("/w")])
    heard: asyncio.Queue[str] = asyncio.Queue()

    def tells(what: str) -> Callable[[], None]:
        return lambda: heard.put_nowait(what)

    await registry.get("/w/x", tells("made"))
    await registry.children("/w", tells("child came"))
    await registry.multi([Create("/w/x")])
    assert {await heard.get(), await heard.get()} == {"made", "child came"}
    await registry.get("/w/x", tells("set"))
    await registry.multi([Set("/w/x", b"1")])
    await registry.multi([Set("/w/x", b"2")])
    assert await heard.get() == "set"
    await registry.get("/w/x", tells("deleted"))
    await registry.multi([Delete("/w/x")])
    assert await heard.get() == "deleted"
    twice = tells("once")
    await registry.children("/w", twice)
    await registry.children("/w", twice)
    await registry.multi([Create("/w/y")])
    await registry.get("/w/y", tells("after it"))
    await registry.multi([Set("/w/y", b"")])
    assert [await heard.get(), await heard.get()] == ["once", "after it"]
    assert heard.empty()


SCENARIOS: list[Callable[[Registry], Awaitable[None]]] = [
    nodes_are_made_set_and_deleted_with_versions,
    a_multi_is_done_whole_or_not_at_all,
    a_node_made_again_is_told_from_the_one_before,
    sequences_go_on_where_a_node_was_deleted,
    a_watch_hears_once_of_the_next_change,
]
