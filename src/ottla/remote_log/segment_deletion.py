"""Deleting a segment in remote storage.

The metadata is written before and after, so that the next leader repeats an interrupted deletion. The objects of a
readable segment are deleted only after this broker has read DELETE_SEGMENT_STARTED back, because it then no longer
starts to read the segment.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from typing import Final
from uuid import UUID

from ottla.clock import Clock
from ottla.remote_log.metadata_manager import RemoteLogMetadataManager
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore
from ottla.remote_log.remote_storage import RemoteFile, RemoteStorage, object_name
from ottla.remote_log.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartition,
)

log = logging.getLogger("ottla.remote_log")

MAX_ABANDONED: Final = 1000
"""Maximum number of abandoned copies that a broker remembers. The oldest are dropped first."""


class SegmentDeleter:
    """Deletes segments, at most as many at a time as `executor` has threads. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker_id: int,
        storage: RemoteStorage,
        metadata: RemoteLogMetadataManager,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._storage = storage
        self._metadata = metadata
        self._executor = executor
        self._clock = clock
        self._abandoned: dict[UUID, RemoteLogSegmentMetadata] = {}

    def abandon(self, segment: RemoteLogSegmentMetadata) -> None:
        """Record a copy that may have left objects, because copying was cancelled, for example when this broker lost
        the leadership, or because a failed copy could not be deleted.

        The next leader may delete such a copy while this broker still writes objects. Once the copy is no longer in the
        metadata, `delete_abandoned` deletes its objects.
        """
        self._abandoned[segment.id] = segment
        if len(self._abandoned) > MAX_ABANDONED:
            forgotten = self._abandoned.pop(next(iter(self._abandoned)))
            log.warning(
                "The objects of the unfinished copy %s may stay in remote storage, because this broker remembers at "
                "most %d unfinished copies to be deleted; if they do, delete them by hand",
                object_name(forgotten, RemoteFile.LOG),
                MAX_ABANDONED,
            )

    async def delete_abandoned(self) -> None:
        """Delete the objects of abandoned copies that are no longer in the metadata. Raises RemoteStorageError.

        Copies that are readable after all are no longer remembered as abandoned.
        """
        for segment in list(self._abandoned.values()):
            store = self._metadata.store(segment.partition)
            if store is None or not store.is_ready:
                continue
            current = store.get(segment.id)
            if current is None:
                await self.delete_objects(segment)
            if current is None or current.is_readable:
                self._abandoned.pop(segment.id, None)

    async def delete(self, store: RemotePartitionMetadataStore, segment: RemoteLogSegmentMetadata) -> None:
        """Delete a segment. Raises KafkaError, after which the deletion can be repeated.

        Objects are deleted even if the segment has no metadata: another leader may have considered this broker's copy
        abandoned, and deleted it before all objects were written.
        """
        current = store.get(segment.id)
        if current is not None and current.state is not RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            await self._publish(store.partition, segment.id, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
        await self.delete_objects(segment)
        if current is not None:
            await self._publish(store.partition, segment.id, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)

    async def delete_objects(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete the objects of a segment that is not readable. Raises RemoteStorageError."""
        names = [object_name(segment, file) for file in RemoteFile]
        await asyncio.get_running_loop().run_in_executor(self._executor, self._storage.delete, names)

    async def _publish(self, partition: RemotePartition, segment_id: UUID, state: RemoteLogSegmentState) -> None:
        event = RemoteLogSegmentUpdate(partition, segment_id, state, self._broker_id, self._clock.now_ms())
        await self._metadata.publish(event)
