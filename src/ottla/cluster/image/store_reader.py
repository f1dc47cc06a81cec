"""Reading the metadata store: brokers, topics, configs, features, requests and the cluster id.

Also encodes registrations, and creates persistent znodes. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from ottla.cluster.image.cluster_image import BrokerImage, PartitionImage
from ottla.cluster.image.features import highest
from ottla.cluster.store import config_entities, znodes
from ottla.cluster.store.metadata_store import (
    Create,
    MetadataStore,
    NodeExistsError,
    UnreadableNodeError,
    Watcher,
    ZNode,
)
from ottla.cluster.store.znodes import TopicLayout
from ottla.config.broker.listener_config import Endpoint
from ottla.model import TopicPartition

log = logging.getLogger("ottla.cluster")

LOG_DIRS, CORDONED_LOG_DIRS = "log_dirs", "cordoned_log_dirs"
"""Fields of a registration that only Ottla has."""
MAX_CONCURRENT = 500
"""The maximum number of concurrent reads of one `get_all` call."""


class StoredFeatures(NamedTuple):
    """The levels of features by name, and the number of times that they were written."""

    levels: Mapping[str, int]
    epoch: int


@dataclass(frozen=True)
class StoredTopic:
    """A topic as it is in the metadata store.

    Older tools do not write its id and the states of its partitions, which are then None.
    """

    name: str
    id: UUID | None
    version: int
    """The version of the topic's znode."""
    partitions: tuple[PartitionImage | None, ...]
    replicas: tuple[tuple[int, ...], ...]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]
    has_parent: bool
    """Whether the znode `partitions`, the parent of the partitions' znodes, exists."""


async def read_brokers(store: MetadataStore, watch: Watcher | None = None) -> dict[int, BrokerImage]:
    """Return the registered brokers by id. A malformed registration is logged and skipped, a znode whose name
    is not a number is ignored.
    """
    brokers: dict[int, BrokerImage] = {}
    for name in await store.children(znodes.BROKER_IDS, watch):
        with _skip_unreadable("broker", name):
            broker = await read_broker(store, int(name)) if name.isdecimal() else None
            if broker is not None:
                brokers[broker.id] = broker
    return brokers


async def read_broker(store: MetadataStore, broker_id: int) -> BrokerImage | None:
    node = await store.get(znodes.broker(broker_id))
    return None if node is None else broker_image(broker_id, node)


async def read_topics(store: MetadataStore) -> dict[str, StoredTopic]:
    """Return all topics by name. A malformed topic is logged and skipped.

    The topics are read concurrently, because a new controller has to wait for them.
    """
    names = await store.children(znodes.TOPICS)
    nodes = await get_all(store, [znodes.topic(name) for name in names])
    layouts: dict[str, tuple[ZNode, TopicLayout]] = {}
    for name, node in zip(names, nodes, strict=True):
        with _skip_unreadable("topic", name):
            if node is not None:
                layouts[name] = node, znodes.topic_layout(name, node.value)
    states = iter(
        await get_all(store, [path for name, (_, layout) in layouts.items() for path in _states(name, layout)])
    )
    topics: dict[str, StoredTopic] = {}
    for name, (node, layout) in layouts.items():
        own = [next(states) for _ in layout.replicas]
        with _skip_unreadable("topic", name):
            topics[name] = await _stored_topic(store, name, node, layout, own)
    return topics


@contextmanager
def _skip_unreadable(what: str, name: str) -> Iterator[None]:
    """Log and suppress UnreadableNodeError in the block (context manager).

    A mistake of an administrator in one znode does not affect the others.
    """
    try:
        yield
    except UnreadableNodeError as error:
        log.error("Skipping the malformed entry of %s %s, as if it did not exist: %s", what, name, error)


async def read_features(store: MetadataStore, watch: Watcher | None = None) -> StoredFeatures | None:
    """Return the levels of features; None if they were never set. `watch` is called when they change next.

    If the znode is malformed, log an error and return the highest levels. In Kafka, a malformed znode prevents every
    broker from becoming the controller.
    """
    node = await store.get(znodes.FEATURE, watch)
    if node is None:
        return None
    try:
        levels: Mapping[str, int] = znodes.feature_levels(node.value)
    except UnreadableNodeError as error:
        log.error(
            "Ignoring malformed znode %s, so all features have their highest levels: %s. To replace it, set the level "
            "of a feature with `ottla features`.",
            znodes.FEATURE,
            error,
        )
        levels = highest()
    return StoredFeatures(levels, node.version + 1)


async def read_topic(store: MetadataStore, name: str) -> StoredTopic | None:
    node = await store.get(znodes.topic(name))
    if node is None:
        return None
    layout = znodes.topic_layout(name, node.value)
    return await _stored_topic(store, name, node, layout, await get_all(store, _states(name, layout)))


def _states(name: str, layout: TopicLayout) -> list[str]:
    return [znodes.partition_state(name, index) for index in range(len(layout.replicas))]


async def _stored_topic(
    store: MetadataStore, name: str, node: ZNode, layout: TopicLayout, states: Sequence[ZNode | None]
) -> StoredTopic:
    has_parent = any(states) or await store.get(znodes.partitions(name)) is not None
    partitions = tuple(
        None
        if state is None
        else partition_image(state, replicas, layout.adding.get(i, ()), layout.removing.get(i, ()))
        for i, (state, replicas) in enumerate(zip(states, layout.replicas, strict=True))
    )
    return StoredTopic(
        name, layout.id, node.version, partitions, layout.replicas, layout.adding, layout.removing, has_parent
    )


Item = dict[str, Any]
"""A partition in a request in the metadata store, as parsed JSON."""


