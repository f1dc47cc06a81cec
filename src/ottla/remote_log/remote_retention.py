"""The choice of the segments that a leader deletes in remote storage. Kafka's RLMExpirationTask.

There is no I/O here. As long as remote.storage.enable is set, segments are deleted only if they are before the log
start offset, if other readable segments of the log cover their offsets, or if their deletion was interrupted.
"""

from __future__ import annotations

from ottla.remote_log.metadata_store import ChainedSegment, RemotePartitionMetadataStore
from ottla.remote_log.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from ottla.storage.log import Log


def expired_before(log: Log, store: RemotePartitionMetadataStore, now_ms: int) -> int:
    """Return the offset before which records in remote storage are older than retention.ms, or exceed
    retention.bytes, at most the high watermark.

    Return the log start offset if there are none, or if cleanup.policy does not contain `delete`.
    """
    config, start = log.config, log.log_start_offset
    if not config.deletes or (config.retention_ms < 0 and config.retention_bytes < 0):
        return start
    excess = -1
    if 0 <= config.retention_bytes < store.readable_bytes + log.size:  # otherwise there is certainly no excess
        excess = _total_bytes(log, list(store.chain(log.leader_epochs, start))) - config.retention_bytes
    for segment, until in store.chain(log.leader_epochs, start):
        too_old = config.retention_ms >= 0 and now_ms - _newest_ms(segment) > config.retention_ms
        if not too_old and excess < segment.size:
            break
        excess -= segment.size
        start = until
    return min(start, log.high_watermark)


def _newest_ms(segment: RemoteLogSegmentMetadata) -> int:
    """Return the highest timestamp of a segment in ms; the time of its copy if its records have none."""
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.event_timestamp_ms


def _total_bytes(log: Log, chain: list[ChainedSegment]) -> int:
    """Return the size of a partition: its segments in remote storage, and those only on this broker."""
    end = chain[-1].until if chain else log.log_start_offset
    return sum(segment.size for segment, _ in chain) + sum(s.size for s in log.segments if s.base_offset >= end)


def deletable(log: Log, store: RemotePartitionMetadataStore) -> list[RemoteLogSegmentMetadata]:
    """Return the segments to be deleted: those before the log start offset, those whose offsets other readable segments
    of the log cover, and those whose deletion was interrupted.

    So unfinished copies of earlier leaders are deleted once their offsets have been copied again. Until then they stay,
    because the earlier leader may still finish them.

    If remote.storage.enable is not set and remote.log.delete.on.disable is set, return all segments.
    """
    if not log.config.remote_storage_enable and log.config.remote_log_delete_on_disable:
        return list(store.segments)
    chain, end = set(), log.log_start_offset
    for segment, until in store.chain(log.leader_epochs, log.log_start_offset):
        chain.add(segment.id)
        end = until
    return [
        segment
        for segment in store.segments
        if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        or segment.end_offset < log.log_start_offset
        or (segment.id not in chain and segment.end_offset < end)
    ]
