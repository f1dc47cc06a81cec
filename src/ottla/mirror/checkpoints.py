"""Translates the committed offsets of groups, writes them as checkpoints, and commits them at the target for groups
that are inactive there (`MirrorCheckpointConnector`).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Final, Self, TypeVar

from ottla.client.admin.driver import Errors
from ottla.client.admin.groups.group_descriptions import GroupState
from ottla.errors import SerializationError, UnknownMemberIdError
from ottla.mirror.clusters import Cluster
from ottla.mirror.flow_config import Flow
from ottla.mirror.offset_syncs import OffsetSyncStore
from ottla.mirror.records import Checkpoint, OffsetSync
from ottla.mirror.replication_policy import ReplicationPolicy
from ottla.mirror.topics import TopicMirror, matches
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger("ottla.mirror")

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
R = TypeVar("R", OffsetSync, Checkpoint)
INACTIVE: Final = (GroupState.EMPTY, GroupState.DEAD)


class Checkpoints:
    """The latest checkpoint of each group and partition."""

    def __init__(self) -> None:
        self._by_group: defaultdict[str, dict[TopicPartition, Checkpoint]] = defaultdict(dict)

    def add(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint. It replaces the earlier one of its group and partition."""
        self._by_group[checkpoint.group][checkpoint.partition] = checkpoint

    def for_group(self, group: str) -> Mapping[TopicPartition, Checkpoint]:
        """Return the checkpoints of a group by partition of the target."""
        return self._by_group.get(group, {})

    def is_news(self, checkpoint: Checkpoint) -> bool:
        """Return whether to write a checkpoint: it is the first one of its group and partition, it advances the group
        at the target, or the group was reset to an earlier offset at the source.

        Any other checkpoint could move a group backward at the target although it has not moved back at the source,
        because the translation of older offsets becomes less exact.
        """
        last = self.for_group(checkpoint.group).get(checkpoint.partition)
        return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream


def offsets_to_commit(checkpoints: Mapping[TopicPartition, Checkpoint], committed: Offsets) -> Offsets:
    """Return the offsets to commit for an inactive group: those ahead of its committed offsets at the target, and those
    of partitions for which it has committed none there.
    """
    return {
        partition: checkpoint.offset_and_metadata
        for partition, checkpoint in checkpoints.items()
        if partition not in committed or committed[partition].offset < checkpoint.downstream
    }


class CheckpointMirror:
    """Translates the offsets of a flow's groups, and writes and commits the results. `async with` reads the earlier
    checkpoints.
    """

    def __init__(
        self, flow: Flow, policy: ReplicationPolicy, topics: TopicMirror, source: Cluster, target: Cluster
    ) -> None:
        self._flow = flow
        self._topics = topics
        self._source = source
        self._target = target
        self.topic = policy.checkpoints_topic(flow.name.source)
        syncs_cluster, other = syncs_location(flow, source, target)
        self._syncs_reader = syncs_cluster.reader(policy.offset_syncs_topic(other.alias))
        self._syncs = OffsetSyncStore()
        self._checkpoints = Checkpoints()
        self._groups: list[str] = []
        self._clients = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as clients:
            await clients.enter_async_context(self._syncs_reader)
            async with self._target.reader(self.topic) as reader:
                async for record in reader.read_to_end():
                    for checkpoint in _parsed(Checkpoint, record, self._flow):
                        self._checkpoints.add(checkpoint)
            self._clients = clients.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.aclose()

    async def refresh_groups(self) -> None:
        """Find the groups of the source whose offsets are translated."""
        config = self._flow.config
        listings = await self._source.admin.list_consumer_groups()
        groups = [
            g.group_id
            for g in listings
            if matches(config.groups, g.group_id) and not matches(config.groups_exclude, g.group_id)
        ]
        if len(groups) != len(self._groups):
            log.info("%s: groups whose offsets are translated: %d", self._flow.name, len(groups))
        self._groups = groups

    async def emit(self) -> None:
        """Write new checkpoints (see `Checkpoints.is_news`) of the offsets that groups have committed at the source.

        Offsets that cannot be translated, and those of topics that are not copied, are left out.
        """
        async for record in self._syncs_reader.read_to_end():
            for sync in _parsed(OffsetSync, record, self._flow):
                self._syncs.add(sync)
        failed: Errors = {}
        committed = await self._source.admin.list_group_offsets(self._groups, errors=failed)
        for group, error in failed.items():
            log.warning(
                "%s: cannot read the committed offsets of group %s at the source; retrying at the next checkpoint: %s",
                self._flow.name,
                group,
                error,
            )
        new = [c for group, offsets in committed.items() for c in self._translated(group, offsets)]
        futures = [await self._target.producer.send(self.topic, c.value(), c.key(), partition=0) for c in new]
        for checkpoint, future in zip(new, futures, strict=True):
            await future
            self._checkpoints.add(checkpoint)

    def _translated(self, group: str, offsets: Offsets) -> Iterable[Checkpoint]:
        for partition, (offset, metadata, _) in offsets.items():
            downstream = self._syncs.translate(partition, offset)
            if downstream is None or not self._topics.is_copied(partition.topic):
                continue
            remote = TopicPartition(self._topics.remote_topic(partition.topic), partition.partition)
            checkpoint = Checkpoint(group, remote, offset, downstream, metadata)
            if self._checkpoints.is_news(checkpoint):
                yield checkpoint

    async def sync_group_offsets(self) -> None:
        """Commit translated offsets at the target for groups without members there. No offset is moved backward."""
        groups = [group for group in self._groups if self._checkpoints.for_group(group)]
        if not groups:
            return
        failed: Errors = {}
        descriptions = await self._target.admin.describe_consumer_groups(groups, errors=failed)
        for group, error in failed.items():
            log.warning(
                "%s: cannot describe group %s at the target; retrying at the next interval: %s",
                self._flow.name,
                group,
                error,
            )
        for group, description in descriptions.items():
            if description.state in INACTIVE:
                await self._commit(group)

    async def _commit(self, group: str) -> None:
        admin = self._target.admin
        committed = await admin.list_consumer_group_offsets(group)
        offsets = offsets_to_commit(self._checkpoints.for_group(group), committed)
        if not offsets:
            return
        failed: Errors = {}
        await admin.alter_consumer_group_offsets(group, offsets, errors=failed)
        for partition, error in failed.items():
            if not isinstance(error, UnknownMemberIdError):  # a member has joined meanwhile
                log.warning(
                    "%s: cannot commit the offset of %s for group %s at the target; retrying at the next interval: %s",
                    self._flow.name,
                    partition,
                    group,
                    error,
                )


def syncs_location(flow: Flow, source: Cluster, target: Cluster) -> tuple[Cluster, Cluster]:
    """Return the cluster that has the offset syncs topic, and the other one, whose alias is in the topic's name."""
    return (source, target) if flow.config.offset_syncs_topic_location == "source" else (target, source)


def _parsed(kind: type[R], record: ConsumerRecord, flow: Flow) -> Iterable[R]:
    try:
        yield kind.parse(record.key, record.value)
    except SerializationError as error:
        log.warning(
            "%s: ignoring the malformed record at offset %d of %s-%d: %s",
            flow.name,
            record.offset,
            record.topic,
            record.partition,
            error,
        )
