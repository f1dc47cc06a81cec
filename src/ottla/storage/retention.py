"""Retention: deletes segments by age, by the log's size, and by the log start offset, but never above the high
watermark.

As in Kafka, a segment is deleted when its highest timestamp is older than retention.ms. If this applies to all
segments, a new active one is rolled first, so that an idle topic becomes empty.

Tiered logs (KIP-405) also have local.retention.ms and local.retention.bytes, by which segments that are in remote
storage are deleted locally. Their log start offset follows from the retention in remote storage (`remote_log`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.files import storage_error
from ottla.storage.segment import SNAPSHOT_SUFFIX, file_name

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment


def apply_retention(log: Log, now_ms: int) -> int:
    """Delete the segments before the log start offset. Return their number.

    If cleanup.policy has `delete` and segments are not copied to remote storage, first advance the log start offset
    according to retention.ms and retention.bytes. If remote storage was disabled for the topic, first advance it to the
    first local segment. Raises KafkaStorageError after an I/O error.
    """
    try:
        return _apply_retention(log, now_ms)
    except OSError as error:
        raise storage_error(f"shorten the log of {log.topic_partition}", log.dir, error) from error


def local_retention_offset(log: Log, now_ms: int) -> int:
    """Return the offset before which the segments of a tiered log can be deleted locally.

    These segments are in remote storage, and exceed local.retention.ms or local.retention.bytes. The offset is the
    start of a segment.

    If all segments exceed them, the active one is rolled, so that it can be copied and then deleted. Raises
    KafkaStorageError after an I/O error.
    """
    config = log.config
    try:
        too_old = _too_old(log, now_ms, config.effective_local_retention_ms)
        count = max(too_old, _too_many_bytes(log, config.effective_local_retention_bytes))
        if count == len(log.segments):
            log.roll()
        while count and not _is_replaceable(log, log.segments[count].base_offset):
            count -= 1
    except OSError as error:
        raise storage_error(f"shorten the log of {log.topic_partition}", log.dir, error) from error
    return log.segments[count].base_offset


def _is_replaceable(log: Log, offset: int) -> bool:
    """Return whether the records before `offset` are in remote storage, and the producer state at `offset` in a
    snapshot.
    """
    return offset <= log.remote_end_offset and (log.dir / file_name(offset, SNAPSHOT_SUFFIX)).exists()


def _apply_retention(log: Log, now_ms: int) -> int:
    config = log.config
    if config.remote_storage_enable and not config.remote_log_copy_disable:
        return log.drop_before_start()
    if log.log_start_offset < log.segments[0].base_offset and not config.remote_storage_enable:
        log.log_start_offset = log.segments[0].base_offset  # remote storage was disabled for the topic
    if not config.deletes:
        return log.drop_before_start()
    count = max(_too_old(log, now_ms, config.retention_ms), _too_many_bytes(log, config.retention_bytes))
    if count:
        if count == len(log.segments):
            log.roll()
        log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
    return log.drop_before_start()


def _end(log: Log, i: int) -> int:
    """Return the offset after the last record of segment `i`."""
    return log.segments[i + 1].base_offset if i + 1 < len(log.segments) else log.log_end_offset


def _may_delete(log: Log, i: int) -> bool:
    """Return whether segment `i` may be deleted: it ends at or below the high watermark, and is not an empty active
    segment.
    """
    segment = log.segments[i]
    return _end(log, i) <= log.high_watermark and (segment.size > 0 or segment is not log.active)


def _too_old(log: Log, now_ms: int, retention_ms: int) -> int:
    """Return the number of leading segments that may be deleted and are older than `retention_ms`; 0 if it is -1 (no
    limit).
    """
    if retention_ms < 0:
        return 0
    count = 0
    for i, segment in enumerate(log.segments):
        if not _may_delete(log, i) or now_ms - newest_ms(segment) <= retention_ms:
            break
        count += 1
    return count


def newest_ms(segment: Segment) -> int:
    """Return the highest timestamp in a segment in ms; the file's modification time if the records have no
    timestamps.
    """
    timestamp = segment.latest().timestamp
    return timestamp if timestamp >= 0 else segment.modified_ms()


def _too_many_bytes(log: Log, retention_bytes: int) -> int:
    """Return the number of leading segments that can be deleted so that at least `retention_bytes` remain.

    Return 0 if `retention_bytes` is -1 (no limit).
    """
    if retention_bytes < 0:
        return 0
    excess = log.size - retention_bytes
    count = 0
    for i, segment in enumerate(log.segments):
        if not _may_delete(log, i) or excess < segment.size:
            break
        excess -= segment.size
        count += 1
    return count
