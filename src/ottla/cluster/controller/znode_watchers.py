"""What others write into the tree: the tools of Kafka 0.8 to 2 with `--zookeeper`, other brokers, people by hand.

The controller looks at topics and more partitions under `/brokers/topics`, and at requests under `/admin`: to delete
topics, to move partitions, to have preferred leaders lead; and, where options were changed, at partitions that nobody
leads: a replica that is not in sync may be allowed to now. A watch tells only that something has changed, once; so what
it was about is read again, and a change that is there already changes nothing. Our own changes come by here, too, and
are known by then. Options that others set are followed by every broker (see `options`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from ottla.cluster.controller import reassignment_rules
from ottla.cluster.controller.controller import Controller
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.image import store_reader
from ottla.cluster.image.cluster_image import NO_LEADER, ClusterImage
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.image.store_reader import Item
from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    MetadataStoreError,
    Node,
    NodeExistsError,
    NoNodeError,
    Set,
)
from ottla.errors import InvalidTopicError, KafkaError, NotControllerError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition
from ottla.names import check_topic_name

log = logging.getLogger("ottla.cluster")

PAUSE_SECONDS: Final = 0.5
"""How long after a failure everything is looked at again."""


class ZNodeChangeHandlers:
    """Follows the tree while it runs. Loop thread."""

    def __init__(
        self, store: MetadataStore, view: MetadataCache, controller: Controller, *, delete_topics: bool = True
    ) -> None:
        """`delete_topics`: as `delete.topic.enable`; requests that are not followed are removed, as Kafka does."""
        self._store = store
        self._view = view
        self._controller = controller
        self._delete_topics = delete_topics
        self._changed = asyncio.Event()
        self._watched: set[str] = set()
        """Topics whose node is watched."""
        self._moving: dict[TopicPartition, Item] = {}
        """What a request in the tree has set in motion, and goes on as it says."""
        self._waiting: set[TopicPartition] = set()
        """Partitions without a leader, whose options have changed."""
        self._task: asyncio.Task[None] | None = None
        view.on_change(self._on_change)

    def start(self) -> None:
        """Look at everything, and again whenever something changes; as often as this broker is the controller."""
        self._watched.clear()
        self._moving.clear()
        self._waiting.clear()  # a new controller has looked at all partitions
        self._changed.set()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    async def _follow(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            looks = (self._topics, self._deletions, self._reassignments, self._elections, self._disks, self._leaderless)
            for look in looks:
                await self._try(look)

    async def _on_change(self, before: ClusterImage, after: ClusterImage) -> None:
        self._waiting |= _reconsidered(before, after)
        if self._moving or self._waiting:  # a move may have come to its end
            self._changed.set()

    async def _try(self, look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except NotControllerError:
            pass  # whoever is looks at it, too
        except KafkaError as error:
            log.warning("a change in the metadata store cannot be followed yet: %s", error)
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._changed.set)
        except Exception:
            log.exception("a change in the metadata store cannot be followed")

    async def _topics(self) -> None:
        names = await self._store.children(znodes.TOPICS, self._changed.set)
        self._watched &= set(names)
        for name in names:
            if name not in self._watched:
                self._watched.add(name)
                await self._store.get(znodes.topic(name), partial(self._topic_changed, name))
                await self._controller.topics.take(name)

    def _topic_changed(self, name: str) -> None:
        self._watched.discard(name)
        self._changed.set()

    async def _deletions(self) -> None:
        node = await self._store.get(znodes.DELETE_TOPICS, self._changed.set)
        if node is not None and node.value:
            await self._tell_apart(node)
        for name in await self._store.children(znodes.DELETE_TOPICS, self._changed.set):
            if name in self._view.image.deleting:
                continue
            try:
                if self._delete_topics:
                    await self._controller.topics.delete(name)
                    continue  # the request goes when the topic is gone
            except UnknownTopicOrPartitionError:
                begun = name in self._view.image.deleting
                if begun or await self._store.get(znodes.delete_topic(name)) is None:
                    continue  # this controller made the znode, and has begun the deletion or completed it meanwhile
                log.warning("%s: there is no such topic", znodes.delete_topic(name))
            await self._remove(znodes.delete_topic(name))

    async def _tell_apart(self, node: Node) -> None:
        """Make one request of each topic that a single one names, as the first design of deletion had it."""
        for name in _topics(node.value):
            try:
                await self._store.multi([Create(znodes.delete_topic(name))])
            except NodeExistsError:
                pass
        await self._change(Set(znodes.DELETE_TOPICS, b"", node.version))

    async def _reassignments(self) -> None:
        """Begin what is asked for anew, and leave in the request what goes on as it says.

        What has come to its end, was taken back or goes elsewhere by now must not begin again: as in Kafka, it is taken
        out of the request, which goes when it is empty.
        """
        node = await self._store.get(znodes.REASSIGN, self._changed.set)
        if node is None:
            self._moving = {}
            return
        wanted = store_reader.requested(znodes.REASSIGN, node.value)
        for tp, item in wanted.items():
            if self._moving.get(tp) != item:
                await self._move(tp, item, node.value)
        await self._controller.moves.go_on()
        self._moving = {tp: item for tp, item in wanted.items() if self._goes_on(tp, item)}
        if not self._moving:
            await self._change(Delete(znodes.REASSIGN, node.version))
        elif len(self._moving) < len(wanted):
            left = znodes.request_value(self._moving.values())
            await self._change(Set(znodes.REASSIGN, left, node.version))

    def _goes_on(self, tp: TopicPartition, item: Item) -> bool:
        """Whether a partition is on its way to where a request wants it."""
        p = self._view.image.partition(tp)
        return (
            p is not None
            and reassignment_rules.is_moving(p)
            and item.get("replicas") == [*reassignment_rules.target_of(p)]
        )

    async def _move(self, tp: TopicPartition, item: Item, request: bytes) -> None:
        try:
            await self._controller.moves.carry_out(tp, item, request)
        except (NotControllerError, MetadataStoreError):
            raise
        except (KafkaError, KeyError, TypeError, ValueError) as error:
            log.error("%s: %s is not moved: %s", znodes.REASSIGN, tp, error)

    async def _elections(self) -> None:
        node = await self._store.get(znodes.PREFERRED_ELECTION, self._changed.set)
        if node is not None:
            await self._controller.elect(
                Reason.PREFERRED, store_reader.requested(znodes.PREFERRED_ELECTION, node.value)
            )
            await self._remove(znodes.PREFERRED_ELECTION)

    async def _disks(self) -> None:
        for name in await self._store.children(znodes.LOG_DIR_EVENTS, self._changed.set):
            path = f"{znodes.LOG_DIR_EVENTS}/{name}"
            node = await self._store.get(path)
            broker = None if node is None else znodes.broker_of_event(node.value)
            if broker is not None:
                self._controller.look_at_disks(broker)
            await self._remove(path)

    async def _leaderless(self) -> None:
        waiting = frozenset(self._waiting)
        if waiting:
            await self._controller.elect(Reason.BROKERS, waiting)
            self._waiting -= waiting

    async def _remove(self, path: str) -> None:
        await self._change(Delete(path))

    async def _change(self, change: Set | Delete) -> None:
        try:
            await self._store.multi([change])
        except (NoNodeError, BadVersionError):
            pass  # who wrote it has taken it back, or has written something else, which is looked at next


def _reconsidered(before: ClusterImage, after: ClusterImage) -> set[TopicPartition]:
    """Partitions that nobody leads, and for which other options hold than did (`unclean.leader.election.enable`)."""
    all_have = before.options is not after.options
    if not all_have and before.topics is after.topics:
        return set()
    changed = [
        topic
        for name, topic in after.topics.items()
        if (known := before.topics.get(name)) is not None and (all_have or topic.options != known.options)
    ]
    return {TopicPartition(t.name, i) for t in changed for i, p in enumerate(t.partitions) if p.leader == NO_LEADER}


def _topics(raw: bytes) -> list[str]:
    """The topics that a request to delete names; none of what is no request, which is told."""
    try:
        names: list[str] = znodes.load(raw)["topics"]
        for name in names:
            check_topic_name(name)
    except (ValueError, KeyError, TypeError, InvalidTopicError) as error:
        log.error("%s is no request: %r: %s", znodes.DELETE_TOPICS, raw[:200], error)
        return []
    return names
