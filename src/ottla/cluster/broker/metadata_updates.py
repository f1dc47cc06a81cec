"""The controller's requests to this broker: LeaderAndIsr and UpdateMetadata change the cluster image.

UpdateMetadata adds and removes topics; LeaderAndIsr only changes partitions of topics in the image. An older partition
state never replaces a newer one, so LeaderAndIsr and UpdateMetadata requests may overtake each other. UpdateMetadata
requests must arrive in order, because their brokers and topics have no version. Requests with an older controller
epoch than that of the image are rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.cluster.image.image_delta import DELETED, FULL, INCREMENTAL, PROTOCOL_NUMBERS
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import MetadataStore
from ottla.config.broker.listener_config import Endpoint
from ottla.errors import InvalidRequestError, StaleBrokerEpochError, StaleControllerEpochError
from ottla.model import TopicPartition
from ottla.names import check_partition

if TYPE_CHECKING:
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
    from ottla.protocol.messages.update_metadata import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
    )

INITIALIZATION_SECONDS: Final = 10.0
UNKNOWN_EPOCH: Final = -1
MAX_MISSED_EPOCHS: Final = 1000
"""Maximum gap to a newer controller epoch; beyond it, the epoch is looked up in the metadata store."""
PROTOCOLS: Final = {number: name for name, number in PROTOCOL_NUMBERS.items()}
UNKNOWN_PARTITION: Final = PartitionImage(NO_LEADER, -1, (), ())
"""A partition whose state has not been received yet."""


class ControllerRequestHandler:
    """Applies the controller's requests to the metadata cache. Not thread-safe: event loop only."""

    def __init__(self, store: MetadataStore, metadata_cache: MetadataCache, broker_id: int) -> None:
        self._store = store
        self._cache = metadata_cache
        self._broker_id = broker_id
        self._initialized = asyncio.Event()
        self.is_initialized = False
        """Whether this broker has received or read the cluster's topics, or no longer waits for them. Until then,
        clients' requests have to wait.
        """
        self._lock = asyncio.Lock()
        """Held while an UpdateMetadata request is applied, so that no other one overtakes it while it waits for the
        store.
        """

    def mark_initialized(self) -> None:
        """Let clients' requests be processed: the topics have been received or read, or took too long."""
        self.is_initialized = True
        self._initialized.set()

    async def wait_initialized(self) -> None:
        """Wait until this broker has received or read the cluster's topics.

        After `INITIALIZATION_SECONDS`, stop waiting and let clients' requests be processed without them.
        """
        try:
            async with asyncio.timeout(INITIALIZATION_SECONDS):
                await self._initialized.wait()
        except TimeoutError:
            self.mark_initialized()

    def check(self, controller_epoch: int, broker_epoch: int) -> None:
        """Raise StaleControllerEpochError for a request of an earlier controller, and StaleBrokerEpochError for a
        request to an earlier registration of this broker.
        """
        image = self._cache.image
        if controller_epoch < image.controller_epoch:
            raise StaleControllerEpochError(
                f"controller_epoch={controller_epoch} is older than the current one, {image.controller_epoch}"
            )
        own = image.brokers.get(self._broker_id)
        if UNKNOWN_EPOCH < broker_epoch < (UNKNOWN_EPOCH if own is None else own.epoch):
            raise StaleBrokerEpochError

    async def verify(self, controller_epoch: int, broker_epoch: int) -> None:
        """Raise the errors of `check`, and StaleControllerEpochError if the controller epoch is more than
        MAX_MISSED_EPOCHS ahead and the store does not have an epoch that is at least as high.

        If an epoch that is too high were accepted, all later requests of the real controller would be rejected.
        """
        self.check(controller_epoch, broker_epoch)
        if controller_epoch > self._cache.image.controller_epoch + MAX_MISSED_EPOCHS:
            node = await self._store.get(znodes.CONTROLLER_EPOCH)
            if node is None or controller_epoch > int(node.value):
                raise StaleControllerEpochError(f"no controller has had controller_epoch={controller_epoch}")

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        """Handle LeaderAndIsr: apply the states of partitions."""
        await self.verify(request.controller_epoch, request.broker_epoch)
        _check_states(_partition_states(request))
        await self._apply(request, lambda image: with_leader_and_isr(image, request))

    async def update_metadata(self, request: UpdateMetadataRequest) -> None:
        """Handle UpdateMetadata: apply topics, states and brokers.

        The configs of new topics are read from the store.
        """
        await self.verify(request.controller_epoch, request.broker_epoch)
        _check_states((name, states) for name, _, states in _topics(request))
        async with self._lock:
            await self._update_metadata(request)
        if request.type != INCREMENTAL:
            self.mark_initialized()

    async def _update_metadata(self, request: UpdateMetadataRequest) -> None:
        topics = self._cache.image.topics
        new = [name for name, _, _ in _topics(request) if name not in topics]
        if not new:
            await self._apply_metadata(request, {})
            return
        paths = [znodes.config_topic(name) for name in new]
        # A change of these configs that is notified now is applied after the topics have been added, or it would be
        # ignored.
        async with self._cache.configs_lock:
            nodes = await store_reader.get_all(self._store, paths)
            configs = {n: store_reader.configs_of(node, path) for n, node, path in zip(new, nodes, paths, strict=True)}
            await self._apply_metadata(request, configs)

    async def _apply_metadata(self, request: UpdateMetadataRequest, configs: Mapping[str, Mapping[str, str]]) -> None:
        ids = await self._ids(request)
        await self._apply(request, lambda image: with_metadata(image, request, configs, ids, self._broker_id))

    async def _apply(
        self, request: LeaderAndIsrRequest | UpdateMetadataRequest, change: Callable[[ClusterImage], ClusterImage]
    ) -> None:
        """Apply a change. Raises the errors of `check` if, for example, another broker has become the controller
        meanwhile.
        """

        def decide(image: ClusterImage) -> ClusterImage:
            self.check(request.controller_epoch, request.broker_epoch)
            return change(image)

        await self._cache.update(decide)

    async def _ids(self, request: UpdateMetadataRequest) -> Mapping[str, UUID]:
        """Read the ids of the new topics that have no id in the request, and return them by topic name."""
        topics = self._cache.image.topics
        missing = [name for name, topic_id, _ in _topics(request) if topic_id.int == 0 and name not in topics]
        nodes = await store_reader.get_all(self._store, [znodes.topic(name) for name in missing])
        layouts = {n: znodes.topic_layout(n, node.value) for n, node in zip(missing, nodes, strict=True) if node}
        return {name: layout.id for name, layout in layouts.items() if layout.id is not None}