def parse_request(path: str, raw: bytes) -> dict[TopicPartition, Item]:
    """Return the partitions that a request in the metadata store names. A malformed request is logged and ignored."""
    try:
        items: list[Item] = znodes.load(raw)["partitions"]
        return {TopicPartition(str(item["topic"]), int(item["partition"])): item for item in items}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.error("Ignoring malformed request in znode %s: %r: %r", path, raw[:200], error)
        return {}


async def get_all(store: MetadataStore, paths: Sequence[str]) -> list[ZNode | None]:
    """Read znodes concurrently. Return them in the order of `paths`; None for those that do not exist."""
    nodes: list[ZNode | None] = []
    for begin in range(0, len(paths), MAX_CONCURRENT):
        nodes += await asyncio.gather(*(store.get(path) for path in paths[begin : begin + MAX_CONCURRENT]))
    return nodes


async def read_configs(store: MetadataStore) -> dict[str, Mapping[str, str]]:
    """Return the configs of all entities that have any, except topics, by path (see `config_entities`)."""
    configs_by_path: dict[str, Mapping[str, str]] = {}
    for kind in config_entities.TYPES:
        for name in await store.children(znodes.config_entity(kind)):
            nested = f"{kind}/{name}{config_entities.NESTED}"
            below = await store.children(znodes.config_entity(nested))
            for path in (f"{kind}/{name}", *(f"{nested}/{client}" for client in below)):
                configs = await read_entity_configs(store, znodes.config_entity(path))
                if configs:
                    configs_by_path[path] = configs
    return configs_by_path


async def read_topic_configs(store: MetadataStore) -> dict[str, Mapping[str, str]]:
    names = await store.children(znodes.CONFIG_TOPICS)
    nodes = await get_all(store, [znodes.config_topic(name) for name in names])
    return {name: configs_of(node, znodes.config_topic(name)) for name, node in zip(names, nodes, strict=True)}


async def read_entity_configs(store: MetadataStore, path: str) -> Mapping[str, str]:
    """Return the configs in one znode below `/config`."""
    return configs_of(await store.get(path), path)


def configs_of(node: ZNode | None, path: str) -> Mapping[str, str]:
    """Return the configs in a znode below `/config`; an empty mapping if `node` is None or has no value.

    If the znode is malformed, log an error and return an empty mapping.
    """
    if node is None or not node.value:
        return {}
    try:
        return znodes.parse_configs(path, node.value)
    except UnreadableNodeError as error:
        # a mistake of an administrator must not affect other entries
        log.error("%s; ignoring its configs", error.message)
        return {}


def partition_image(
    state: ZNode, replicas: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]
) -> PartitionImage:
    """Return the image of a partition from its state znode and the replicas in its topic's znode.

    Raises UnreadableNodeError if the state is malformed.
    """
    try:
        fields = znodes.load(state.value)
        leader, epoch, isr = int(fields["leader"]), int(fields["leader_epoch"]), tuple(map(int, fields["isr"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableNodeError(f"{state.value[:200]!r} is not the state of a partition: {error}") from None
    return PartitionImage(leader, epoch, replicas, isr, state.version, adding, removing, modified=state.modified)


def broker_image(broker_id: int, node: ZNode) -> BrokerImage:
    """Return the image of a broker from its registration, in any format of Kafka 0.8 to 3.9.

    Raises UnreadableNodeError if it is malformed.
    """
    try:
        value = znodes.load(node.value)
        protocols = value.get("listener_security_protocol_map", {})
        texts = value.get("endpoints") or [f"PLAINTEXT://{value['host']}:{value['port']}"]
        endpoints = tuple(_endpoint(text, protocols) for text in texts)
        dirs, cordoned = (tuple(map(str, value.get(key, ()))) for key in (LOG_DIRS, CORDONED_LOG_DIRS))
        return BrokerImage(broker_id, endpoints, value.get("rack"), node.created, dirs, cordoned)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableNodeError(f"{node.value[:200]!r} is not the registration of a broker: {error!r}") from None


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(name, host.strip("[]"), int(port), protocols.get(name, name))


def broker_value(broker: BrokerImage) -> bytes:
    """Return the value of `/brokers/ids/N`.

    It also has the host and port of a plaintext listener, if there is one: clients of Kafka 0.8 read only these.
    """
    plain = next((e for e in broker.endpoints if e.protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": {e.name: e.protocol for e in broker.endpoints},
        "endpoints": [str(e) for e in broker.endpoints],
        "jmx_port": -1,
        "port": -1 if plain is None else plain.port,
        "host": None if plain is None else plain.host,
        "version": 5,
        "timestamp": znodes.now(),
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    for key, paths in ((LOG_DIRS, broker.log_dirs), (CORDONED_LOG_DIRS, broker.cordoned_log_dirs)):
        if paths:
            value[key] = paths  # brokers of Apache Kafka ignore it
    return znodes.dump(value)


async def read_cluster_id(store: MetadataStore) -> str | None:
    """Return the cluster id; None before the cluster's first start."""
    node = await store.get(znodes.CLUSTER_ID)
    return None if node is None else str(znodes.load(node.value)["id"])


async def create_persistent_nodes(store: MetadataStore, paths: Sequence[str] = znodes.PERSISTENT) -> None:
    """Create those of the znodes in `paths` that are missing; by default, the znodes that every cluster has.

    In `paths`, parents must come before their children.
    """
    nodes = await get_all(store, paths)
    missing = [path for path, node in zip(paths, nodes, strict=True) if node is None]
    if not missing:
        return
    try:
        await store.multi([Create(path) for path in missing])
    except NodeExistsError:
        await create_persistent_nodes(store, paths)  # another broker is starting at the same time
