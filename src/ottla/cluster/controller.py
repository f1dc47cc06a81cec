"""The controller: the one place that changes what the cluster agrees on.

Each change is checked, written to the registry in one guarded step, and only then shown in a new `ClusterImage`, which
the broker's other parts are told of. Changes are made one after the other. A broker by itself is its own controller.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ottla.cluster import entities, znodes
from ottla.cluster.metadata import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.registry import Check, Create, Delete, Operation, Registry, Set
from ottla.config.broker import Endpoint
from ottla.errors import InvalidPartitionsError, StartupError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

log = logging.getLogger("ottla.cluster")

OnChange = Callable[[ClusterImage, ClusterImage], Awaitable[None]]
"""Told of every new image, with the one before it, in order."""


class Controller:
    """Creates, changes and deletes topics. Runs on the loop's thread; changes wait for each other."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._lock = asyncio.Lock()
        self._listeners: list[OnChange] = []
        self._epoch_version = 0
        self.image = ClusterImage(cluster_id="")

    def on_change(self, listener: OnChange) -> None:
        """Tell `listener` of every change from now on."""
        self._listeners.append(listener)

    async def start(self, broker: BrokerImage, cluster_id: str | None) -> None:
        """Read the registry, register this broker, and take the controller's place.

        `cluster_id` is what the data directory says; StartupError when the registry says otherwise.
        """
        await make_persistent_nodes(self._registry)
        found = await self._cluster_id(cluster_id)
        epoch = await self._take_controller()
        image = ClusterImage(found, self._broker_id, epoch, {broker.id: broker})
        await self._registry.multi([Create(znodes.broker(broker.id), _broker_value(broker), ephemeral=True)])
        image = replace(image, options=await self._read_options())
        feature = await self._registry.get(znodes.FEATURE)
        if feature is not None:
            levels = znodes.feature_levels(feature.value)
            image = replace(image, features=levels, features_epoch=feature.version + 1)
        self.image = _with_topics(image, await self._read_topics())
        await self._lead_again()

    async def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        options: Mapping[str, str],
        topic_id: uuid.UUID | None = None,
    ) -> TopicImage:
        """Create a topic with checked name, replicas and options."""
        async with self._lock:
            if name in self.image.topics:
                raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
            topic = TopicImage(
                name,
                topic_id or uuid.uuid4(),
                tuple(PartitionImage(r[0], 0, tuple(r), tuple(r)) for r in assignment),
                dict(options),
            )
            writes: list[Operation] = [
                self._guard(),
                Create(znodes.topic(name), znodes.topic_value(topic.id, assignment)),
                Create(znodes.partitions(name)),
            ]
            if options:
                writes.append(Create(znodes.config_topic(name), znodes.config_value(options)))
            for index, partition in enumerate(topic.partitions):
                writes += self._create_state(name, index, partition)
            await self._registry.multi(writes)
            await self._publish({**self.image.topics, name: topic})
            return topic

    async def create_partitions(self, name: str, added: Sequence[Sequence[int]]) -> None:
        """Give a topic more partitions."""
        async with self._lock:
            topic = self._topic(name)
            old = len(topic.partitions)
            if not added:
                raise InvalidPartitionsError(f"topic {name} has {old} partition(s) already")
            new = tuple(PartitionImage(r[0], 0, tuple(r), tuple(r)) for r in added)
            whole = replace(topic, partitions=topic.partitions + new)
            assignment = [p.replicas for p in whole.partitions]
            writes: list[Operation] = [
                self._guard(),
                Set(znodes.topic(name), znodes.topic_value(topic.id, assignment)),
            ]
            for index, partition in enumerate(new, start=old):
                writes += self._create_state(name, index, partition)
            await self._registry.multi(writes)
            await self._publish({**self.image.topics, name: whole})

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; its logs go when the brokers are told."""
        async with self._lock:
            topic = self._topic(name)
            writes: list[Operation] = [self._guard()]
            for index in range(len(topic.partitions)):
                writes.append(Delete(znodes.partition_state(name, index)))
                writes.append(Delete(znodes.partition(name, index)))
            writes += [Delete(znodes.partitions(name)), Delete(znodes.topic(name))]
            if await self._registry.get(znodes.config_topic(name)) is not None:
                writes.append(Delete(znodes.config_topic(name)))
            await self._registry.multi(writes)
            await self._publish({n: t for n, t in self.image.topics.items() if n != name})

    async def set_topic_options(self, name: str, options: Mapping[str, str]) -> None:
        """Replace the options set on a topic with checked ones."""
        async with self._lock:
            topic = self._topic(name)
            path, value = znodes.config_topic(name), znodes.config_value(options)
            await self._registry.multi([self._guard(), await self._put(path, value)])
            await self._publish({**self.image.topics, name: replace(topic, options=dict(options))})

    async def set_options(self, entity: str, options: Mapping[str, str]) -> None:
        """Replace the checked options set on an entity that is not a topic (see `entities`); none removes it."""
        async with self._lock:
            writes: list[Operation] = [self._guard()]
            head, nested, _ = entity.partition(entities.NESTED + "/")
            if nested and options:
                for parent in (head, head + entities.NESTED):
                    if await self._registry.get(znodes.config_entity(parent)) is None:
                        writes.append(Create(znodes.config_entity(parent), znodes.config_value({})))
            path, value = znodes.config_entity(entity), znodes.config_value(options)
            write = await self._put(path, value)
            if options or isinstance(write, Set):
                # a node stays when its options go: clients of a user may hang below it
                await self._registry.multi([*writes, write])
            changed = {**self.image.options, entity: dict(options)}
            await self._tell(replace(self.image, options={e: o for e, o in changed.items() if o}))

    async def set_features(self, levels: Mapping[str, int]) -> None:
        """Set checked levels of features; a feature at level 0 is off."""
        async with self._lock:
            changed = {name: level for name, level in {**self.image.features, **levels}.items() if level}
            path, value = znodes.FEATURE, znodes.feature_value(changed)
            await self._registry.multi([self._guard(), await self._put(path, value)])
            await self._tell(replace(self.image, features=changed, features_epoch=self.image.features_epoch + 1))

    async def close(self) -> None:
        """Give up the controller's place."""
        await self._registry.close()

    def _topic(self, name: str) -> TopicImage:
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        return topic

    async def _put(self, path: str, value: bytes) -> Create | Set:
        """The operation that gives a node this value, whether it is there or not."""
        return Create(path, value) if await self._registry.get(path) is None else Set(path, value)

    def _guard(self) -> Check:
        """Every write is void once another controller has taken over."""
        return Check(znodes.CONTROLLER_EPOCH, self._epoch_version)

    def _create_state(self, name: str, index: int, partition: PartitionImage) -> list[Operation]:
        value = znodes.state_value(self.image.controller_epoch, partition.leader, partition.leader_epoch, partition.isr)
        return [Create(znodes.partition(name, index)), Create(znodes.partition_state(name, index), value)]

    async def _publish(self, all_topics: Mapping[str, TopicImage]) -> None:
        await self._tell(_with_topics(self.image, all_topics))

    async def _tell(self, image: ClusterImage) -> None:
        before, self.image = self.image, image
        for listener in self._listeners:
            try:
                await listener(before, self.image)
            except Exception:
                # the change is in the registry and cannot be taken back; the other listeners have to hear of it
                log.exception("a change of the cluster could not be followed")

    async def _cluster_id(self, expected: str | None) -> str:
        node = await self._registry.get(znodes.CLUSTER_ID)
        if node is None:
            found = expected or znodes.uuid_text(uuid.uuid4())
            await self._registry.multi([Create(znodes.CLUSTER_ID, znodes.dump({"version": "1", "id": found}))])
            return found
        found = str(znodes.load(node.value)["id"])
        if expected not in (None, found):
            raise StartupError(
                f"log.dirs: the data belongs to cluster {expected}, the registry to cluster {found}; "
                "use the data directory that belongs to it, or an empty one"
            )
        return found

    async def _take_controller(self) -> int:
        node = await self._registry.get(znodes.CONTROLLER_EPOCH)
        epoch = 1 if node is None else int(node.value) + 1
        self._epoch_version = 0 if node is None else node.version + 1
        value = znodes.dump({"version": 1, "brokerid": self._broker_id, "timestamp": str(time.time_ns() // 1_000_000)})
        bump = (
            Create(znodes.CONTROLLER_EPOCH, b"1")
            if node is None
            else Set(znodes.CONTROLLER_EPOCH, b"%d" % epoch, node.version)
        )
        await self._registry.multi([bump, Create(znodes.CONTROLLER, value, ephemeral=True)])
        return epoch

    async def _read_options(self) -> dict[str, Mapping[str, str]]:
        found: dict[str, Mapping[str, str]] = {}
        for kind in entities.TYPES:
            for name in await self._registry.children(znodes.config_entity(kind)):
                nested = f"{kind}/{name}{entities.NESTED}"
                below = await self._registry.children(znodes.config_entity(nested))
                for path in (f"{kind}/{name}", *(f"{nested}/{client}" for client in below)):
                    node = await self._registry.get(znodes.config_entity(path))
                    options = znodes.load(node.value).get("config", {}) if node and node.value else {}
                    if options:
                        found[path] = options
        return found

    async def _read_topics(self) -> dict[str, TopicImage]:
        return {name: await self._read_topic(name) for name in await self._registry.children(znodes.TOPICS)}

    async def _read_topic(self, name: str) -> TopicImage:
        node = await self._registry.get(znodes.topic(name))
        assert node is not None
        value = znodes.load(node.value)
        config = await self._registry.get(znodes.config_topic(name))
        partitions = []
        for index in range(len(value["partitions"])):
            replicas = tuple(value["partitions"][str(index)])
            state = await self._registry.get(znodes.partition_state(name, index))
            found = znodes.load(state.value) if state else {"leader": replicas[0], "leader_epoch": 0, "isr": replicas}
            version = state.version if state else 0
            partitions.append(
                PartitionImage(found["leader"], found["leader_epoch"], replicas, tuple(found["isr"]), version)
            )
        options = znodes.load(config.value)["config"] if config else {}
        return TopicImage(name, znodes.uuid_of(value["topic_id"]), tuple(partitions), options)

    async def _lead_again(self) -> None:
        """Give each partition a new leader epoch after a start, so that this run's batches are told from older ones."""
        writes: list[Operation] = []
        renewed: dict[str, TopicImage] = {}
        for name, topic in self.image.topics.items():
            elected = []
            for index, p in enumerate(topic.partitions):
                leader = next((r for r in p.replicas if r in p.isr and r in self.image.brokers), NO_LEADER)
                now = PartitionImage(leader, p.leader_epoch + 1, p.replicas, p.isr, p.state_version + 1)
                value = znodes.state_value(self.image.controller_epoch, leader, now.leader_epoch, now.isr)
                writes.append(Set(znodes.partition_state(name, index), value, p.state_version))
                elected.append(now)
            renewed[name] = replace(topic, partitions=tuple(elected))
        if writes:
            await self._registry.multi([self._guard(), *writes])
            self.image = _with_topics(self.image, renewed)


async def make_persistent_nodes(registry: Registry) -> None:
    """Make the nodes that exist in every cluster."""
    missing = [path for path in znodes.PERSISTENT if await registry.get(path) is None]
    if missing:
        await registry.multi([Create(path) for path in missing])


def _with_topics(image: ClusterImage, all_topics: Mapping[str, TopicImage]) -> ClusterImage:
    return replace(
        image,
        topics=MappingProxyType(dict(all_topics)),
        names=MappingProxyType({topic.id: name for name, topic in all_topics.items()}),
    )


def _broker_value(broker: BrokerImage) -> bytes:
    first: Endpoint = broker.endpoints[0]
    value: dict[str, object] = {
        "listener_security_protocol_map": {e.name: e.protocol for e in broker.endpoints},
        "endpoints": [str(e) for e in broker.endpoints],
        "jmx_port": -1,
        "port": first.port,
        "host": first.host,
        "version": 5,
        "timestamp": str(time.time_ns() // 1_000_000),
    }
    if broker.rack is not None:
        value["rack"] = broker.rack
    return znodes.dump(value)