def _partition_states(request: LeaderAndIsrRequest) -> Iterable[tuple[str, Sequence[LeaderAndIsrPartitionState]]]:
    for topic in request.topic_states:
        yield topic.topic_name, topic.partition_states
    for state in request.ungrouped_partition_states:
        yield state.topic_name, [state]


def _check_states(
    topics: Iterable[tuple[str, Sequence[LeaderAndIsrPartitionState | UpdateMetadataPartitionState]]],
) -> None:
    """Raise InvalidTopicError for a topic name that is not allowed, InvalidPartitionsError for a partition number that
    is out of range, and InvalidRequestError for a leader, leader epoch or replica that is out of range.
    """
    for name, states in topics:
        for state in states:
            check_partition(TopicPartition(name, state.partition_index))
            if min(state.leader, state.leader_epoch) < DELETED or min(state.replicas, default=0) < 0:
                raise InvalidRequestError(
                    f"{name}-{state.partition_index}: leader={state.leader} leader_epoch={state.leader_epoch} "
                    f"replicas={state.replicas} is out of range"
                )


def with_leader_and_isr(image: ClusterImage, request: LeaderAndIsrRequest) -> ClusterImage:
    """Return the image after LeaderAndIsr. Unknown topics and partitions are ignored: UpdateMetadata will add them."""
    states = {
        t.topic_name: t.partition_states
        for t in request.topic_states
        if t.topic_id.int == 0 or t.topic_name not in image.topics or image.topics[t.topic_name].id == t.topic_id
    }
    for state in request.ungrouped_partition_states:
        states.setdefault(state.topic_name, []).append(state)
    topics = dict(image.topics)
    for name, new_states in states.items():
        topic = topics.get(name)
        if topic is not None:
            current = topic.partitions
            images = {
                s.partition_index: _partition_image(s, current[s.partition_index].failed)
                for s in new_states
                if s.partition_index < len(current)
            }
            topics[name] = _merge(topic, images)
    return _of_controller(image, request).with_topics(topics)


