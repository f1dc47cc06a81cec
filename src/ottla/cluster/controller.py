"""The controller: the one place that changes what the cluster agrees on. Kafka's `KafkaController`.

Every broker has one; it works while it is in office (see `contest`), and raises NotControllerError otherwise. Each
change is decided without I/O, written to the registry in guarded steps, and only then shown in a new `ClusterImage`:
here at once, to the other brokers through their channels. Changes are made one after the other. A broker by itself is
its own controller.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.cluster import elections, partition_states, reassignments, tree, znodes
from ottla.cluster.contest import Office
from ottla.cluster.controller_channels import ControllerChannels
from ottla.cluster.elections import Candidates, Reason
from ottla.cluster.metadata import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.registry import Create, Delete, NodeExistsError, Operation, Registry, RegistryError, Set, put
from ottla.cluster.view import ClusterView
from ottla.errors import (
    BrokerIdNotRegisteredError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidPartitionsError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    KafkaError,
    NoReassignmentInProgressError,
    NotControllerError,
    StaleBrokerEpochError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition

log = logging.getLogger("ottla.cluster")

SETTLE_SECONDS: Final = 2.0
"""How long a change that clients have asked for waits until all brokers know of it."""
RETRY_SECONDS: Final = 0.1

States = Mapping[TopicPartition, PartitionImage]


class Proposal(NamedTuple):
    """An ISR as a leader wants it, and the state of the partition that it starts from."""

    tp: TopicPartition
    leader_epoch: int
    state_version: int
    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int] = MappingProxyType({})
    """Epochs of the brokers in it, as far as the leader knows them."""


class Controller:
    """Creates, changes and deletes topics, elects leaders, follows brokers. Loop thread."""

    def __init__(
        self,
        registry: Registry,
        view: ClusterView,
        broker_id: int,
        channels: Callable[[Controller], ControllerChannels],
        unclean_allowed: Callable[[Mapping[str, str]], bool],
    ) -> None:
        """`channels` makes the channels of a term; `unclean_allowed` knows from a topic's options."""
        self._registry = registry
        self._view = view
        self._broker_id = broker_id
        self._channels_of = channels
        self._unclean_allowed = unclean_allowed
        self._lock = asyncio.Lock()
        self._office: Office | None = None
        self._channels: ControllerChannels | None = None
        self._leaving: dict[int, int] = {}
        """Brokers in their controlled shutdown, with their epochs."""
        self._broken: dict[int, set[TopicPartition]] = {}
        """By broker, the replicas whose disk has failed: it is alive, but not for these (KIP-112)."""
        self._undeleted: dict[str, set[int]] = {}
        """By topic that is being deleted, the brokers that have logs of it yet."""
        self._in_doubt: set[TopicPartition] = set()
        """Partitions of which a write came to no clear end: what the registry says of them counts."""
        self._brokers_changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._has_led = False

    @property
    def image(self) -> ClusterImage:
        """The cluster as this broker knows it."""
        return self._view.image

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        # who was paused, or is cut off from the registry, may hear of the next one before its own term has ended
        return self._office is not None and self._view.image.controller_epoch <= self._office.epoch

    @property
    def office(self) -> Office:
        """The term; NotControllerError outside of one."""
        if self._office is None or not self.is_active:
            raise NotControllerError
        return self._office

    # Terms

    async def begin(self, office: Office) -> None:
        """Take office: read everything, have every partition led that can be, and tell the brokers."""
        async with self._lock:
            self._office = office
            self._leaving.clear()
            self._broken.clear()
            self._in_doubt.clear()
            image = await self._read(office)
            lost = self._elected(image, Reason.BROKERS, _all(image))
            if not self._has_led:
                lost = {**_renewed(image, self._broker_id), **lost}
            self._has_led = True
            done = await partition_states.write(self._registry, office, lost)
            image = _with_states(image, done)
            self._in_doubt = lost.keys() - done.keys()
            self._undeleted = {name: _holders(topic) for name, topic in image.deleting.items()}
            self._channels = self._channels_of(self)
            await self._publish(lambda view: replace(image, options=view.options))
            self._channels.follow(image.brokers.values())
            self._brokers_changed.clear()
            self._watching = asyncio.get_running_loop().create_task(self._watch_brokers())
        await self._go_on_moving()

    async def end(self) -> None:
        """The term is over; another broker may be in office already."""
        self._office = None
        if self._watching is not None:
            self._watching.cancel()
        if self._channels is not None:
            self._channels.close()
        async with self._lock:
            self._channels = None

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Office]:
        """One change after the other, by who is in office. What an earlier one left in doubt is read first."""
        async with self._lock:
            office = self.office
            if self._in_doubt:
                await self._take_states(self._in_doubt)
            yield office

    async def _take_states(self, partitions: Collection[TopicPartition]) -> None:
        """Go by what the registry says of these partitions."""
        wanted = set(partitions)
        states: dict[TopicPartition, PartitionImage] = {}
        for name in {tp.topic for tp in wanted} & self._view.image.topics.keys():
            found = await tree.read_topic(self._registry, name)
            if found is not None:
                states.update((TopicPartition(name, i), p) for i, p in enumerate(found.partitions) if p is not None)
        known = {tp: p for tp, p in states.items() if tp in wanted}
        await self._publish(lambda view: _with_states(view, known))
        self._in_doubt -= wanted

    async def _write(self, states: States) -> dict[TopicPartition, PartitionImage]:
        """Write states; those that are written. Of the others it has to be read what they are.

        The answer may get lost, and who waits for it may go: a request ends with its connection.
        """
        self._in_doubt |= states.keys()
        done = await partition_states.write(self._registry, self.office, states)
        self._in_doubt -= done.keys()
        return done

    async def _read(self, office: Office) -> ClusterImage:
        registry = self._registry
        brokers = await tree.read_brokers(registry)
        found = await tree.read_topics(registry)
        options = await tree.read_topic_options(registry)
        marked = set(await registry.children(znodes.DELETE_TOPICS))
        feature = await registry.get(znodes.FEATURE)
        image = replace(
            self._view.image,
            controller_id=self._broker_id,
            controller_epoch=office.epoch,
            brokers=MappingProxyType(brokers),
            leaving=frozenset(),
        )
        if feature is not None:
            levels = znodes.feature_levels(feature.value)
            image = replace(image, features=levels, features_epoch=feature.version + 1)
        topics = {name: await self._completed(topic, options.get(name, {}), brokers) for name, topic in found.items()}
        deleting = {name: topic for name, topic in topics.items() if name in marked}
        image = replace(image, deleting=MappingProxyType(deleting))
        return image.with_topics({name: topic for name, topic in topics.items() if name not in marked})

    async def _completed(
        self, found: tree.FoundTopic, options: Mapping[str, str], alive: Collection[int]
    ) -> TopicImage:
        """A topic from the tree; what tools of older versions leave out, id and states, is made."""
        name, office, topic_id = found.name, self.office, found.id
        writes: list[Operation] = []
        if topic_id is None:
            # older tools write a topic without an id, also one that had it: its logs carry that id
            known = self._view.image.topics.get(name)
            topic_id = uuid.uuid4() if known is None else known.id
            value = znodes.topic_value(topic_id, found.replicas, found.adding, found.removing)
            writes.append(Set(znodes.topic(name), value, found.version))
        if not found.has_parent:
            writes.append(Create(znodes.partitions(name)))
        partitions = []
        for index, (p, replicas) in enumerate(zip(found.partitions, found.replicas, strict=True)):
            if p is None:
                p = elections.new_partition(replicas, alive)
                writes += partition_states.creations(office, name, index, [p])
            partitions.append(p)
        if writes:
            await partition_states.guarded_in_turn(self._registry, office, writes)
        return TopicImage(name, topic_id, tuple(partitions), options)

    # Brokers

    def brokers_changed(self) -> None:
        """Told when a broker has come or gone."""
        self._brokers_changed.set()

    async def _watch_brokers(self) -> None:
        while True:
            try:
                await self._take_brokers(await tree.read_brokers(self._registry, self.brokers_changed))
            except NotControllerError:
                return
            except RegistryError as error:
                log.warning("the brokers cannot be followed now: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            except Exception:
                log.exception("the brokers cannot be followed")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await self._brokers_changed.wait()
            self._brokers_changed.clear()

    async def _take_brokers(self, now: dict[int, BrokerImage]) -> None:
        async with self._turn():
            before = self._view.image.brokers
            stayed = {i: b for i, b in now.items() if i in before and before[i].epoch == b.epoch}
            if len(stayed) == len(before) == len(now):
                return
            log.info("brokers: %s", sorted(now))
            self._leaving = {i: e for i, e in self._leaving.items() if i in stayed and stayed[i].epoch == e}
            self._broken = {i: broken for i, broken in self._broken.items() if i in stayed}
            if len(stayed) < len(before):
                await self._with_brokers(stayed)
            if len(now) > len(stayed):
                await self._with_brokers(now)
        await self._go_on_moving()

    async def _with_brokers(self, brokers: dict[int, BrokerImage]) -> None:
        """These brokers are alive: nobody else leads or is in sync from now on."""
        image = replace(self._view.image, brokers=MappingProxyType(brokers))
        done = await self._elect(image, Reason.BROKERS, _all(image))
        await self._publish(
            lambda view: _with_states(
                replace(view, brokers=MappingProxyType(brokers), leaving=frozenset(self._leaving)), done
            )
        )
        if self._channels is not None:
            self._channels.follow(brokers.values())

    async def controlled_shutdown(self, broker_id: int, epoch: int) -> list[TopicPartition]:
        """Take a broker's leaderships away; those that nobody else can take over are returned (KIP-49, KIP-380)."""
        async with self._turn():
            broker = self._view.image.brokers.get(broker_id)
            if broker is None:
                raise BrokerIdNotRegisteredError
            if -1 < epoch < broker.epoch:
                raise StaleBrokerEpochError
            self._leaving[broker_id] = broker.epoch
            image = replace(self._view.image, leaving=frozenset(self._leaving))
            mine = [(tp, p) for tp, p in _all(image) if broker_id in p.isr]
            done = await self._elect(image, Reason.SHUTDOWN, mine)
            await self._publish(lambda view: _with_states(replace(view, leaving=image.leaving), done))
        await self._settle()
        left = _all(self._view.image)
        return [tp for tp, p in left if p.leader == broker_id and len(p.replicas) > 1]

    # Leaders

    async def elect(
        self, reason: Reason, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionImage]:
        """Elect leaders anew (of all partitions where none are given); the new states of those that changed."""
        async with self._turn():
            image = self._view.image
            wanted = None if partitions is None else set(partitions)
            done = await self._elect(image, reason, [(t, p) for t, p in _all(image) if wanted is None or t in wanted])
            await self._publish(lambda view: _with_states(view, done))
        await self._settle()
        return done

    def _elected(
        self, image: ClusterImage, reason: Reason, partitions: Iterable[tuple[TopicPartition, PartitionImage]]
    ) -> dict[TopicPartition, PartitionImage]:
        """What is to be written. Where nobody in sync is there, the topic's options say whether another may lead."""
        decide = elections.DECISIONS[reason]
        changed = {}
        for tp, p in partitions:
            who = self._candidates(image, tp)
            after = decide(p, who)
            nobody = (after or p).leader == NO_LEADER and reason is Reason.BROKERS
            if nobody and self._unclean_allowed(image.topics[tp.topic].options):
                after = elections.unclean(p, who)
            if after is not None:
                changed[tp] = after
        return changed

    def _candidates(self, image: ClusterImage, tp: TopicPartition) -> Candidates:
        """Who may lead a partition."""
        alive: Collection[int] = image.brokers.keys()
        if self._broken:
            alive = {broker for broker in alive if tp not in self._broken.get(broker, ())}
        return Candidates(alive, self._leaving.keys())

    async def replicas_failed(self, broker_id: int, partitions: Collection[TopicPartition]) -> None:
        """The disk under these replicas of a broker has failed: others lead, and they are in sync no more."""
        async with self._turn():
            broken = self._broken.setdefault(broker_id, set())
            new = set(partitions) - broken
            if not new:
                return
            log.warning("broker %d has lost the disk of %d partitions", broker_id, len(new))
            broken |= new
            image = self._view.image
            try:
                done = await self._elect(image, Reason.BROKERS, [(tp, p) for tp, p in _all(image) if tp in new])
            except KafkaError:
                broken -= new  # it is told again, and news then
                raise
            await self._publish(lambda view: _with_states(view, done))

    def look_at_disks(self, broker_id: int) -> None:
        """A broker says that a disk of its own has failed: told all its duties again, it answers which it cannot do."""
        if self._channels is not None:
            self._channels.tell_anew(broker_id)

    async def _elect(
        self, image: ClusterImage, reason: Reason, partitions: Iterable[tuple[TopicPartition, PartitionImage]]
    ) -> dict[TopicPartition, PartitionImage]:
        """Decide and write; a state that another has changed is read and decided on again."""
        done: dict[TopicPartition, PartitionImage] = {}
        todo = list(partitions)
        while todo:
            wanted = self._elected(image, reason, todo)
            written = await self._write(wanted)
            done.update(written)
            todo = [
                (tp, now) for tp in wanted.keys() - written.keys() if (now := await self._reread(image, tp)) is not None
            ]
            done.update(todo)
            self._in_doubt -= wanted.keys()
        return done

    async def _reread(self, image: ClusterImage, tp: TopicPartition) -> PartitionImage | None:
        node = await self._registry.get(znodes.partition_state(*tp))
        p = image.partition(tp)
        return None if node is None or p is None else tree.partition_image(node, p.replicas, p.adding, p.removing)

    async def alter_partition(
        self,
        broker_id: int,
        tp: TopicPartition,
        image: PartitionImage,
        isr: tuple[int, ...],
        broker_epochs: Mapping[int, int] = MappingProxyType({}),
    ) -> PartitionImage:
        """Give a partition the ISR that its leader proposes; the state as it is then."""
        proposal = Proposal(tp, image.leader_epoch, image.state_version, isr, broker_epochs)
        (answer,) = await self.alter_partitions(broker_id, -1, [proposal])
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Sequence[Proposal]
    ) -> list[PartitionImage | KafkaError]:
        """The same for many proposals of one leader; each has a state, or an error of its own (KIP-497)."""
        async with self._turn():
            broker = self._view.image.brokers.get(broker_id)
            if broker is None or -1 < broker_epoch < broker.epoch:
                raise StaleBrokerEpochError
            answers: dict[TopicPartition, PartitionImage | KafkaError] = {}
            wanted: dict[TopicPartition, PartitionImage] = {}
            for proposal in proposals:
                try:
                    after = self._proposed(broker_id, proposal)
                except KafkaError as error:
                    answers[proposal.tp] = error
                else:
                    known = self._view.image.partition(proposal.tp)
                    if after == known:
                        answers[proposal.tp] = after
                    else:
                        wanted[proposal.tp] = after
            done = await self._write(wanted)
            answers.update({tp: InvalidUpdateVersionError() for tp in wanted})
            answers.update(done)
            await self._publish(lambda view: _with_states(view, done))
            if self._in_doubt:
                await self._take_states(self._in_doubt)
        if any(reassignments.is_moving(p) for p in done.values()):
            await self._go_on_moving()
        return [answers[proposal.tp] for proposal in proposals]

    def _proposed(self, broker_id: int, proposal: Proposal) -> PartitionImage:
        image = self._view.image
        p = image.partition(proposal.tp)
        if p is None:
            raise UnknownTopicOrPartitionError
        if proposal.leader_epoch < p.leader_epoch:
            raise FencedLeaderEpochError
        if proposal.leader_epoch > p.leader_epoch or proposal.state_version > p.state_version:
            raise NotControllerError("the leader knows more than this controller")
        if broker_id != p.leader or broker_id not in proposal.isr:
            raise InvalidRequestError(f"{broker_id} is not the leader, or leaves itself out")
        if proposal.isr == p.isr:
            return p
        if proposal.state_version < p.state_version:
            raise InvalidUpdateVersionError
        for member in proposal.isr:
            known = image.brokers.get(member)
            stale = known is not None and -1 < proposal.broker_epochs.get(member, -1) < known.epoch
            absent = known is None or stale or member in self._leaving or proposal.tp in self._broken.get(member, ())
            if (absent or member not in p.replicas) and member not in p.isr:
                raise IneligibleReplicaError(f"broker {member} cannot be in sync now")
        return replace(p, isr=proposal.isr)

    # Topics

    async def create_topic(
        self,
        name: str,
        assignment: Sequence[Sequence[int]],
        options: Mapping[str, str],
        topic_id: uuid.UUID | None = None,
    ) -> TopicImage:
        """Create a topic with checked name, replicas and options."""
        async with self._turn() as office:
            image = self._view.image
            if name in image.topics or name in image.deleting:
                raise TopicAlreadyExistsError(f"Topic '{name}' already exists.")
            alive = image.brokers.keys()
            partitions = tuple(elections.new_partition(tuple(replicas), alive) for replicas in assignment)
            topic = TopicImage(name, topic_id or uuid.uuid4(), partitions, dict(options))
            # older tools leave the options of a topic that they delete
            config = await put(self._registry, znodes.config_topic(name), znodes.config_value(options))
            writes: list[Operation] = [
                Create(znodes.topic(name), znodes.topic_value(topic.id, assignment)),
                Create(znodes.partitions(name)),
                config,
                *partition_states.creations(office, name, 0, partitions),
            ]
            try:
                await partition_states.guarded_in_turn(self._registry, office, writes)
            except NodeExistsError:
                raise TopicAlreadyExistsError(f"Topic '{name}' already exists.") from None
            await self._publish(lambda view: view.with_topics({**view.topics, name: topic}))
        await self._settle()
        return topic

    async def create_partitions(self, name: str, added: Sequence[Sequence[int]]) -> None:
        """Give a topic more partitions."""
        async with self._turn() as office:
            topic = self._topic(name)
            old = len(topic.partitions)
            if not added:
                raise InvalidPartitionsError(f"topic {name} has {old} partition(s) already")
            new = tuple(elections.new_partition(tuple(r), self._view.image.brokers.keys()) for r in added)
            whole = replace(topic, partitions=topic.partitions + new)
            writes = [Set(znodes.topic(name), _layout(whole)), *partition_states.creations(office, name, old, new)]
            await partition_states.guarded_in_turn(self._registry, office, writes)
            await self._publish(lambda view: view.with_topics({**view.topics, name: whole}))
        await self._settle()

    async def take_topic(self, name: str) -> None:
        """Follow a topic, or more partitions of one, that another has written into the tree."""
        async with self._turn():
            found = await tree.read_topic(self._registry, name)
            known = self._view.image.topics.get(name)
            if found is None or name in self._view.image.deleting:
                return
            if known is not None and len(known.partitions) >= len(found.partitions) and found.id == known.id:
                return
            options = await tree.read_entity(self._registry, znodes.config_topic(name))
            topic = await self._completed(found, options, self._view.image.brokers.keys())
            if known is not None:
                # those that are led already stay as they are: their states are this controller's own
                topic = replace(topic, partitions=known.partitions + topic.partitions[len(known.partitions) :])
            await self._publish(lambda view: view.with_topics({**view.topics, name: topic}))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic: it is not served any more, and its nodes go when all its logs are gone."""
        async with self._turn() as office:
            topic = self._topic(name)
            if await self._registry.get(znodes.delete_topic(name)) is None:
                await partition_states.guarded(self._registry, office, [Create(znodes.delete_topic(name))])
            self._undeleted[name] = _holders(topic)
            await self._publish(
                lambda view: replace(
                    view.with_topics({n: t for n, t in view.topics.items() if n != name}),
                    deleting=MappingProxyType({**view.deleting, name: topic}),
                )
            )
        await self._settle()

    async def replicas_deleted(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A broker has deleted these replicas; a topic that nobody has any more is gone."""
        async with self._turn():
            for name in {tp.topic for tp in partitions} & self._undeleted.keys():
                self._undeleted[name].discard(broker_id)
                if not self._undeleted[name]:
                    await self._forget(name)

    async def _forget(self, name: str) -> None:
        """Remove the nodes of a deleted topic."""
        topic = self._view.image.deleting[name]
        paths: list[str] = []
        for index in range(len(topic.partitions)):
            paths += [znodes.partition_state(name, index), znodes.partition(name, index)]
        paths += [znodes.partitions(name), znodes.topic(name), znodes.config_topic(name), znodes.delete_topic(name)]
        # an earlier attempt may have come half way
        there = await tree.get_all(self._registry, paths)
        writes = [Delete(path) for path, node in zip(paths, there, strict=True) if node is not None]
        await partition_states.guarded_in_turn(self._registry, self.office, writes)
        del self._undeleted[name]
        left = {n: t for n, t in self._view.image.deleting.items() if n != name}
        await self._publish(lambda view: replace(view, deleting=MappingProxyType(left)))

    async def set_features(self, levels: Mapping[str, int]) -> None:
        """Set checked levels of features; a feature at level 0 is off."""
        async with self._turn() as office:
            image = self._view.image
            changed = {name: level for name, level in {**image.features, **levels}.items() if level}
            write = await put(self._registry, znodes.FEATURE, znodes.feature_value(changed))
            await partition_states.guarded(self._registry, office, [write])
            await self._publish(lambda view: replace(view, features=changed, features_epoch=view.features_epoch + 1))

    # Reassignments

    async def reassign(self, tp: TopicPartition, target: Sequence[int] | None) -> None:
        """Move a partition to the brokers of `target`, in this order of preference; None takes a move back."""
        async with self._turn():
            image = self._view.image
            p = image.partition(tp)
            if p is None:
                raise UnknownTopicOrPartitionError
            if target is None:
                after = self._taken_back(tp, p)
            else:
                checked = reassignments.checked(target, image.brokers.keys())
                after = reassignments.begun(p, checked, self._candidates(image, tp))
            if after is not None:
                await self._place({tp: after})
        await self._go_on_moving()
        await self._settle()

    def _taken_back(self, tp: TopicPartition, p: PartitionImage) -> PartitionImage | None:
        if not reassignments.is_moving(p):
            raise NoReassignmentInProgressError
        return reassignments.cancelled(p, self._candidates(self._view.image, tp))

    async def _go_on_moving(self) -> None:
        """Finish the moves whose targets are all in sync."""
        if not self.is_active:
            return
        async with self._turn():
            image = self._view.image
            moving = [(tp, p, self._candidates(image, tp)) for tp, p in _all(image) if reassignments.is_moving(p)]
            done = {tp: after for tp, p, who in moving if (after := reassignments.finished(p, who)) is not None}
            if done:
                await self._place(done)

    async def _place(self, states: States) -> None:
        """Write partitions with other replicas: the topic's node and the states, in one step each topic."""
        for name in {tp.topic for tp in states}:
            topic = self._view.image.topics[name]
            changed = {tp.partition: p for tp, p in states.items() if tp.topic == name}
            whole = replace(topic, partitions=reassignments.layout(topic, changed))
            writes: list[Operation] = [Set(znodes.topic(name), _layout(whole))]
            writes += [partition_states.change(self.office, TopicPartition(name, i), p) for i, p in changed.items()]
            done = {TopicPartition(name, i): partition_states.written(p) for i, p in changed.items()}
            self._in_doubt |= done.keys()
            await partition_states.guarded(self._registry, self.office, writes)
            self._in_doubt -= done.keys()
            await self._publish(lambda view, done=done: _with_states(view, done))  # type: ignore[misc]

    # Telling

    async def _publish(self, change: Callable[[ClusterImage], ClusterImage]) -> None:
        """Show what is written. Where the next controller has told this broker more by now, that stays."""
        epoch = self.office.epoch
        before = self._view.image
        told = asyncio.ensure_future(
            self._view.change(lambda view: change(view) if view.controller_epoch <= epoch else view)
        )
        await asyncio.sleep(0)  # the image is there: the others need not wait for what this broker makes of it
        if self._channels is not None and self._view.image is not before:
            self._channels.wake()
        await told
        if self._channels is not None:
            self._channels.wake()

    async def _settle(self) -> None:
        if self._channels is not None:
            await self._channels.settled(SETTLE_SECONDS)

    def _topic(self, name: str) -> TopicImage:
        topic = self._view.image.topics.get(name)
        if topic is None:
            raise UnknownTopicOrPartitionError(f"Topic '{name}' does not exist.")
        return topic


