"""The state of a follower that does not copy the records that its leader has only in remote storage: the leader epochs
and producers of these records. Kafka's TierStateMachine.
"""

from __future__ import annotations

import asyncio

from ottla.errors import CorruptMessageError, FencedLeaderEpochError, KafkaStorageError
from ottla.remote_log.chunk_cache import ChunkReader
from ottla.remote_log.metadata_manager import RemoteLogMetadataManager
from ottla.remote_log.remote_segment import RemoteSegment
from ottla.remote_log.segment_metadata import RemotePartition
from ottla.replication.partition import Partition
from ottla.replication.tiered_follower import LeaderLocalStart
from ottla.storage.leader_epochs import EpochEntry


class AuxiliaryStateBuilder:
    """Reads leader epochs and producer state from remote storage for followers. Not thread-safe: event loop only."""

    def __init__(self, metadata: RemoteLogMetadataManager, chunks: ChunkReader) -> None:
        self._metadata = metadata
        self._chunks = chunks

    async def build(self, partition: Partition, leader: LeaderLocalStart) -> None:
        """Restart the log of a follower after the segment in remote storage that has the last record before the
        leader's local log.

        The segment may end later than that record. Raises KafkaError or OSError.
        """
        epoch, stats = partition.image.leader_epoch, partition.topic_stats
        stats.aux_state_requests += 1
        try:
            await self._build(partition, leader, epoch)
        except BaseException:
            stats.aux_state_errors += 1
            raise

    async def _build(self, partition: Partition, leader: LeaderLocalStart, epoch: int) -> None:
        tp = partition.topic_partition
        store = self._metadata.store(RemotePartition(partition.topic_id, tp.topic, tp.partition))
        if store is None or not store.is_ready:
            raise KafkaStorageError(f"the metadata of {tp} in remote storage has not been read yet")
        metadata = store.find(leader.epoch_before, leader.offset - 1)
        if metadata is None:
            raise KafkaStorageError(
                f"no segment of {tp} in remote storage is known that has offset {leader.offset - 1} of leader epoch "
                f"{leader.epoch_before}"
            )
        segment = RemoteSegment(metadata, self._chunks)
        epochs = parse_leader_epochs(await segment.leader_epochs())
        snapshot = await segment.producer_snapshot()
        start = metadata.next_offset
        log = partition.log
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, log.sync_tiered_state, start, epochs, snapshot)
        if partition.leads or partition.closed or partition.image.leader_epoch != epoch or partition.log is not log:
            raise FencedLeaderEpochError(f"{tp} has another leader")
        log.restart_after_tiered(start, leader.log_start_offset, epochs, snapshot)
        log.remote_end_offset = start


def parse_leader_epochs(content: bytes) -> list[EpochEntry]:
    """Return the entries of a leader epoch checkpoint in remote storage. Raises KafkaStorageError if it is damaged."""
    try:
        lines = content.decode().splitlines()
        entries = [EpochEntry(int(epoch), int(offset)) for epoch, offset in (line.split() for line in lines[2:])]
        if len(entries) != int(lines[1]):
            raise CorruptMessageError(f"{len(entries)} entries instead of {lines[1]}")
    except (ValueError, IndexError, CorruptMessageError) as error:
        raise KafkaStorageError(f"a leader epoch checkpoint in remote storage is damaged: {error}") from None
    return entries
