"""Retention: deletes segments by age, by the log's size, by the log start offset. Never above the high watermark.

Kafka's rules: a segment is deleted when its highest timestamp is older than retention.ms; if that holds for all of them
the active one is rolled first, so that an idle topic becomes empty, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.files import storage_error

if TYPE_CHECKING:
    from ottla.storage.log import Log
    from ottla.storage.segment import Segment


def apply_retention(log: Log, now_ms: int) -> int:
    """Delete the segments that retention.ms, retention.bytes and the log start offset allow, and return how many.

    Raises KafkaStorageError if the disk refuses.
    """
    try:
        return _apply_retention(log, now_ms)
    except OSError as error:
        raise storage_error(f"shorten the log of {log.topic_partition}", log.dir, error) from error


def _apply_retention(log: Log, now_ms: int) -> int:
    if not log.config.deletes:
        return log.drop_before_start()
    count = max(_too_old(log, now_ms), _too_many_bytes(log))
    if count:
        if count == len(log.segments):
            log.roll()
        log.log_start_offset = max(log.log_start_offset, log.segments[count].base_offset)
    return log.drop_before_start()


def _end(log: Log, i: int) -> int:
    """Return the offset after segment `i`."""
    return log.segments[i + 1].base_offset if i + 1 < len(log.segments) else log.log_end_offset


def _may_go(log: Log, i: int) -> bool:
    """Return whether a segment may be deleted: not above the high watermark, and not an empty active one."""
    segment = log.segments[i]
    return _end(log, i) <= log.high_watermark and (segment.size > 0 or segment is not log.active)


def _too_old(log: Log, now_ms: int) -> int:
    """Return how many segments at the front are older than retention.ms."""
    if log.config.retention_ms < 0:
        return 0
    count = 0
    for i, segment in enumerate(log.segments):
        if not _may_go(log, i) or now_ms - newest_ms(segment) <= log.config.retention_ms:
            break
        count += 1
    return count


def newest_ms(segment: Segment) -> int:
    """Return the highest timestamp in a segment; the file's modification time if records have none."""
    timestamp = segment.latest().timestamp
    return timestamp if timestamp >= 0 else segment.modified_ms()


def _too_many_bytes(log: Log) -> int:
    """Return how many segments at the front can be deleted with at least retention.bytes remaining."""
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size - log.config.retention_bytes
    count = 0
    for i, segment in enumerate(log.segments):
        if not _may_go(log, i) or excess < segment.size:
            break
        excess -= segment.size
        count += 1
    return count
