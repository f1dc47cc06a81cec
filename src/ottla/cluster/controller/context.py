"""The controller's state, and the steps that all changes of metadata have in common. Kafka's `ControllerContext`.

During a term, changes are made one after the other (`exclusive`). A change is computed from the image, written to the
metadata store with a check of the controller epoch, and only then published as a new image (`publish`): first in this
broker, then to the other brokers through their channels.
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
"""Maximum time in seconds to wait until all brokers have received a change."""


class ControllerContext:
    """The current term, the cluster image, and the controller's state that is not part of the image.

    Not thread-safe: event loop only.
    """

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache, broker_id: int) -> None:
        self.store = store
        self.metadata_cache = metadata_cache
        self.broker_id = broker_id
        self.channels: ControllerChannels | None = None
        """The channels to the brokers; None outside a term."""
        self.shutting_down: dict[int, int] = {}
        """The brokers that are in their controlled shutdown, with their broker epochs."""
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """The offline replicas of live brokers, such as those on failed disks, by broker id (KIP-112)."""
        self.uncertain: set[TopicPartition] = set()
        """Partitions whose state in the store is unknown, because their last write has failed or may have failed.

        They are read again before the next change.
        """
        self.lock = asyncio.Lock()
        """Held during a change, and while a term starts or ends."""
        self._marked: Collection[TopicPartition] = ()
        """The partitions of which the image has offline replicas of live brokers."""
        self._term: ControllerTerm | None = None

    def start_term(self, term: ControllerTerm) -> None:
        """Start a term, and drop the state of an earlier one."""
        self._term = term
        self.shutting_down.clear()
        self.offline_replicas.clear()
        self.uncertain.clear()

    def end_term(self) -> None:
        self._term = None

    @property
    def image(self) -> ClusterImage:
        return self.metadata_cache.image

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        # A broker that was paused, or has lost its connection to the store, may receive the next controller's image
        # before its own term has ended.
        return self._term is not None and self.image.controller_epoch <= self._term.epoch

    @property
    def term(self) -> ControllerTerm:
        """The current term. Raises NotControllerError if this broker is not the controller."""
        if self._term is None or not self.is_active:
            raise NotControllerError
        return self._term

    def retain_brokers(self, alive: Mapping[int, BrokerImage]) -> None:
        """Remove the state of brokers that have left.

        A broker that has registered again is no longer in its controlled shutdown.
        """
        self.shutting_down = {i: e for i, e in self.shutting_down.items() if i in alive and alive[i].epoch == e}
        self.offline_replicas = {i: broken for i, broken in self.offline_replicas.items() if i in alive}

    def forget_offline_replicas(self, topic: str) -> None:
        """Remove the offline replicas of a deleted topic: a new topic with its name has other logs."""
        self.offline_replicas = {
            broker: {tp for tp in partitions if tp.topic != topic}
            for broker, partitions in self.offline_replicas.items()
        }

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[ControllerTerm]:
        """Exclude other changes of the metadata while the block runs (context manager).

        Partitions whose last write is uncertain are read first. Raises NotControllerError outside a term.
        """
        async with self.lock:
            term = self.term
            if self.uncertain:
                await self.reload_states(self.uncertain)
            yield term

    async def reload_states(self, partitions: Collection[TopicPartition]) -> None:
        """Read the states of these partitions from the store, and apply them to the image."""
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
        """Write states to the store.

        Return the states that were written. The caller has to read the others again, because they have been changed or
        deleted meanwhile.

        All partitions of `states` count as uncertain until the write returns, because the response may be lost, or the
        task may be cancelled when its client disconnects. Those that were not written stay uncertain.
        """
        self.uncertain |= states.keys()
        done = await partition_states.write(self.store, self.term, states)
        self.uncertain -= done.keys()
        return done

    def candidates(self, image: ClusterImage, tp: TopicPartition) -> Candidates:
        """Return the candidates of an election: the live brokers that have not reported their replica as offline."""
        alive: Collection[int] = image.brokers.keys()
        if self.offline_replicas:
            alive = {broker for broker in alive if tp not in self.offline_replicas.get(broker, ())}
        return Candidates(alive, self.shutting_down.keys(), image.brokers)

    async def publish(self, change: Callable[[ClusterImage], ClusterImage]) -> None:
        """Apply a change to the image, mark offline replicas of live brokers, and have the image sent to the other
        brokers.

        Raises NotControllerError if this broker is not the controller. An image of a newer controller that arrives
        meanwhile is not changed. Cancelling the caller stops neither the change nor its way to the other brokers.
        """
        epoch = self.term.epoch
        loop = asyncio.get_running_loop()

        def decide(current: ClusterImage) -> ClusterImage:
            if current.controller_epoch > epoch:
                return current
            # Called once the image has changed: the other brokers need not wait for this broker's listeners.
            loop.call_soon(self._notify_channels)
            return self._with_failed(change(current))

        await self.metadata_cache.update(decide)

    def _notify_channels(self) -> None:
        if self.channels is not None:
            self.channels.notify()

    def _with_failed(self, image: ClusterImage) -> ClusterImage:
        """Return the image with the offline replicas of live brokers as `PartitionImage.failed`."""
        failed: dict[TopicPartition, tuple[int, ...]] = {}
        for broker_id, partitions in self.offline_replicas.items():
            for tp in partitions:
                failed[tp] = (*failed.get(tp, ()), broker_id)
        marked, self._marked = self._marked, failed.keys()
        states = {tp: (p, failed.get(tp, ())) for tp in {*failed, *marked} if (p := image.partition(tp)) is not None}
        return with_states(image, {tp: replace(p, failed=now) for tp, (p, now) in states.items() if p.failed != now})

    async def wait_propagated(self) -> None:
        """Wait until the other brokers have received the current image, at most PROPAGATION_SECONDS, because a client
        may send its next request to any of them.
        """
        if self.channels is not None:
            await self.channels.wait_sent(PROPAGATION_SECONDS)

    def topic(self, name: str) -> TopicImage:
        topic = self.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        return topic


def all_partitions(image: ClusterImage) -> list[tuple[TopicPartition, PartitionImage]]:
    return [(TopicPartition(n, i), p) for n, topic in image.topics.items() for i, p in enumerate(topic.partitions)]


def with_states(image: ClusterImage, states: States) -> ClusterImage:
    """Return the image with new states of some partitions. States of topics that are not in the image are ignored."""
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
