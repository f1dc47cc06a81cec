"""Topic creation, partition expansion and topic deletion in the controller."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.controller import leader_election, partition_states, reassignment_rules
from ottla.cluster.controller.context import ControllerContext
from ottla.cluster.controller.election import ControllerTerm
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import ClusterImage, TopicImage
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, Delete, NodeExistsError, Operation, Set
from ottla.errors import InvalidPartitionsError, KafkaError, TopicAlreadyExistsError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from ottla.cluster.interbroker.request_batcher import RequestBatcher

log = logging.getLogger("ottla.controller")


_Replica = tuple[int, int]
"""A replica of a topic: the number of its partition, and its broker's id."""


class _NewTopic(NamedTuple):
    """A topic to create. `by`: a suffix of the log line, which names the client (see `RequestContext.by`)."""

    name: str
    assignment: Sequence[tuple[int, ...]]
    configs: Mapping[str, str]
    id: uuid.UUID
    by: str


class _Creation(NamedTuple):
    """A new topic and its znodes."""

    topic: TopicImage
    writes: Sequence[Operation]


class TopicLifecycle:
    """Creates, expands and deletes topics, and applies topics that tools write to the metadata store."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._remaining_replicas: dict[str, set[_Replica]] = {}
        """For each topic that is being deleted, the replicas whose brokers have not reported yet that they deleted the
        log.
        """

    def start_term(self, image: ClusterImage) -> None:
        """Continue the deletions of earlier terms."""
        self._remaining_replicas = {name: _replicas(topic) for name, topic in image.deleting.items()}

    async def create(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        configs: Mapping[str, str],
        topic_id: uuid.UUID | None = None,
        by: str = "",
    ) -> TopicImage:
        """Create a topic, without validating its name, replicas and configs.

        `by`: a suffix of the log line, which names the client. Raises TopicAlreadyExistsError, NotControllerError, or
        the error of the metadata store.

        Topics that are requested at the same time are created by one change of the image, because the cost of a change
        grows with the number of topics in the cluster. Cancelling the caller does not stop a creation that has begun.
        """
        new = _NewTopic(name, [tuple(replicas) for replicas in assignment], configs, topic_id or uuid.uuid4(), by)
        result = await self._batcher.submit(self._context.broker_id, new)
        if isinstance(result, KafkaError):
            raise result
        await self._context.wait_propagated()
        return result

    @cached_property
    def _batcher(self) -> RequestBatcher[_NewTopic, TopicImage | KafkaError]:
        from ottla.cluster.interbroker.request_batcher import RequestBatcher  # a broker starts without it

        return RequestBatcher(self._create_all)

    async def _create_all(self, _controller_id: int, new: Sequence[_NewTopic]) -> list[TopicImage | KafkaError]:
        """Create topics with one change of the image. Return, for each, its image or the error."""
        results: list[TopicImage | KafkaError] = [_already_exists(topic.name) for topic in new]
        async with self._context.exclusive() as term:
            image = self._context.image
            seen: set[str] = set()
            creations: dict[int, _Creation] = {}
            configs = await store_reader.get_all(self._context.store, [znodes.config_topic(n.name) for n in new])
            for index, (request, config) in enumerate(zip(new, configs, strict=True)):
                if not any(request.name in names for names in (image.topics, image.deleting, seen)):
                    seen.add(request.name)
                    creations[index] = _creation(term, request, image.brokers.keys(), has_config=config is not None)
            for group in _transactions(creations):
                results_of_group = await self._write_creations(term, [creations[index] for index in group])
                for index, result in zip(group, results_of_group, strict=True):
                    results[index] = result
            created = {topic.name: topic for topic in results if isinstance(topic, TopicImage)}
            for index, creation in creations.items():
                if creation.topic.name in created:
                    _log_created(creation.topic, new[index])
            if created:
                await self._context.publish(lambda current: current.with_topics({**current.topics, **created}))
        return results

    async def _write_creations(
        self, term: ControllerTerm, creations: Sequence[_Creation]
    ) -> list[TopicImage | KafkaError]:
        """Write topics together. If a tool has created one of them meanwhile, write them one by one."""
        writes = [write for creation in creations for write in creation.writes]
        try:
            await partition_states.write_fenced_in_batches(self._context.store, term, writes)
        except NodeExistsError:
            if len(creations) == 1:
                return [_already_exists(creations[0].topic.name)]
            return [result for c in creations for result in await self._write_creations(term, [c])]
        except KafkaError as error:
            return [error] * len(creations)
        return [creation.topic for creation in creations]

    async def add_partitions(self, name: str, added: Sequence[Sequence[int]], count: int, by: str = "") -> None:
        """Add partitions to a topic, so that it has `count`. `added`: the replicas of each new partition.

        Raises InvalidPartitionsError if the current number of partitions plus those in `added` is not `count`, or
        `added` is empty, and UnknownTopicOrPartitionError if the topic does not exist.
        """
        async with self._context.exclusive() as term:
            topic = self._context.topic(name)
            old = len(topic.partitions)
            if not added or old + len(added) != count:
                raise InvalidPartitionsError(f"Topic '{name}' has {old} partition(s) now")
            new = tuple(leader_election.new_partition(tuple(r), self._context.image.brokers.keys()) for r in added)
            expanded = replace(topic, partitions=topic.partitions + new)
            writes = [
                Set(znodes.topic(name), reassignment_rules.topic_value(expanded)),
                *partition_states.creations(term, name, old, new),
            ]
            await partition_states.write_fenced_in_batches(self._context.store, term, writes)
            log.info("Expanded topic %s: partitions=%d added=%d%s", name, count, len(added), by)
            # the topic's configs may have changed meanwhile
            await self._context.publish(
                lambda current: current.with_topics(
                    {**current.topics, name: replace(current.topics[name], partitions=expanded.partitions)}
                )
            )
        await self._context.wait_propagated()

    async def read_topic(self, name: str) -> None:
        """Read a topic that a tool has written to the metadata store, and apply it: the whole topic if it is new; its
        id, configs and new partitions if its id differs or it has more partitions than before.
        """
        async with self._context.exclusive():
            stored = await store_reader.read_topic(self._context.store, name)
            existing = self._context.image.topics.get(name)
            if stored is None or name in self._context.image.deleting:
                return
            if existing is not None and len(existing.partitions) >= len(stored.partitions) and stored.id == existing.id:
                return
            configs = await store_reader.read_entity_configs(self._context.store, znodes.config_topic(name))
            topic = await self.complete_stored_topic(stored, configs, self._context.image.brokers.keys())
            if existing is not None:
                # existing partitions stay as they are: this controller has written their states
                topic = replace(topic, partitions=existing.partitions + topic.partitions[len(existing.partitions) :])
            log.info(
                "Topic %s was created or changed in the metadata store: partitions=%d", name, len(topic.partitions)
            )
            await self._context.publish(lambda current: current.with_topics({**current.topics, name: topic}))

    async def delete(self, name: str, by: str = "") -> None:
        """Delete a topic. It is unavailable at once; its znodes are deleted when all brokers have deleted its logs.

        Raises UnknownTopicOrPartitionError if it does not exist.
        """
        async with self._context.exclusive() as term:
            topic = self._context.topic(name)
            if await self._context.store.get(znodes.delete_topic(name)) is None:
                await partition_states.write_fenced(self._context.store, term, [Create(znodes.delete_topic(name))])
            self._remaining_replicas[name] = _replicas(topic)
            log.info("Deleting topic %s: partitions=%d%s", name, len(topic.partitions), by)
            await self._context.publish(
                lambda current: replace(
                    current.with_topics({n: t for n, t in current.topics.items() if n != name}),
                    deleting=MappingProxyType({**current.deleting, name: topic}),
                )
            )
        await self._context.wait_propagated()

    async def on_replicas_deleted(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Record that a broker has deleted replicas. If these were the last ones of a topic that is being deleted,
        delete the topic's znodes.

        A broker may report a replica that a reassignment has removed while it still has others of the topic.
        """
        async with self._context.exclusive():
            for tp in partitions:
                if tp.topic in self._remaining_replicas:
                    self._remaining_replicas[tp.topic].discard((tp.partition, broker_id))
            for name in {tp.topic for tp in partitions} & self._remaining_replicas.keys():
                if not self._remaining_replicas[name]:
                    await self._delete_znodes(name)

    async def _delete_znodes(self, name: str) -> None:
        topic = self._context.image.deleting[name]
        paths: list[str] = []
        for index in range(len(topic.partitions)):
            paths += [znodes.partition_state(name, index), znodes.partition(name, index)]
        paths += [znodes.partitions(name), znodes.topic(name), znodes.config_topic(name), znodes.delete_topic(name)]
        # an earlier attempt may have deleted some of the znodes
        nodes = await store_reader.get_all(self._context.store, paths)
        writes = [Delete(path) for path, node in zip(paths, nodes, strict=True) if node is not None]
        await partition_states.write_fenced_in_batches(self._context.store, self._context.term, writes)
        log.info("Deleted topic %s", name)
        del self._remaining_replicas[name]
        self._context.forget_offline_replicas(name)
        left = {n: t for n, t in self._context.image.deleting.items() if n != name}
        await self._context.publish(lambda current: replace(current, deleting=MappingProxyType(left)))

    async def complete_stored_topic(
        self, stored: store_reader.StoredTopic, configs: Mapping[str, str], alive: Collection[int]
    ) -> TopicImage:
        """Return the image of a topic in the metadata store.

        If its id or partition states are missing, create and write them: older tools do not write them.
        """
        name, term, topic_id = stored.name, self._context.term, stored.id
        writes: list[Operation] = []
        if topic_id is None:
            # Older tools rewrite a topic without its id, although the id is stored with its logs.
            current = self._context.image.topics.get(name)
            topic_id = uuid.uuid4() if current is None else current.id
            value = znodes.topic_value(topic_id, stored.replicas, stored.adding, stored.removing)
            writes.append(Set(znodes.topic(name), value, stored.version))
        if not stored.has_parent:
            writes.append(Create(znodes.partitions(name)))
        partitions = []
        for index, (p, replicas) in enumerate(zip(stored.partitions, stored.replicas, strict=True)):
            if p is None:
                p = leader_election.new_partition(replicas, alive)
                writes += partition_states.creations(term, name, index, [p])
            partitions.append(p)
        if writes:
            await partition_states.write_fenced_in_batches(self._context.store, term, writes)
        return TopicImage(name, topic_id, tuple(partitions), configs)