def _all(image: ClusterImage) -> list[tuple[TopicPartition, PartitionImage]]:
    return [(TopicPartition(n, i), p) for n, topic in image.topics.items() for i, p in enumerate(topic.partitions)]


def _renewed(image: ClusterImage, broker_id: int) -> dict[TopicPartition, PartitionImage]:
    """A new epoch for what this broker led before its start: so this run's batches are told from older ones."""
    return {tp: replace(p, leader_epoch=p.leader_epoch + 1) for tp, p in _all(image) if p.leader == broker_id}


def _with_states(image: ClusterImage, states: States) -> ClusterImage:
    """The image with other states of some partitions; those of topics that are gone are left out."""
    by_topic: dict[str, dict[int, PartitionImage]] = {}
    for tp, p in states.items():
        by_topic.setdefault(tp.topic, {})[tp.partition] = p
    known = {name: changed for name, changed in by_topic.items() if name in image.topics}
    if not known:
        return image
    topics = dict(image.topics)
    for name, changed in known.items():
        topics[name] = replace(topics[name], partitions=reassignments.layout(topics[name], changed))
    return image.with_topics(topics)


def _holders(topic: TopicImage) -> set[int]:
    return {broker for p in topic.partitions for broker in p.replicas}


def _layout(topic: TopicImage) -> bytes:
    moving = [(i, p) for i, p in enumerate(topic.partitions) if reassignments.is_moving(p)]
    adding, removing = {i: p.adding for i, p in moving}, {i: p.removing for i, p in moving}
    return znodes.topic_value(topic.id, [p.replicas for p in topic.partitions], adding, removing)
