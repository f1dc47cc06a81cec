"""Committed offsets in the metadata store, in `/consumers/G/offsets/T/P`, as consumers of Kafka 0.8 keep them."""

from __future__ import annotations

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    Set,
    UnreadableNodeError,
)
from ottla.errors import InvalidGroupIdError
from ottla.model import TopicPartition
from ottla.names import check_partition


class ZooKeeperOffsets:
    """Reads and writes committed offsets in the metadata store, one per znode, as decimal text.

    Not thread-safe: event loop only.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def get(self, group: str, tp: TopicPartition) -> int | None:
        """Return the committed offset; None if there is none. Raises UnreadableNodeError if the znode's value is not a
        number, and the errors of `_path` for invalid names.
        """
        path = _path(group, tp)
        node = await self._store.get(path)
        if node is None or not node.value:
            return None
        try:
            return int(node.value)
        except ValueError:
            raise UnreadableNodeError(f"{path} is not an offset: {node.value[:200]!r}") from None

    async def set(self, group: str, tp: TopicPartition, offset: int) -> None:
        """Commit an offset; it is durable on return. Raises the errors of `_path` for invalid names."""
        path, value = _path(group, tp), b"%d" % offset
        try:
            await self._store.multi([Set(path, value)])
        except NoNodeError:
            try:
                await self._store.multi([*await self._missing_parents(path), Create(path, value)])
            except NodeExistsError:
                await self.set(group, tp, offset)  # another member has created a parent meanwhile

    async def _missing_parents(self, path: str) -> list[Operation]:
        parts = path.split("/")[1:-1]
        parents = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts))]
        return [Create(parent) for parent in parents if await self._store.get(parent) is None]


def _path(group: str, tp: TopicPartition) -> str:
    """Return the znode path of an offset. Raises InvalidGroupIdError, InvalidTopicError or InvalidPartitionsError."""
    if not znodes.is_valid_name(group):
        raise InvalidGroupIdError(
            f"group {group!r} cannot be a znode, so its offsets cannot be stored in the metadata store"
        )
    check_partition(tp)
    return znodes.consumer_offset(group, tp.topic, tp.partition)
