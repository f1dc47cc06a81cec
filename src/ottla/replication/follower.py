"""The follower's side of a partition: determines the next fetch position, and applies the leader's response to the log.

Responses are applied by `apply`, which returns the next step. Nothing here sends requests.
"""

from __future__ import annotations

import logging
from enum import Enum

from ottla import errors
from ottla.backoff import ExponentialBackoff
from ottla.model import TopicPartition
from ottla.protocol.fetch_session import FetchPosition
from ottla.protocol.messages.fetch import EpochEndOffset, PartitionData
from ottla.replication.partition import Partition
from ottla.storage.files import DiskFailedError
from ottla.storage.log import Log

logger = logging.getLogger("ottla.replication")


class NextStep(Enum):
    """The next step of a follower after a response."""

    CONTINUE = "fetch from the end of the log"
    LIST_OFFSETS = "request the leader's log start and end offsets, because the fetch offset is outside its log"
    BUILD_AUXILIARY_STATE = "start at the leader's local log start, because earlier records are only in remote storage"
    AWAIT_IMAGE = "wait for a new image: the partition has another leader, or another leader epoch"


class Follower:
    """A partition that this broker fetches during one leader epoch."""

    __slots__ = (
        "_failures",
        "_place",
        "awaits_disk",
        "awaits_image",
        "awaits_remote",
        "due",
        "epoch",
        "has_truncated",
        "lag",
        "partition",
        "requested",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.image.leader_epoch
        self.due = 0.0
        """The earliest time of the next fetch, in seconds of the loop's clock."""
        self.awaits_image = False
        self.awaits_disk = False
        self.awaits_remote = False
        """Whether the state at the leader's local log start is being read from remote storage."""
        self.has_truncated = False
        """Whether the log was truncated, and its recovery point may have to be written before the next fetch."""
        self.lag = 0
        """The number of offsets by which this log was behind the leader's high watermark when the leader's offsets were
        last applied; at least 0.
        """
        self.requested: FetchPosition | None = None
        """The fetch position in the last request; None before the first one."""
        self._place: FetchPosition | None = None
        self._failures = 0

    @property
    def tp(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def is_current(self) -> bool:
        """Whether the partition still follows the leader in this leader epoch."""
        partition = self.partition
        return not partition.leads and not partition.closed and partition.image.leader_epoch == self.epoch

    @property
    def is_ready(self) -> bool:
        """Whether the partition may be fetched: it waits neither for a new image nor for the disk or remote storage."""
        return not self.awaits_image and not self.awaits_disk and not self.awaits_remote

    def fetch_position(self) -> FetchPosition:
        """Return the position of the next fetch: the log's start and end offset, the leader epoch that this broker
        follows, and the latest leader epoch of the log.
        """
        partition, log, last = self.partition, self.partition.log, self._place
        if (
            last
            # Reuse the last position if nothing has changed, which is the usual case: a broker may follow very many
            # partitions.
            is not None
            and last.offset == log.log_end_offset
            and last.log_start == log.log_start_offset
            and last.last_fetched_epoch == log.leader_epochs.latest
        ):
            return last
        self._place = FetchPosition(
            log.log_end_offset, self.epoch, partition.topic_id, log.leader_epochs.latest, log.log_start_offset
        )
        return self._place

    def apply(self, data: PartitionData) -> NextStep:
        """Apply the leader's response to a fetch at `fetch_position`, and return the next step.

        Raises the KafkaError of an error code without a next step, of a failed append or of a failed deletion,
        InvalidRecordError if there is nothing to truncate, and OSError if the log cannot be truncated.
        """
        if data.error_code == errors.OffsetOutOfRangeError.code:
            return NextStep.LIST_OFFSETS
        if data.error_code == errors.OffsetMovedToTieredStorageError.code:
            return NextStep.BUILD_AUXILIARY_STATE
        if data.error_code == errors.FencedLeaderEpochError.code:
            return NextStep.AWAIT_IMAGE
        if data.error_code != errors.NONE:
            raise errors.for_code(data.error_code)
        if data.diverging_epoch is not None:
            self._truncate(data.diverging_epoch)
        else:
            self._append(data)
        self._failures = 0
        return NextStep.CONTINUE

    def _append(self, data: PartitionData) -> None:
        records = data.records
        if records is not None and records.nbytes:
            assert isinstance(records, memoryview), "records that were received are in memory"
            log = self.partition.log
            end = log.log_end_offset
            if data.log_start_offset >= end > log.log_start_offset and _first_offset(records) < end:
                # The leader has deleted all records that are here, and its first batch begins before its log start.
                # Other batches are appended, so that the states of producers stay.
                self._restart_at(data.log_start_offset)
            self._append_records(records)
        self._update_offsets(data.high_watermark, data.log_start_offset)

    def _append_records(self, records: memoryview) -> None:
        assert not self.partition.leads, "a leader does not fetch"
        self.partition.check_open()
        self.partition.topic_stats.replication_bytes_in += records.nbytes
        try:
            self.partition.log.append_as_follower(records)
        except DiskFailedError as error:
            self.partition.fail(error)
            raise

    def _update_offsets(self, leader_high_watermark: int, leader_log_start: int) -> None:
        """Apply the leader's high watermark, up to the end of this log, and then its log start offset, up to the high
        watermark. Neither decreases.
        """
        log = self.partition.log
        self.lag = max(0, leader_high_watermark - log.log_end_offset)
        high_watermark = min(leader_high_watermark, log.log_end_offset)
        if high_watermark > log.high_watermark:
            self.partition.set_high_watermark(high_watermark)
        if leader_log_start > log.log_start_offset:
            log.delete_records_before(min(leader_log_start, log.high_watermark))

    def _truncate(self, diverging: EpochEndOffset) -> None:
        log = self.partition.log
        before = (log.log_end_offset, log.leader_epochs.latest)
        self._truncate_to(truncation_offset(log, diverging))
        if (log.log_end_offset, log.leader_epochs.latest) == before:
            raise errors.InvalidRecordError(
                f"{self.tp} diverges from its leader at {diverging}, but has nothing to truncate"
            )

    def apply_range(self, leader_start: int, leader_end: int) -> None:
        """Handle the leader's log start and end offsets.

        If this log ends after the leader's, truncate it to the leader's end. If it ends before the leader's start,
        restart it there. Otherwise raise OffsetOutOfRangeError.
        """
        end = self.partition.log.log_end_offset
        if leader_end < end:
            self._truncate_to(leader_end)
        elif leader_start > end:
            self._restart_at(leader_start)
        else:
            raise errors.OffsetOutOfRangeError(
                f"{self.tp} ends at offset {end}, although its leader has {leader_start} to {leader_end}"
            )

    def _restart_at(self, leader_start: int) -> None:
        log = self.partition.log
        if log.log_start_offset < log.log_end_offset:
            logger.warning(
                "Deleting the log of %s, because the leader has already deleted all records in it; starting again at "
                "offset %d, the leader's log start",
                self.tp,
                leader_start,
            )
        else:
            logger.info(
                "Starting the log of %s, which has no records, at offset %d, the leader's log start",
                self.tp,
                leader_start,
            )
        log.truncate_fully_and_start_at(leader_start)
        log.high_watermark = leader_start
        self.has_truncated = True

    def _truncate_to(self, offset: int) -> None:
        log = self.partition.log
        if offset < log.high_watermark:
            logger.warning(
                "Truncating %s to offset %d to match its leader: committed records below the high watermark %d are "
                "deleted from this replica",
                self.tp,
                offset,
                log.high_watermark,
            )
        else:
            logger.info(
                "Truncating %s to offset %d to match its leader (high watermark %d)",
                self.tp,
                offset,
                log.high_watermark,
            )
        log.truncate_to(offset)
        self.has_truncated = True

    @property
    def is_failing(self) -> bool:
        """Whether fetching the partition has failed since the last successful fetch."""
        return self._failures > 0

    def delay(self, now: float, backoff: ExponentialBackoff) -> float:
        """Delay the next fetch after a failure.

        Return the delay in seconds, which grows with each consecutive failure.
        """
        seconds = backoff.backoff(self._failures)
        self._failures += 1
        self.due = now + seconds
        return seconds


def truncation_offset(log: Log, diverging: EpochEndOffset) -> int:
    """Return the offset to which a log has to be truncated, given the end offset of an epoch in the leader's log
    (KIP-279).
    """
    if diverging.epoch < 0:
        return log.high_watermark  # the leader has no epochs, so only committed records certainly agree
    epoch, end = log.end_offset_for_epoch(diverging.epoch)
    if epoch < 0:
        return min(diverging.end_offset, log.log_end_offset)
    if epoch < diverging.epoch:
        return end  # this log has no records of that epoch; the next fetch compares an older one
    return min(end, diverging.end_offset, log.log_end_offset)


def describe(error: errors.KafkaError) -> str:
    """Return an error's name and message."""
    return f"{error.name or type(error).__name__} {error.message}".strip()


def _first_offset(records: memoryview) -> int:
    """Return the base offset of the first batch. In every format, a batch begins with it."""
    return int.from_bytes(records[:8], "big")