def with_metadata(
    image: ClusterImage,
    request: UpdateMetadataRequest,
    configs: Mapping[str, Mapping[str, str]],
    ids: Mapping[str, UUID],
    broker_id: int,
) -> ClusterImage:
    """Return the image after UpdateMetadata.

    `configs` and `ids`: configs and topic ids of topics that may be new, by name. `broker_id`: this broker.
    """
    brokers = {b.id: _broker(b) for b in request.live_brokers}
    topics: dict[str, TopicImage] = {} if request.type == FULL else dict(image.topics)
    for name, sent_id, states in _topics(request):
        old = image.topics.get(name)
        topic_id = sent_id if sent_id.int else old.id if old is not None else ids.get(name, sent_id)
        if states and all(state.leader == DELETED for state in states):
            if old is None or old.id == topic_id:
                topics.pop(name, None)
            continue
        if old is None or old.id != topic_id:
            old = TopicImage(name, topic_id, (), configs.get(name, {}))
        topics[name] = _merge(old, {s.partition_index: _state(s, old, brokers) for s in states})
    if broker_id in image.brokers:
        brokers[broker_id] = image.brokers[broker_id]  # this broker's own registration may be newer
    return replace(_of_controller(image, request), brokers=MappingProxyType(brokers)).with_topics(topics)


def _of_controller(image: ClusterImage, request: LeaderAndIsrRequest | UpdateMetadataRequest) -> ClusterImage:
    """Return the image with the controller that has sent a request.

    Drop what only the controller keeps up to date: this broker may have been the controller before.
    """
    return replace(
        image,
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        deleting=MappingProxyType({}),
        shutting_down=frozenset(),
    )


def _topics(request: UpdateMetadataRequest) -> Iterable[tuple[str, UUID, list[UpdateMetadataPartitionState]]]:
    """Yield the name, id (or zero) and states of every topic, for request versions with and without topic ids."""
    for topic in request.topic_states:
        yield topic.topic_name, topic.topic_id, topic.partition_states
    ungrouped: dict[str, list[UpdateMetadataPartitionState]] = {}
    for state in request.ungrouped_partition_states:
        ungrouped.setdefault(state.topic_name, []).append(state)
    for name, states in ungrouped.items():
        yield name, UUID(int=0), states


def _merge(topic: TopicImage, images: Mapping[int, PartitionImage]) -> TopicImage:
    """Return the topic with those states in `images` that are newer than its own, and with missing partitions added.

    From a state that has the current version but is not newer, only the failed replicas are taken. Return the same
    object if nothing changes.
    """
    size = max(len(topic.partitions), max(images, default=-1) + 1)
    partitions = [*topic.partitions, *[UNKNOWN_PARTITION] * (size - len(topic.partitions))]
    for index, now in images.items():
        was = partitions[index]
        if (now.leader_epoch, now.state_version) > (was.leader_epoch, was.state_version):
            partitions[index] = now
        elif now.state_version == was.state_version and now.failed != was.failed:
            partitions[index] = replace(was, failed=now.failed)
    changed = len(partitions) != len(topic.partitions) or any(
        a is not b for a, b in zip(partitions, topic.partitions, strict=True)
    )
    return replace(topic, partitions=tuple(partitions)) if changed else topic


def _partition_image(s: LeaderAndIsrPartitionState, failed: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(
        s.leader,
        s.leader_epoch,
        tuple(s.replicas),
        tuple(s.isr),
        s.partition_epoch,
        tuple(s.adding_replicas),
        tuple(s.removing_replicas),
        failed,
    )


def _state(s: UpdateMetadataPartitionState, topic: TopicImage, alive: Collection[int]) -> PartitionImage:
    """Return the new image of a partition from its state in UpdateMetadata.

    UpdateMetadata does not contain reassignments, so the partition keeps its reassignment if its replicas are the same.
    Offline replicas of live brokers count as failed.
    """
    was = topic.partitions[s.partition_index] if s.partition_index < len(topic.partitions) else UNKNOWN_PARTITION
    now = replace(
        was,
        leader=s.leader,
        leader_epoch=s.leader_epoch,
        isr=tuple(s.isr),
        state_version=s.zk_version,
        failed=tuple(replica for replica in s.offline_replicas if replica in alive),
    )
    return (
        now if was.replicas == tuple(s.replicas) else replace(now, replicas=tuple(s.replicas), adding=(), removing=())
    )


def _broker(b: UpdateMetadataBroker) -> BrokerImage:
    endpoints = tuple(
        Endpoint(
            e.listener or PROTOCOLS.get(e.security_protocol, "PLAINTEXT"),
            e.host,
            e.port,
            PROTOCOLS.get(e.security_protocol, "PLAINTEXT"),
        )
        for e in b.endpoints
    )
    return BrokerImage(b.id, endpoints or (Endpoint("PLAINTEXT", b.v0_host, b.v0_port),), b.rack)
