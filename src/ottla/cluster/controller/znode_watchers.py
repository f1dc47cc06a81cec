"""Handles changes that others write to the metadata store: tools of Kafka 0.8 to 2 with `--zookeeper`, other brokers,
and administrators.

The controller reads new topics and partitions below `/brokers/topics`, notifications of failed log directories, and
requests below `/admin`: to delete topics, reassign partitions, and elect preferred leaders. If configs have changed, it
tries again to elect leaders for partitions that have none, because `unclean.leader.election.enable` may now allow an
out-of-sync replica. A watch fires once and does not say what has changed, so its znode is read again; applying a
change twice has no effect. Watches also fire for the controller's own changes. Changed configs are applied by every
broker (see `config_store`).
"""

from __future__ import annotations

import logging
from functools import partial

from ottla.cluster.controller import reassignment_rules
from ottla.cluster.controller.controller import Controller
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.image.store_reader import Item
from ottla.cluster.store import znodes
from ottla.cluster.store.change_notifications import ChangeListener
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    NodeExistsError,
    NoNodeError,
    Set,
    ZNode,
)
from ottla.errors import InvalidTopicError, KafkaError, NotControllerError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.names import check_topic_name

log = logging.getLogger("ottla.controller")


class ZNodeChangeHandlers:
    """Applies changes of znodes while this broker is the controller. Not thread-safe: event loop only."""

    def __init__(
        self, store: MetadataStore, metadata_cache: MetadataCache, controller: Controller, *, delete_topics: bool = True
    ) -> None:
        """`delete_topics`: the config `delete.topic.enable`.

        If False, requests for topic deletion are removed and ignored, as in Kafka.
        """
        self._store = store
        self._cache = metadata_cache
        self._controller = controller
        self._delete_topics = delete_topics
        self._listener = ChangeListener(
            "the metadata store",
            self._read_topics,
            self._read_deletions,
            self._read_reassignments,
            self._read_elections,
            self._read_log_dir_events,
            self._elect_leaders,
        )
        self._watched: set[str] = set()
        """Names of the topics whose znodes are watched."""
        self._reassigning: dict[TopicPartition, Item] = {}
        """Reassignments in progress that were requested in `/admin/reassign_partitions`."""
        self._leaderless: set[TopicPartition] = set()
        """Partitions without a leader for which an election has to be tried because configs have changed."""
        metadata_cache.on_change(self._on_change)

    def start(self) -> None:
        """Read the watched znodes, and read them again whenever one changes. Drop the state of an earlier term."""
        self._watched.clear()
        self._reassigning.clear()
        self._leaderless.clear()  # a new controller has tried to elect leaders of all partitions
        self._listener.notify()
        self._listener.start()

    async def close(self) -> None:
        await self._listener.close()

    async def _on_change(self, before: ClusterImage, after: ClusterImage) -> None:
        self._leaderless |= _leaderless_with_new_configs(before, after)
        if self._reassigning or self._leaderless:  # a reassignment may have been completed
            self._listener.notify()

    async def _read_topics(self) -> None:
        names = await self._store.children(znodes.TOPICS, self._listener.notify)
        self._watched &= set(names)
        for name in names:
            if name not in self._watched:
                self._watched.add(name)
                await self._store.get(znodes.topic(name), partial(self._topic_changed, name))
                await self._controller.topics.read_topic(name)

    def _topic_changed(self, name: str) -> None:
        self._watched.discard(name)
        self._listener.notify()

    async def _read_deletions(self) -> None:
        node = await self._store.get(znodes.DELETE_TOPICS, self._listener.notify)
        if node is not None and node.value:
            await self._split(node)
        for name in await self._store.children(znodes.DELETE_TOPICS, self._listener.notify):
            if name in self._cache.image.deleting:
                continue
            try:
                if self._delete_topics:
                    await self._controller.topics.delete(name, " (requested in the metadata store)")
                    continue  # the request is removed when the deletion is complete
            except UnknownTopicOrPartitionError:
                deleting = name in self._cache.image.deleting
                if deleting or await self._store.get(znodes.delete_topic(name)) is None:
                    # the znode was created by this controller, which has started or completed the deletion meanwhile
                    continue
                log.warning(
                    "Removing the topic deletion request %s, because the topic does not exist",
                    znodes.delete_topic(name),
                )
            await self._remove(znodes.delete_topic(name))

    async def _split(self, node: ZNode) -> None:
        """Create one request znode per topic for a request that lists topics in the value of
        `/admin/delete_topics`, as in the first design of topic deletion.
        """
        for name in _topics(node.value):
            try:
                await self._store.multi([Create(znodes.delete_topic(name))])
            except NodeExistsError:
                pass
        await self._change(Set(znodes.DELETE_TOPICS, b"", node.version))

    async def _read_reassignments(self) -> None:
        """Start the new reassignments that `/admin/reassign_partitions` requests.

        A reassignment that is complete, cancelled or replaced must not start again. As in Kafka, it is removed from the
        request, which is deleted when it is empty.
        """
        node = await self._store.get(znodes.REASSIGN, self._listener.notify)
        if node is None:
            self._reassigning = {}
            return
        requested = store_reader.parse_request(znodes.REASSIGN, node.value)
        for tp, item in requested.items():
            if self._reassigning.get(tp) != item:
                await self._reassign(tp, item, node.value)
        await self._controller.reassignments.complete_finished()
        self._reassigning = {tp: item for tp, item in requested.items() if self._is_in_progress(tp, item)}
        if not self._reassigning:
            await self._change(Delete(znodes.REASSIGN, node.version))
        elif len(self._reassigning) < len(requested):
            remaining = znodes.request_value(self._reassigning.values())
            await self._change(Set(znodes.REASSIGN, remaining, node.version))

    def _is_in_progress(self, tp: TopicPartition, item: Item) -> bool:
        partition = self._cache.image.partition(tp)
        return (
            partition is not None
            and reassignment_rules.is_reassigning(partition)
            and item.get("replicas") == [*reassignment_rules.target_of(partition)]
        )

    async def _reassign(self, tp: TopicPartition, item: Item, request: bytes) -> None:
        try:
            await self._controller.reassignments.apply_request(tp, item, request)
        except (NotControllerError, MetadataStoreError):
            raise
        except (KafkaError, KeyError, TypeError, ValueError) as error:
            why = error.message if isinstance(error, KafkaError) else repr(error)
            log.error("Ignoring the reassignment of %s requested in znode %s: %s", tp, znodes.REASSIGN, why)

    async def _read_elections(self) -> None:
        node = await self._store.get(znodes.PREFERRED_ELECTION, self._listener.notify)
        if node is not None:
            await self._controller.elect(
                Reason.PREFERRED, store_reader.parse_request(znodes.PREFERRED_ELECTION, node.value)
            )
            await self._remove(znodes.PREFERRED_ELECTION)

    async def _read_log_dir_events(self) -> None:
        for name in await self._store.children(znodes.LOG_DIR_EVENTS, self._listener.notify):
            path = f"{znodes.LOG_DIR_EVENTS}/{name}"
            node = await self._store.get(path)
            broker = None if node is None else znodes.broker_of_event(node.value)
            if broker is not None:
                self._controller.check_log_dirs(broker)
            await self._remove(path)

    async def _elect_leaders(self) -> None:
        partitions = frozenset(self._leaderless)
        if partitions:
            await self._controller.elect(Reason.BROKERS, partitions)
            self._leaderless -= partitions

    async def _remove(self, path: str) -> None:
        await self._change(Delete(path))

    async def _change(self, change: Set | Delete) -> None:
        try:
            await self._store.multi([change])
        except (NoNodeError, BadVersionError):
            pass  # someone has deleted or replaced the znode, which will be read next


def _leaderless_with_new_configs(before: ClusterImage, after: ClusterImage) -> set[TopicPartition]:
    """Return the partitions without a leader for which an unclean leader election may be allowed now.

    They are those of topics whose configs have changed, or of all topics if any other dynamic config has changed.
    """
    defaults_changed = before.configs is not after.configs
    if not defaults_changed and before.topics is after.topics:
        return set()
    changed = [
        topic
        for name, topic in after.topics.items()
        if (old := before.topics.get(name)) is not None and (defaults_changed or topic.configs != old.configs)
    ]
    return {TopicPartition(t.name, i) for t in changed for i, p in enumerate(t.partitions) if p.leader == NO_LEADER}


def _topics(raw: bytes) -> list[str]:
    """Return the topics that a deletion request names. A malformed request is logged and ignored."""
    try:
        names: list[str] = znodes.load(raw)["topics"]
        for name in names:
            check_topic_name(name)
    except (ValueError, KeyError, TypeError, InvalidTopicError) as error:
        log.error("Ignoring malformed request in znode %s: %r: %r", znodes.DELETE_TOPICS, raw[:200], error)
        return []
    return names
