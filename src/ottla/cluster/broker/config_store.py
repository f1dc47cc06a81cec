"""Options set while the cluster runs: written below `/config` by whichever broker is asked, followed by all.

With the options a note goes to `/config/changes`, where every broker looks; the tools of Kafka 0.8 to 2 leave theirs
there, too. What a note is about is read again, so a note that comes late or twice does no harm. Loop thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import TopicImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.metadata_store import (
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NoNodeError,
    Operation,
    Set,
    put,
)
from ottla.errors import KafkaError, UnknownTopicOrPartitionError

log = logging.getLogger("ottla.cluster")

PAUSE_SECONDS: Final = 0.5
"""How long after a failure everything is looked at again."""
REFRESH_SECONDS: Final = 2.0
"""How long who asks what is set waits for the store; then what was heard has to do."""
NOTE_SECONDS: Final = 900.0
"""How long a note stays; a broker that was away reads everything anyway. Kafka's, too."""


class DynamicConfigStore:
    """Sets options, and follows those that others set."""

    def __init__(self, store: MetadataStore, view: MetadataCache) -> None:
        self._store = store
        self._view = view
        self._notes: dict[str, float] | None = None
        """Those that were followed, with the time; the ones from before the start say nothing new."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        """Held from reading options until they are shown, and from reading until they are replaced: so that nothing
        older is shown after something newer, and nothing made of what is not set any more."""

    async def start(self) -> None:
        """Read what is set on everything but topics, and follow what changes from now on."""
        await self._follow_notes()
        options = await store_reader.read_options(self._store)
        await self._view.change(lambda image: replace(image, options=options))
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    @asynccontextmanager
    async def changing(self, path: str | None) -> AsyncIterator[None]:
        """One change after the other, each made of what is set by then; None: on what the store does not keep.

        It is read again for that: of what another broker was asked to set a moment ago this one may not have heard yet,
        and would take it back.
        """
        async with self._lock:
            if path is not None:
                await self._read_again([path])
            yield

    async def refresh(self, paths: Sequence[str]) -> None:
        """Hear what is set on entities by now, also by another broker a moment ago. Not where the store is away."""
        try:
            async with asyncio.timeout(REFRESH_SECONDS), self._lock:
                await self._read_again(paths)
        except (TimeoutError, MetadataStoreError) as error:
            log.warning("what is set now cannot be read: %s", error)

    async def set_topic(self, name: str, options: Mapping[str, str]) -> None:
        """Replace the options set on a topic with checked ones."""
        if name not in self._view.image.topics:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        await self._store.multi(
            [
                await put(self._store, znodes.config_topic(name), znodes.config_value(options)),
                _note(f"{znodes.TOPIC_OPTIONS}/{name}"),
            ]
        )
        await self._show_topic(name, dict(options))

    async def set(self, entity: str, options: Mapping[str, str]) -> None:
        """Replace the checked options set on an entity that is not a topic (see `entities`); none removes it."""
        writes: list[Operation] = []
        head, nested, _ = entity.partition(config_entities.NESTED + "/")
        if nested and options:
            for parent in (head, head + config_entities.NESTED):
                if await self._store.get(znodes.config_entity(parent)) is None:
                    writes.append(Create(znodes.config_entity(parent), znodes.config_value({})))
        write = await put(self._store, znodes.config_entity(entity), znodes.config_value(options))
        if options or isinstance(write, Set):
            # a node stays when its options go: clients of a user may hang below it
            await self._store.multi([*writes, write, _note(entity)])
        await self._show(entity, dict(options))

    async def _show(self, entity: str, options: Mapping[str, str]) -> None:
        if self._view.image.options.get(entity, {}) != options:
            changed = {**self._view.image.options, entity: options}
            await self._view.change(lambda image: replace(image, options={e: o for e, o in changed.items() if o}))

    async def _show_topic(self, name: str, options: Mapping[str, str]) -> None:
        def changed(topics: Mapping[str, TopicImage]) -> Mapping[str, TopicImage]:
            return {**topics, name: replace(topics[name], options=options)}

        known = self._view.image.topics.get(name)
        if known is not None and known.options != options:
            await self._view.change(
                lambda image: image.with_topics(changed(image.topics)) if name in image.topics else image
            )

    # ControllerRequestHandler

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._follow_notes()
            except KafkaError as error:
                log.warning("options that were set cannot be followed yet: %s", error)
                asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._changed.set)
            except Exception:
                log.exception("options that were set cannot be followed")

    async def _follow_notes(self) -> None:
        names = await self._store.children(znodes.CONFIG_CHANGES, self._changed.set)
        now, known = time.monotonic(), self._notes
        for name in names if known is not None else ():
            if known is not None and name not in known:
                await self._take(name)
        self._notes = {name: now if known is None else known.get(name, now) for name in names}
        for name, seen in self._notes.items():
            if now - seen > NOTE_SECONDS:
                await self._forget(name)

    async def _take(self, note: str) -> None:
        node = await self._store.get(f"{znodes.CONFIG_CHANGES}/{note}")
        path = None if node is None else znodes.changed_entity(node.value)
        if path is not None:
            async with self._lock:
                await self._read_again([path])

    async def _read_again(self, paths: Sequence[str]) -> None:
        nodes = await store_reader.get_all(self._store, [znodes.config_entity(path) for path in paths])
        for path, node in zip(paths, nodes, strict=True):
            options = dict(store_reader.options_of(node, znodes.config_entity(path)))
            kind, _, name = path.partition("/")
            if kind == znodes.TOPIC_OPTIONS:
                await self._show_topic(name, options)
            else:
                await self._show(path, options)

    async def _forget(self, note: str) -> None:
        try:
            await self._store.multi([Delete(f"{znodes.CONFIG_CHANGES}/{note}")])
        except NoNodeError:
            pass  # another broker has


def _note(path: str) -> Create:
    return Create(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.change_notification(path), sequence=True)
