"""Copying a closed segment of a leader's log to remote storage. Kafka's RLMCopyTask.

The metadata is written before and after: first COPY_SEGMENT_STARTED, then the objects, then COPY_SEGMENT_FINISHED. Only
then does the segment count as copied. A failed copy is deleted. If the broker is killed, the next leader deletes the
unfinished copy once it has copied the same offsets itself (`remote_retention`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from ottla.clock import Clock
from ottla.errors import KafkaError, KafkaStorageError, NotLeaderOrFollowerError
from ottla.futures import shielded
from ottla.remote_log.chunk_cache import wait_for_quota
from ottla.remote_log.metadata_manager import RemoteLogMetadataManager
from ottla.remote_log.metadata_store import RemotePartitionMetadataStore
from ottla.remote_log.remote_storage import RemoteFile, RemoteStorage, RemoteStorageError, object_name
from ottla.remote_log.segment_deletion import SegmentDeleter
from ottla.remote_log.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    SegmentEpoch,
)
from ottla.replication.partition import Partition
from ottla.replication.replication_quota import ReplicationQuota
from ottla.replication.topic_stats import TopicStats
from ottla.storage.files import sync_file
from ottla.storage.log import Log
from ottla.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    Segment,
    file_name,
)

log = logging.getLogger("ottla.remote_log")


class CopyCandidate(NamedTuple):
    """A closed segment to be copied, and the base offset of the next segment."""

    segment: Segment
    next_offset: int


def copy_candidates(partition_log: Log) -> list[CopyCandidate]:
    """Return the closed segments of a log that end after its `remote_end_offset` and its log start offset, end at or
    below the last stable offset, and are flushed.

    Unflushed records could be lost, and remote storage would then have records that are not in the log.
    """
    end = min(partition_log.last_stable_offset, partition_log.recovery_point)
    segments = partition_log.segments
    first = partition_log.segment_number(max(partition_log.remote_end_offset, partition_log.log_start_offset))
    candidates = []
    for segment, following in zip(segments[first:], segments[first + 1 :], strict=False):
        if following.base_offset > end:
            break
        candidates.append(CopyCandidate(segment, following.base_offset))
    return candidates


class SegmentCopier:
    """Copies segments, at most as many at a time as `executor` has threads. Not thread-safe: event loop only."""

    def __init__(
        self,
        broker_id: int,
        storage: RemoteStorage,
        metadata: RemoteLogMetadataManager,
        deleter: SegmentDeleter,
        executor: Executor,
        clock: Clock,
        quota: ReplicationQuota,
    ) -> None:
        """`quota`: the limit of copying in bytes per second, which may change at any time."""
        self._broker_id = broker_id
        self._storage = storage
        self._metadata = metadata
        self._deleter = deleter
        self._executor = executor
        self._clock = clock
        self._quota = quota

    async def copy(
        self,
        partition: Partition,
        store: RemotePartitionMetadataStore,
        candidate: CopyCandidate,
        is_leader: Callable[[], bool],
        stats: TopicStats,
    ) -> None:
        """Copy a segment. After a failure, delete the copy if possible, and raise KafkaError.

        `is_leader`: returns whether this broker still leads the partition in the same epoch.
        """
        await wait_for_quota(self._quota, self._clock)
        segment = self._describe(partition.log, store, candidate)
        stats.remote_copy_requests += 1
        try:
            await self._metadata.publish(segment)
            await self._upload(partition.log, segment)
            if not is_leader():
                raise NotLeaderOrFollowerError(f"{partition.topic_partition} got another leader during the copy")
            await self._metadata.publish(
                RemoteLogSegmentUpdate(
                    store.partition,
                    segment.id,
                    RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
                    self._broker_id,
                    self._clock.now_ms(),
                )
            )
            state = store.get(segment.id)
            if state is None or not state.is_readable:
                raise NotLeaderOrFollowerError(f"another leader of {partition.topic_partition} has deleted the copy")
        except KafkaError:
            stats.remote_copy_errors += 1
            await self._delete(store, segment)
            raise
        except asyncio.CancelledError:
            self._deleter.abandon(segment)
            raise
        stats.remote_copy_bytes += segment.size
        log.debug(
            "Copied offsets %d to %d of %s to remote storage (%d bytes)",
            segment.start_offset, segment.end_offset, partition.topic_partition, segment.size,
        )  # fmt: skip

    def _describe(
        self, partition_log: Log, store: RemotePartitionMetadataStore, candidate: CopyCandidate
    ) -> RemoteLogSegmentMetadata:
        segment, next_offset = candidate
        start = segment.base_offset
        before = partition_log.epoch_for_offset(start)
        epochs = [
            SegmentEpoch(e, offset) for e, offset in partition_log.leader_epochs.entries if start < offset < next_offset
        ]
        transactions = segment.path(TXN_INDEX_SUFFIX)
        return RemoteLogSegmentMetadata(
            store.partition,
            uuid4(),
            start,
            next_offset - 1,
            segment.latest().timestamp,
            self._broker_id,
            self._clock.now_ms(),
            segment.size,
            (SegmentEpoch(before, start), *epochs) if before >= 0 else tuple(epochs),
            txn_index_empty=not transactions.exists() or not transactions.stat().st_size,
        )

    async def _upload(self, partition_log: Log, segment: RemoteLogSegmentMetadata) -> None:
        epochs = [e for e in partition_log.leader_epochs.entries if e.start_offset <= segment.end_offset]
        lines = [f"{epoch} {offset}" for epoch, offset in epochs]
        checkpoint = "\n".join(["0", str(len(lines)), *lines, ""]).encode()
        self._quota.record(segment.size, self._clock.monotonic())
        work = asyncio.get_running_loop().run_in_executor(
            self._executor, self._put_files, partition_log.dir, segment, checkpoint
        )
        try:
            await shielded(work)
        except asyncio.CancelledError:
            # this broker no longer leads the partition, and the new leader may delete the copy meanwhile
            await asyncio.wait([work])
            with suppress(KafkaError):
                await self._deleter.delete_objects(segment)
            raise

    def _put_files(self, directory: Path, segment: RemoteLogSegmentMetadata, checkpoint: bytes) -> None:
        """Write all objects of a segment. Runs in a thread."""
        base, put = segment.start_offset, self._storage.put
        snapshot = directory / file_name(segment.next_offset, SNAPSHOT_SUFFIX)
        try:
            # When the segment is deleted locally, the state of its producers has to be on disk.
            sync_file(snapshot)
            put(object_name(segment, RemoteFile.PRODUCER_SNAPSHOT), snapshot.read_bytes())
            for file, suffix in ((RemoteFile.OFFSET_INDEX, INDEX_SUFFIX), (RemoteFile.TIME_INDEX, TIME_INDEX_SUFFIX)):
                put(object_name(segment, file), _content(directory / file_name(base, suffix)))
            if not segment.txn_index_empty:
                put(object_name(segment, RemoteFile.TRANSACTION_INDEX), directory / file_name(base, TXN_INDEX_SUFFIX))
            put(object_name(segment, RemoteFile.LEADER_EPOCHS), checkpoint)
            path = directory / file_name(base, LOG_SUFFIX)
            if path.stat().st_size != segment.size:
                raise RemoteStorageError(f"{path} has changed while it was copied")
            put(object_name(segment, RemoteFile.LOG), path)
        except OSError as error:
            raise KafkaStorageError(f"cannot copy offset {base} of {directory}: {error}") from error

    async def _delete(self, store: RemotePartitionMetadataStore, segment: RemoteLogSegmentMetadata) -> None:
        """Delete a failed copy. If the deletion fails as well, record the copy as abandoned, so that it is deleted
        later.
        """
        try:
            await self._deleter.delete(store, segment)
        except KafkaError as error:
            self._deleter.abandon(segment)
            log.warning(
                "Cannot delete the unfinished copy %s in remote storage for now: %s",
                object_name(segment, RemoteFile.LOG),
                error,
            )


def _content(path: Path) -> bytes:
    """Return the content of an index; no bytes if it was never written."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
