"""The controller, which changes topics, partitions, leaders and features. Kafka's `KafkaController`.

Every broker has a Controller object. It is active during its terms (see `election`); otherwise its methods that change
the metadata raise NotControllerError. The steps that all changes have in common are in `context`. This module handles
terms, brokers, leader elections and features. Topics (`topic_lifecycle`), reassignments and ISR updates
(`alter_partition`) have their own modules. A standalone broker is its own controller.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from ottla.cluster.controller import leader_election, partition_states
from ottla.cluster.controller.alter_partition import IsrUpdates
from ottla.cluster.controller.channels import ControllerChannels
from ottla.cluster.controller.context import ControllerContext, all_partitions, with_states
from ottla.cluster.controller.election import ControllerTerm, failures_log
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.controller.reassignment import PartitionReassignments
from ottla.cluster.controller.state_changes import log_state_changes
from ottla.cluster.controller.topic_lifecycle import TopicLifecycle
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import MetadataStore, MetadataStoreError, put
from ottla.errors import BrokerIdNotRegisteredError, KafkaError, NotControllerError, StaleBrokerEpochError
from ottla.latency import LatencyHistogram
from ottla.logs import listed
from ottla.model import TopicPartition

log = logging.getLogger("ottla.controller")

RETRY_SECONDS: Final = 0.1


class Controller:
    """Starts and ends terms, tracks brokers, and elects leaders. Not thread-safe: event loop only."""

    def __init__(
        self,
        store: MetadataStore,
        metadata_cache: MetadataCache,
        broker_id: int,
        channels: Callable[[Controller], ControllerChannels],
        unclean_allowed: Callable[[str, Mapping[str, str]], bool],
    ) -> None:
        """`channels`: creates the channels of a term.

        `unclean_allowed`: returns whether a topic with this name and these configs allows unclean leader election.
        """
        self._context = ControllerContext(store, metadata_cache, broker_id)
        self.topics = TopicLifecycle(self._context)
        self.reassignments = PartitionReassignments(self._context, self.on_brokers_changed)
        self.isr_updates = IsrUpdates(self._context, self.reassignments)
        self._create_channels = channels
        self._unclean_allowed = unclean_allowed
        self._brokers_changed = asyncio.Event()
        self._watcher: asyncio.Task[None] | None = None
        self._was_controller = False
        self.election_times = LatencyHistogram()
        """Durations of leader elections in seconds, without those at the start of a term and in reassignments.

        The election of all partitions of one change counts once.
        """
        self.unclean_elections = 0
        """The number of elections of an out-of-sync leader, which topic configs allowed or an administrator requested;
        records may be lost in them.
        """

    @property
    def image(self) -> ClusterImage:
        return self._context.image

    @property
    def is_active(self) -> bool:
        return self._context.is_active

    @property
    def term(self) -> ControllerTerm:
        """The current term. Raises NotControllerError if this broker is not the controller."""
        return self._context.term

    # Terms

    async def start_term(self, term: ControllerTerm) -> None:
        """Start a term: read the metadata from the store, elect leaders of partitions that need one, and send the image
        to the brokers.
        """
        async with self._context.lock:
            self._context.start_term(term)
            # A change of a topic's configs that is notified now is applied after the topics have been published, or it
            # would be lost.
            async with self._context.metadata_cache.configs_lock:
                image = await self._read(term)
                lost = self._decide(image, Reason.NEW_TERM, all_partitions(image))
                if not self._was_controller:
                    lost = {**_with_new_epochs(image, self._context.broker_id), **lost}
                self._was_controller = True
                done = await partition_states.write(self._context.store, term, lost)
                log_state_changes(image, done, Reason.NEW_TERM.value)
                image = with_states(image, done)
                self._context.uncertain = lost.keys() - done.keys()
                self.topics.start_term(image)
                self._context.channels = self._create_channels(self)
                await self._context.publish(lambda current: replace(image, configs=current.configs))
            self._context.channels.update_brokers(image.brokers.values())
            self._brokers_changed.clear()
            self._watcher = asyncio.get_running_loop().create_task(self._watch_brokers())
        await self.reassignments.complete_finished()

    async def end_term(self) -> None:
        """End the term. Another broker may already be the controller."""
        self._context.end_term()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._context.channels is not None:
            self._context.channels.close()
        async with self._context.lock:
            self._context.channels = None

    async def _read(self, term: ControllerTerm) -> ClusterImage:
        store = self._context.store
        brokers = await store_reader.read_brokers(store)
        stored_topics = await store_reader.read_topics(store)
        configs = await store_reader.read_topic_configs(store)
        marked = set(await store.children(znodes.DELETE_TOPICS))
        features = await store_reader.read_features(store)
        image = replace(
            self._context.image,
            controller_id=self._context.broker_id,
            controller_epoch=term.epoch,
            brokers=MappingProxyType(brokers),
            shutting_down=frozenset(),
        )
        if features is not None:
            image = replace(image, features=features.levels, features_epoch=features.epoch)
        topics = {
            name: await self.topics.complete_stored_topic(topic, configs.get(name, {}), brokers)
            for name, topic in stored_topics.items()
        }
        deleting = {name: topic for name, topic in topics.items() if name in marked}
        image = replace(image, deleting=MappingProxyType(deleting))
        return image.with_topics({name: topic for name, topic in topics.items() if name not in marked})

    # Brokers

    def on_brokers_changed(self) -> None:
        """Schedule a new read of the registered brokers, because one has registered or left. After it, finished
        reassignments are completed.
        """
        self._brokers_changed.set()

    async def _watch_brokers(self) -> None:
        while True:
            try:
                await self._update_brokers(
                    await store_reader.read_brokers(self._context.store, self.on_brokers_changed)
                )
                await self.reassignments.complete_finished()
            except NotControllerError:
                return
            except MetadataStoreError as error:
                failures_log.warning(
                    "Cannot read or apply changes of the live brokers; retrying in %g s: %s", RETRY_SECONDS, error
                )
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:
                log.exception("Cannot read or apply changes of the live brokers; retrying in %g s", RETRY_SECONDS)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._brokers_changed.wait()
            self._brokers_changed.clear()

    async def refresh_brokers(self) -> None:
        """Read the registered brokers now, because one may have just registered."""
        await self._update_brokers(await store_reader.read_brokers(self._context.store))

    async def _update_brokers(self, now: dict[int, BrokerImage]) -> None:
        async with self._context.exclusive():
            before = self._context.image.brokers
            stayed = {i: b for i, b in now.items() if i in before and before[i].epoch == b.epoch}
            if len(stayed) == len(before) == len(now):
                return
            left, new = before.keys() - stayed.keys(), now.keys() - stayed.keys()
            log.info("Live brokers: %s; registered: %s, left: %s", sorted(now), sorted(new), sorted(left))
            self._context.retain_brokers(stayed)
            if len(stayed) < len(before):
                await self._apply_brokers(stayed)
            if len(now) > len(stayed):
                await self._apply_brokers(now)

    async def _apply_brokers(self, brokers: dict[int, BrokerImage]) -> None:
        """Elect leaders after a change of the live brokers, and publish both."""
        image = replace(self._context.image, brokers=MappingProxyType(brokers))
        done = await self._elect(image, Reason.BROKERS, all_partitions(image))
        await self._context.publish(
            lambda current: with_states(
                replace(
                    current, brokers=MappingProxyType(brokers), shutting_down=frozenset(self._context.shutting_down)
                ),
                done,
            )
        )
        if self._context.channels is not None:
            self._context.channels.update_brokers(brokers.values())

    async def controlled_shutdown(self, broker_id: int, epoch: int) -> list[TopicPartition]:
        """Move a broker's leaderships to other brokers (KIP-49, KIP-380).

        Return the partitions that the broker still leads, except those with only one replica. Raises
        BrokerIdNotRegisteredError, StaleBrokerEpochError if `epoch` is that of an earlier registration, or
        NotControllerError.
        """
        async with self._context.exclusive():
            broker = self._context.image.brokers.get(broker_id)
            if broker is None:
                raise BrokerIdNotRegisteredError
            if -1 < epoch < broker.epoch:
                raise StaleBrokerEpochError
            log.info("Controlled shutdown of broker %d: moving its leaders to other brokers", broker_id)
            self._context.shutting_down[broker_id] = broker.epoch
            image = replace(self._context.image, shutting_down=frozenset(self._context.shutting_down))
            mine = [(tp, p) for tp, p in all_partitions(image) if broker_id in p.isr]
            done = await self._elect(image, Reason.SHUTDOWN, mine)
            await self._context.publish(
                lambda current: with_states(replace(current, shutting_down=image.shutting_down), done)
            )
        await self._context.wait_propagated()
        left = all_partitions(self._context.image)
        return [tp for tp, p in left if p.leader == broker_id and len(p.replicas) > 1]

    # Leaders

    async def elect(
        self, reason: Reason, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionImage]:
        """Elect leaders of these partitions; None: of all partitions. Return the states that have changed."""
        async with self._context.exclusive():
            image = self._context.image
            selected = None if partitions is None else set(partitions)
            chosen = [(tp, p) for tp, p in all_partitions(image) if selected is None or tp in selected]
            done = await self._elect(image, reason, chosen)
            await self._context.publish(lambda current: with_states(current, done))
        await self._context.wait_propagated()
        return done

    def _decide(
        self, image: ClusterImage, reason: Reason, partitions: Iterable[tuple[TopicPartition, PartitionImage]]
    ) -> dict[TopicPartition, PartitionImage]:
        """Return the states that an election changes.

        If no in-sync replica is alive after brokers have changed or in a new term, elect an unclean leader if the
        topic's configs allow it.
        """
        decide = leader_election.DECISIONS[reason]
        changed = {}
        for tp, p in partitions:
            candidates = self._context.candidates(image, tp)
            after = decide(p, candidates)
            is_leaderless = (after or p).leader == NO_LEADER and reason in (Reason.NEW_TERM, Reason.BROKERS)
            if is_leaderless and self._unclean_allowed(tp.topic, image.topics[tp.topic].configs):
                after = leader_election.unclean(p, candidates)
            if after is not None:
                self.unclean_elections += after.leader not in (NO_LEADER, *p.isr)
                changed[tp] = after
        return changed

    async def on_replicas_offline(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """Elect leaders of the partitions whose replicas a broker reports as offline, and remove these replicas from
        ISRs in which others are alive.

        Replicas that it has reported before are ignored.
        """
        async with self._context.exclusive():
            offline = self._context.offline_replicas.setdefault(broker_id, set())
            new = set(partitions) - offline
            if not new:
                return
            log.warning(
                "Broker %d reports replicas as offline; electing other leaders for those that lead: %s",
                broker_id,
                listed(sorted(new)),
            )
            offline |= new
            image = self._context.image
            try:
                lost = [(tp, p) for tp, p in all_partitions(image) if tp in new]
                done = await self._elect(image, Reason.BROKERS, lost)
            except KafkaError:
                offline -= new  # the broker will report them again, and they must count as new then
                raise
            await self._context.publish(lambda current: with_states(current, done))

    def check_log_dirs(self, broker_id: int) -> None:
        """Have the complete image sent to a broker again: its LeaderAndIsr response lists the replicas that are
        offline.
        """
        if self._context.channels is not None:
            self._context.channels.resend_all(broker_id)

    async def _elect(
        self, image: ClusterImage, reason: Reason, partitions: Iterable[tuple[TopicPartition, PartitionImage]]
    ) -> dict[TopicPartition, PartitionImage]:
        """Elect leaders, and write the changed states.

        If another broker has changed a state meanwhile, read it and elect again. Return the new states: those that were
        written, or that another broker has written.
        """
        began = time.perf_counter()
        done: dict[TopicPartition, PartitionImage] = {}
        todo = list(partitions)
        while todo:
            changes = self._decide(image, reason, todo)
            written = await self._context.write(changes)
            log_state_changes(image, written, reason.value)
            done.update(written)
            todo = [
                (tp, now)
                for tp in changes.keys() - written.keys()
                if (now := await self._read_state(image, tp)) is not None
            ]
            done.update(todo)
            self._context.uncertain -= changes.keys()
        self.election_times.record(time.perf_counter() - began)
        return done

    async def _read_state(self, image: ClusterImage, tp: TopicPartition) -> PartitionImage | None:
        node = await self._context.store.get(znodes.partition_state(*tp))
        p = image.partition(tp)
        return (
            None if node is None or p is None else store_reader.partition_image(node, p.replicas, p.adding, p.removing)
        )

    # Features

    async def set_features(self, levels: Mapping[str, int]) -> None:
        """Set the levels of features, without validating them. Level 0 disables a feature."""
        async with self._context.exclusive() as term:
            image = self._context.image
            changed = {name: level for name, level in {**image.features, **levels}.items() if level}
            write = await put(self._context.store, znodes.FEATURE, znodes.feature_value(changed))
            await partition_states.write_fenced(self._context.store, term, [write])
            # This broker may have read the new levels from the store already.
            epoch = image.features_epoch + 1
            await self._context.publish(lambda current: replace(current, features=changed, features_epoch=epoch))


def _with_new_epochs(image: ClusterImage, broker_id: int) -> dict[TopicPartition, PartitionImage]:
    """Return the partitions that this broker leads, with incremented leader epochs, so that batches from before its
    restart have an older epoch than new ones.
    """
    return {tp: replace(p, leader_epoch=p.leader_epoch + 1) for tp, p in all_partitions(image) if p.leader == broker_id}
