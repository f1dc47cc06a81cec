"""Dynamic configs (KIP-226): the broker that receives a change writes it to a znode below `/config`, and all brokers
apply it.

Each change is written with a notification below `/config/changes`, as Kafka does. A broker then reads the entity that
the notification names, so a notification that arrives late or twice does no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import TopicImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.change_notifications import REFRESH_SECONDS, ChangeListener, ChangeNotifications
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    Operation,
    Set,
    ZNode,
    put,
)
from ottla.errors import UnknownTopicOrPartitionError
from ottla.logs import listed

log = logging.getLogger("ottla.cluster")

ATTEMPTS: Final = 10
"""Maximum number of attempts to change configs that other brokers change at the same time."""


class DynamicConfigStore:
    """Writes dynamic configs, and applies changes by other brokers. Not thread-safe: event loop only."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache) -> None:
        self._store = store
        self._cache = metadata_cache
        self._notifications = ChangeNotifications(store, [znodes.CONFIG_CHANGES])
        self._listener = ChangeListener("dynamic configs", self._read_notifications)
        self._lock = metadata_cache.configs_lock
        self._base: tuple[str, ZNode | None] | None = None
        """The entity that is being changed, and the znode on which its change is based; None if there is none."""

    async def start(self) -> None:
        """Read the configs of all entities except topics, and apply changes from now on."""
        await self._notifications.read(self._listener.notify, _skip)  # all configs are read below
        configs = await store_reader.read_configs(self._store)
        await self._cache.update(lambda image: replace(image, configs=configs))
        self._listener.start()

    async def close(self) -> None:
        await self._listener.close()

    async def change(self, path: str | None, attempt: Callable[[], Awaitable[None]]) -> None:
        """Call `attempt`, which changes the configs of an entity by `set` or `set_topic`, and exclude other config
        changes by this broker meanwhile.

        `path`: the entity to change; None if its configs are not in the store.

        The entity's configs are read again first: otherwise, a change by another broker that this broker has not
        applied yet would be reverted. If another broker changes them before the write, read them and call `attempt`
        again, at most ATTEMPTS times in total; after that, raise MetadataStoreError.
        """
        if path is None:
            async with self._lock:
                return await attempt()
        for _ in range(ATTEMPTS):
            async with self._lock:
                (node,) = await self._read_entities([path])
                self._base = path, node
                try:
                    return await attempt()
                except (BadVersionError, NodeExistsError):
                    continue  # another broker was faster
                finally:
                    self._base = None
        raise MetadataStoreError(f"{path} was changed by other brokers {ATTEMPTS} times in a row; try again")

    async def refresh(self, paths: Sequence[str]) -> None:
        """Read the configs of entities again, to pick up recent changes by other brokers.

        If the store fails, or this takes longer than REFRESH_SECONDS, log a warning and keep the last known configs.
        """
        try:
            async with asyncio.timeout(REFRESH_SECONDS), self._lock:
                await self._read_entities(paths)
        except (TimeoutError, MetadataStoreError) as error:
            reason = str(error) or f"no response within {REFRESH_SECONDS:g} s"
            log.warning("Cannot read the dynamic configs of %s; using the last known ones: %s", listed(paths), reason)

    async def set_topic(self, name: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of a topic, without validating them.

        Raises UnknownTopicOrPartitionError if the cluster image does not contain the topic.
        """
        if name not in self._cache.image.topics:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        entity = f"{znodes.TOPIC_CONFIGS}/{name}"
        await self._store.multi([await self._write(entity, configs), _notification(entity)])
        await self._apply_topic(name, dict(configs))

    async def set(self, entity: str, configs: Mapping[str, str]) -> None:
        """Replace the configs of an entity that is not a topic (see `config_entities`), without validating them."""
        writes: list[Operation] = []
        head, nested, _ = entity.partition(config_entities.NESTED + "/")
        if nested and configs:
            for parent in (head, head + config_entities.NESTED):
                if await self._store.get(znodes.config_entity(parent)) is None:
                    writes.append(Create(znodes.config_entity(parent), znodes.config_value({})))
        write = await self._write(entity, configs)
        if configs or isinstance(write, Set):
            # The znode of an entity without configs is not deleted, because it may have children, such as the clients
            # of a user.
            await self._store.multi([*writes, write, _notification(entity)])
        await self._apply_entity(entity, dict(configs))

    async def _write(self, entity: str, configs: Mapping[str, str]) -> Create | Set:
        """Return the operation that writes configs. Within `change`, it fails if the znode has changed meanwhile."""
        path, value = znodes.config_entity(entity), znodes.config_value(configs)
        if self._base is None or self._base[0] != entity:
            return await put(self._store, path, value)
        node = self._base[1]
        return Create(path, value) if node is None else Set(path, value, node.version)

    async def _apply_entity(self, entity: str, configs: Mapping[str, str]) -> None:
        if self._cache.image.configs.get(entity, {}) != configs:
            changed = {**self._cache.image.configs, entity: configs}
            await self._cache.update(lambda image: replace(image, configs={e: o for e, o in changed.items() if o}))

    async def _apply_topic(self, name: str, configs: Mapping[str, str]) -> None:
        def changed(topics: Mapping[str, TopicImage]) -> Mapping[str, TopicImage]:
            return {**topics, name: replace(topics[name], configs=configs)}

        topic = self._cache.image.topics.get(name)
        if topic is not None and topic.configs != configs:
            await self._cache.update(
                lambda image: image.with_topics(changed(image.topics)) if name in image.topics else image
            )

    async def _read_notifications(self) -> None:
        await self._notifications.read(self._listener.notify, self._apply)

    async def _apply(self, notifications: list[str]) -> None:
        for path in notifications:
            node = await self._store.get(path)
            entity = None if node is None else znodes.changed_entity(node.value)
            if entity is not None:
                async with self._lock:
                    await self._read_entities([entity])

    async def _read_entities(self, paths: Sequence[str]) -> list[ZNode | None]:
        """Read the configs of entities, and apply them. Return their znodes."""
        nodes = await store_reader.get_all(self._store, [znodes.config_entity(path) for path in paths])
        for path, node in zip(paths, nodes, strict=True):
            configs = dict(store_reader.configs_of(node, znodes.config_entity(path)))
            kind, _, name = path.partition("/")
            if kind == znodes.TOPIC_CONFIGS:
                await self._apply_topic(name, configs)
            else:
                await self._apply_entity(path, configs)
        return nodes


async def _skip(_notifications: list[str]) -> None:
    pass


def _notification(path: str) -> Create:
    return Create(f"{znodes.CONFIG_CHANGES}/config_change_", znodes.change_notification(path), sequence=True)
