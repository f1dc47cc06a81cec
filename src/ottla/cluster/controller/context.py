"""What each change by the controller goes through, and what it knows beyond the image. Kafka's `ControllerContext`.

Changes are made one after the other (`turn`), by who is in term: decided from the image, written to the store in
guarded steps, and only then shown in a new image, here at once, to the other brokers through their channels
(`publish`). Loop thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from ottla.cluster.controller import partition_states, reassignment_rules
from ottla.cluster.controller.channels import ControllerChannels
from ottla.cluster.controller.election import ControllerTerm
from ottla.cluster.controller.leader_election import Candidates
from ottla.cluster.controller.partition_states import States
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store.metadata_store import MetadataStore
from ottla.errors import NotControllerError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition

PROPAGATION_SECONDS: Final = 2.0
"""How long a change that clients have asked for waits until all brokers know of it."""


class ControllerContext:
    """The term, the image, and what is in doubt. Its parts share one: who changes something has the turn."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache, broker_id: int) -> None:
        self.store = store
        self.metadata_cache = metadata_cache
        self.broker_id = broker_id
        self.channels: ControllerChannels | None = None
        """To the other brokers, during a term."""
        self.shutting_down: dict[int, int] = {}
        """Brokers in their controlled shutdown, with their epochs."""
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker, the replicas whose disk has failed: it is alive, but not for these (KIP-112)."""
        self.uncertain: set[TopicPartition] = set()
        """Partitions of which a write came to no clear end: what the store says of them counts."""
        self.lock = asyncio.Lock()
        """Held by who makes a change, also where a term begins or ends."""
        self._term: ControllerTerm | None = None

    def start_term(self, term: ControllerTerm) -> None:
        """A term begins, with nothing known from an earlier one."""
        self._term = term
        self.shutting_down.clear()
        self.offline_replicas.clear()
        self.uncertain.clear()

    def end_term(self) -> None:
        """The term is over."""
        self._term = None

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it."""
        return self.metadata_cache.image

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        # who was paused, or is cut off from the store, may hear of the next one before its own term has ended
        return self._term is not None and self.image.controller_epoch <= self._term.epoch

    @property
    def term(self) -> ControllerTerm:
        """The term; NotControllerError outside of one."""
        if self._term is None or not self.is_active:
            raise NotControllerError
        return self._term

    def retain_brokers(self, alive: Mapping[int, BrokerImage]) -> None:
        """What was known of a broker goes with it; one that is back in another session is another broker."""
        self.shutting_down = {i: e for i, e in self.shutting_down.items() if i in alive and alive[i].epoch == e}
        self.offline_replicas = {i: broken for i, broken in self.offline_replicas.items() if i in alive}

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[ControllerTerm]:
        """One change after the other, by who is in term. What an earlier one left in doubt is read first."""
        async with self.lock:
            term = self.term
            if self.uncertain:
                await self.reload_states(self.uncertain)
            yield term

    async def reload_states(self, partitions: Collection[TopicPartition]) -> None:
        """Go by what the store says of these partitions."""
        selected = set(partitions)
        states: dict[TopicPartition, PartitionImage] = {}
        for name in {tp.topic for tp in selected} & self.image.topics.keys():
            topic = await store_reader.read_topic(self.store, name)
            if topic is not None:
                states.update((TopicPartition(name, i), p) for i, p in enumerate(topic.partitions) if p is not None)
        selected_states = {tp: p for tp, p in states.items() if tp in selected}
        await self.publish(lambda current: with_states(current, selected_states))
        self.uncertain -= selected

    async def write(self, states: States) -> dict[TopicPartition, PartitionImage]:
        """Write states; those that are written. Of the others it has to be read what they are.

        The answer may get lost, and who waits for it may go: a request ends with its connection.
        """
        self.uncertain |= states.keys()
        done = await partition_states.write(self.store, self.term, states)
        self.uncertain -= done.keys()
        return done

    def candidates(self, image: ClusterImage, tp: TopicPartition) -> Candidates:
        """Who may lead a partition."""
        alive: Collection[int] = image.brokers.keys()
        if self.offline_replicas:
            alive = {broker for broker in alive if tp not in self.offline_replicas.get(broker, ())}
        return Candidates(alive, self.shutting_down.keys())

    async def publish(self, change: Callable[[ClusterImage], ClusterImage]) -> None:
        """Show what is written. Where the next controller has told this broker more by now, that stays."""
        epoch = self.term.epoch
        before = self.image
        update = asyncio.ensure_future(
            self.metadata_cache.update(
                lambda current: change(current) if current.controller_epoch <= epoch else current
            )
        )
        await asyncio.sleep(0)  # the image is there: the others need not wait for what this broker makes of it
        if self.channels is not None and self.image is not before:
            self.channels.notify()
        await update
        if self.channels is not None:
            self.channels.notify()

    async def wait_propagated(self) -> None:
        """Wait, not for long, until the other brokers know of what was changed: clients ask them next."""
        if self.channels is not None:
            await self.channels.wait_sent(PROPAGATION_SECONDS)

    def topic(self, name: str) -> TopicImage:
        """A topic that is there, or UnknownTopicOrPartitionError."""
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        return topic


def all_partitions(image: ClusterImage) -> list[tuple[TopicPartition, PartitionImage]]:
    """Every partition with its state."""
    return [(TopicPartition(n, i), p) for n, topic in image.topics.items() for i, p in enumerate(topic.partitions)]


def with_states(image: ClusterImage, states: States) -> ClusterImage:
    """The image with other states of some partitions; those of topics that are gone are left out."""
    by_topic: dict[str, dict[int, PartitionImage]] = {}
    for tp, p in states.items():
        by_topic.setdefault(tp.topic, {})[tp.partition] = p
    existing = {name: changed for name, changed in by_topic.items() if name in image.topics}
    if not existing:
        return image
    topics = dict(image.topics)
    for name, changed in existing.items():
        topics[name] = replace(topics[name], partitions=reassignment_rules.layout(topics[name], changed))
    return image.with_topics(topics)
