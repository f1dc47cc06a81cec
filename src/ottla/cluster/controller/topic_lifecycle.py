"""Topics come, grow and go: what of it is the controller's. Every change is one turn of the `ControllerContext`."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ottla.cluster.controller import leader_election, partition_states, reassignment_rules
from ottla.cluster.controller.context import ControllerContext
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import ClusterImage, TopicImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, Delete, NodeExistsError, Operation, Set, put
from ottla.errors import InvalidPartitionsError, TopicAlreadyExistsError
from ottla.model import TopicPartition


class TopicLifecycle:
    """Creates and deletes topics, gives them more partitions, and follows those that others write into the tree."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._undeleted: dict[str, set[int]] = {}
        """By topic that is being deleted, the brokers that have logs of it yet."""

    def begin(self, image: ClusterImage) -> None:
        """A term begins: deletions go on."""
        self._undeleted = {name: _holders(topic) for name, topic in image.deleting.items()}

    async def create(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        options: Mapping[str, str],
        topic_id: uuid.UUID | None = None,
    ) -> TopicImage:
        """Create a topic with checked name, replicas and options."""
        async with self._context.turn() as office:
            image = self._context.image
            if name in image.topics or name in image.deleting:
                raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
            alive = image.brokers.keys()
            partitions = tuple(leader_election.new_partition(tuple(replicas), alive) for replicas in assignment)
            topic = TopicImage(name, topic_id or uuid.uuid4(), partitions, dict(options))
            # older tools leave the options of a topic that they delete
            config = await put(self._context.store, znodes.config_topic(name), znodes.config_value(options))
            writes: list[Operation] = [
                Create(znodes.topic(name), znodes.topic_value(topic.id, assignment)),
                Create(znodes.partitions(name)),
                config,
                *partition_states.creations(office, name, 0, partitions),
            ]
            try:
                await partition_states.guarded_in_turn(self._context.store, office, writes)
            except NodeExistsError:
                raise TopicAlreadyExistsError(f"Topic '{name}' already exists.") from None
            await self._context.publish(lambda view: view.with_topics({**view.topics, name: topic}))
        await self._context.settle()
        return topic

    async def add_partitions(self, name: str, added: Sequence[Sequence[int]], count: int) -> None:
        """Give a topic more partitions, so that it has `count`; an error where another was faster with that."""
        async with self._context.turn() as office:
            topic = self._context.topic(name)
            old = len(topic.partitions)
            if not added or old + len(added) != count:
                raise InvalidPartitionsError(f"topic {name} has {old} partition(s) already")
            new = tuple(leader_election.new_partition(tuple(r), self._context.image.brokers.keys()) for r in added)
            whole = replace(topic, partitions=topic.partitions + new)
            writes = [
                Set(znodes.topic(name), reassignment_rules.topic_value(whole)),
                *partition_states.creations(office, name, old, new),
            ]
            await partition_states.guarded_in_turn(self._context.store, office, writes)
            await self._context.publish(lambda view: view.with_topics({**view.topics, name: whole}))
        await self._context.settle()

    async def take(self, name: str) -> None:
        """Follow a topic, or more partitions of one, that another has written into the tree."""
        async with self._context.turn():
            found = await store_reader.read_topic(self._context.store, name)
            known = self._context.image.topics.get(name)
            if found is None or name in self._context.image.deleting:
                return
            if known is not None and len(known.partitions) >= len(found.partitions) and found.id == known.id:
                return
            options = await store_reader.read_entity(self._context.store, znodes.config_topic(name))
            topic = await self.completed(found, options, self._context.image.brokers.keys())
            if known is not None:
                # those that are led already stay as they are: their states are this controller's own
                topic = replace(topic, partitions=known.partitions + topic.partitions[len(known.partitions) :])
            await self._context.publish(lambda view: view.with_topics({**view.topics, name: topic}))

    async def delete(self, name: str) -> None:
        """Delete a topic: it is not served any more, and its nodes go when all its logs are gone."""
        async with self._context.turn() as office:
            topic = self._context.topic(name)
            if await self._context.store.get(znodes.delete_topic(name)) is None:
                await partition_states.guarded(self._context.store, office, [Create(znodes.delete_topic(name))])
            self._undeleted[name] = _holders(topic)
            await self._context.publish(
                lambda view: replace(
                    view.with_topics({n: t for n, t in view.topics.items() if n != name}),
                    deleting=MappingProxyType({**view.deleting, name: topic}),
                )
            )
        await self._context.settle()

    async def replicas_deleted(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker has deleted these replicas; a topic that nobody has any more is gone."""
        async with self._context.turn():
            for name in {tp.topic for tp in partitions} & self._undeleted.keys():
                self._undeleted[name].discard(broker_id)
                if not self._undeleted[name]:
                    await self._forget(name)

    async def _forget(self, name: str) -> None:
        """Remove the nodes of a deleted topic."""
        topic = self._context.image.deleting[name]
        paths: list[str] = []
        for index in range(len(topic.partitions)):
            paths += [znodes.partition_state(name, index), znodes.partition(name, index)]
        paths += [znodes.partitions(name), znodes.topic(name), znodes.config_topic(name), znodes.delete_topic(name)]
        # an earlier attempt may have come half way
        there = await store_reader.get_all(self._context.store, paths)
        writes = [Delete(path) for path, node in zip(paths, there, strict=True) if node is not None]
        await partition_states.guarded_in_turn(self._context.store, self._context.office, writes)
        del self._undeleted[name]
        left = {n: t for n, t in self._context.image.deleting.items() if n != name}
        await self._context.publish(lambda view: replace(view, deleting=MappingProxyType(left)))

    async def completed(
        self, found: store_reader.StoredTopic, options: Mapping[str, str], alive: Collection[int]
    ) -> TopicImage:
        """A topic from the tree; what tools of older versions leave out, id and states, is made."""
        name, office, topic_id = found.name, self._context.office, found.id
        writes: list[Operation] = []
        if topic_id is None:
            # older tools write a topic without an id, also one that had it: its logs carry that id
            known = self._context.image.topics.get(name)
            topic_id = uuid.uuid4() if known is None else known.id
            value = znodes.topic_value(topic_id, found.replicas, found.adding, found.removing)
            writes.append(Set(znodes.topic(name), value, found.version))
        if not found.has_parent:
            writes.append(Create(znodes.partitions(name)))
        partitions = []
        for index, (p, replicas) in enumerate(zip(found.partitions, found.replicas, strict=True)):
            if p is None:
                p = leader_election.new_partition(replicas, alive)
                writes += partition_states.creations(office, name, index, [p])
            partitions.append(p)
        if writes:
            await partition_states.guarded_in_turn(self._context.store, office, writes)
        return TopicImage(name, topic_id, tuple(partitions), options)


def _holders(topic: TopicImage) -> set[int]:
    return {broker for p in topic.partitions for broker in p.replicas}