def _replicas(topic: TopicImage) -> set[_Replica]:
    return {(index, broker) for index, p in enumerate(topic.partitions) for broker in p.replicas}


def _already_exists(name: str) -> TopicAlreadyExistsError:
    return TopicAlreadyExistsError(f"Topic '{name}' already exists.")


def _creation(term: ControllerTerm, new: _NewTopic, alive: Collection[int], *, has_config: bool) -> _Creation:
    partitions = tuple(leader_election.new_partition(replicas, alive) for replicas in new.assignment)
    config = znodes.config_topic(new.name), znodes.config_value(new.configs)
    writes: list[Operation] = [
        Create(znodes.topic(new.name), znodes.topic_value(new.id, new.assignment)),
        Create(znodes.partitions(new.name)),
        # older tools do not delete the configs of a topic that they delete
        Set(*config) if has_config else Create(*config),
        *partition_states.creations(term, new.name, 0, partitions),
    ]
    return _Creation(TopicImage(new.name, new.id, partitions, dict(new.configs)), writes)


def _transactions(creations: Mapping[int, _Creation]) -> Iterator[list[int]]:
    """Group topics for transactions, and yield the keys of each group.

    A topic with many partitions is a separate group.
    """
    group: list[int] = []
    size = 0
    for index, creation in creations.items():
        if group and size + len(creation.writes) > partition_states.MAX_STATES:
            yield group
            group, size = [], 0
        group.append(index)
        size += len(creation.writes)
    if group:
        yield group


def _log_created(topic: TopicImage, new: _NewTopic) -> None:
    log.info(
        "Created topic %s: partitions=%d replication_factor=%d id=%s configs=%s%s",
        topic.name,
        len(topic.partitions),
        len(new.assignment[0]),
        znodes.uuid_text(topic.id),
        dict(topic.configs),
        new.by,
    )
