"""Reading of a 0.8 group from ZooKeeper (members, partitions and brokers), with watches for changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import UnreadableNodeError, Watcher
from ottla.cluster.store.zk_client import ZkClient
from ottla.errors import KafkaError
from ottla.legacy.consumer.partition_assignor import AssignmentContext
from ottla.legacy.consumer.topic_count import ConsumerThreadId, TopicCount


class GroupView(NamedTuple):
    """A snapshot of a group. If two snapshots are equal, no rebalance is needed."""

    brokers: dict[int, tuple[str, int]]
    mine: dict[str, list[ConsumerThreadId]]
    context: AssignmentContext


class GroupWatcher:
    """Reads the znodes of a group, and calls `changed` when they may have changed.

    A watch fires once. The next `read` sets it again as it reads the znode, so that no change is missed.
    """

    def __init__(self, zk: ZkClient, group: str, consumer_id: str, changed: Callable[[], None]) -> None:
        self._zk = zk
        self._group = group
        self._consumer_id = consumer_id
        self._changed = changed
        self._watched: set[str] = set()
        """Paths that are known to have a watch that has not fired. Accessed by ZkClient's thread and by the threads
        that call `read`.
        """

    def read(self, count: TopicCount, exclude_internal: bool) -> GroupView:
        """Return a snapshot of the group and set watches. `count` is the subscription of this member. Raises KafkaError
        if the member is not registered, or the group cannot be read.
        """
        try:
            return self._read_group(count, exclude_internal)
        except BaseException:
            self._watched.clear()  # it is unknown which watches were set
            raise

    def _read_group(self, count: TopicCount, exclude_internal: bool) -> GroupView:
        brokers = self._zk.brokers(self._watch(znodes.BROKER_IDS))
        topics = cache(lambda: self._zk.children(znodes.TOPICS))
        if count.filter is not None:
            self._zk.children(znodes.TOPICS, self._watch(znodes.TOPICS))
        mine = count.threads(self._consumer_id, topics, exclude_internal)
        threads: dict[str, list[ConsumerThreadId]] = {}
        members = self._members()
        if self._consumer_id not in members:
            raise KafkaError(f"{self._consumer_id} is not registered in ZooKeeper")
        for member in members:
            subscribed = mine if member == self._consumer_id else self._theirs(member, topics, exclude_internal)
            for topic, ids in subscribed.items():
                threads.setdefault(topic, []).extend(ids)
        context = AssignmentContext(
            self._consumer_id,
            {topic: sorted(ids, key=str) for topic, ids in sorted(threads.items())},
            {topic: self._partitions(topic) for topic in sorted(mine)},
        )
        return GroupView(brokers, mine, context)

    def _theirs(
        self, member: str, topics: Callable[[], list[str]], exclude_internal: bool
    ) -> dict[str, list[ConsumerThreadId]]:
        """Return the threads of another member by topic; empty if the member has left."""
        raw = self._zk.get(znodes.consumer_id(self._group, member))
        return {} if raw is None else TopicCount.of_json(member, raw).threads(member, topics, exclude_internal)

    def _members(self) -> list[str]:
        path = znodes.consumer_ids(self._group)
        return self._zk.children(path, self._watch(path))

    def _partitions(self, topic: str) -> list[int]:
        path = znodes.topic(topic)
        raw = self._zk.get(path, self._watch(path))
        if not raw:
            return []
        try:
            return sorted(int(p) for p in znodes.load(raw)["partitions"])
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableNodeError(f"{path} is not a replica assignment: {raw[:200]!r}: {error!r}") from None

    def _watch(self, path: str) -> Watcher | None:
        if path in self._watched:
            return None
        self._watched.add(path)

        def changed() -> None:
            self._watched.discard(path)
            self._changed()

        return changed
