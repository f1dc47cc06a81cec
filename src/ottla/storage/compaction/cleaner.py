"""Compaction: rewrites a log's closed segments with only the last record of each key. Kafka's LogCleaner.

A pass has three steps. The constructor makes the plan (on the event loop). `copy` reads the segments and writes
`.cleaned` ones (on a worker, because closed segments do not change). `install_steps` replaces the old segments with
them (on the event loop). After a crash at any point, recovery restores either the old segments or the new ones. Offsets
never change, so there are gaps between them afterwards.

Tombstones stay until delete.retention.ms after the first pass that reads them, and transaction markers until
delete.retention.ms after the first pass that retains no records of their transactions: this time is written into their
batches (KIP-534). Formats 0 and 1 have no field for it, so the age of the segment counts. Records of aborted
transactions are removed at once. The last batch of an active producer stays, without records if necessary, because it
has the sequence number that the next batch must follow.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Generator

from ottla.errors import KafkaStorageError
from ottla.storage.compaction import copier
from ottla.storage.compaction.cleanable import Cleanable, measure
from ottla.storage.compaction.copier import CopiedSegments, CopyPlan, SourceSegment, Spend, cleaned_segment
from ottla.storage.compaction.offset_map import DEDUPE_BUFFER_BYTES
from ottla.storage.files import DiskFailedError, storage_error, sync_directory
from ottla.storage.log import Log
from ottla.storage.segment import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX, Segment
from ottla.storage.throttle import Throttle
from ottla.storage.txn_index import AbortedTransaction

log = logging.getLogger("ottla.storage.compaction.cleaner")


Steps = Generator[Callable[[], None], None, bool]
"""A generator that runs on the event loop, or in `run_steps`.

It yields functions that may wait for the disk. The caller runs them, in a worker if it is on the event loop, and raises
their OSErrors in the generator. The generator returns whether the work was completed.
"""
CopySegments = Callable[[CopyPlan, Spend], CopiedSegments]
"""A function that copies the records of a plan, and returns when the new segments are on disk."""


def run_steps(steps: Steps) -> bool:
    """Run steps in this thread, including the functions that they yield, and return their result."""
    try:
        wait_for_disk = next(steps)
        while True:
            try:
                wait_for_disk()
            except OSError as error:
                wait_for_disk = steps.throw(error)
            else:
                wait_for_disk = next(steps)
    except StopIteration as done:
        return bool(done.value)


class CleanerPass:
    """One compaction pass over one log."""

    def __init__(
        self,
        cleanable: Cleanable,
        now_ms: int,
        *,
        map_bytes: int = DEDUPE_BUFFER_BYTES,
        throttle: Throttle | None = None,
        copy_segments: CopySegments = copier.copy_segments,
    ) -> None:
        """`copy_segments`: copies the records, in this process or in another one."""
        self.log = cleanable.log
        self.first_dirty = cleanable.first_dirty
        self.closed_to = self.log.active.base_offset
        """The end of the closed segments. The checkpointed recovery point must be here or later before `install`."""
        self.cleaned_to = cleanable.first_dirty
        """The offset up to which this pass has read the keys: the first dirty offset once it is installed."""
        self._throttle = throttle or Throttle()
        self._copy_segments = copy_segments
        self._sources = [s for s in self.log.segments[:-1] if s.base_offset < cleanable.end]
        self._cuts = self.log.cuts
        self._groups: list[tuple[list[Segment], Segment]] = []
        self._plan = self._new_plan(cleanable, now_ms, map_bytes)

    def _new_plan(self, cleanable: Cleanable, now_ms: int, map_bytes: int) -> CopyPlan:
        """Return the plan, with copies of what the worker needs: it must not read data that appends change."""
        config = self.log.config
        producers = self.log.producers.producers.values()
        aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in self.log.aborted_transactions(self.log.log_start_offset, cleanable.end):
            aborted.setdefault(transaction.producer_id, []).append(transaction)
        # Messages of formats 0 and 1 have no field for the delete horizon, so the age of their segment counts.
        clean = [s.created_ms for s in self._sources if s.base_offset < cleanable.first_dirty]
        return CopyPlan(
            directory=self.log.dir,
            sources=[
                SourceSegment(s.base_offset, s.size, s.created_ms, list(self.log.txn_index(s).entries))
                for s in self._sources
            ],
            first_dirty=cleanable.first_dirty,
            limit=cleanable.end,
            now_ms=now_ms,
            map_bytes=map_bytes,
            segment_bytes=config.segment_bytes,
            index_bytes=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            delete_retention_ms=config.delete_retention_ms,
            old_horizon_ms=clean[-1] - config.delete_retention_ms if clean else 0,
            last_batches={p.batches[-1].last_offset for p in producers if p.batches},
            last_epochs={p.id: p.epoch for p in producers if not p.batches},
            aborted=aborted,
        )

    # In a worker thread

    def copy(self) -> None:
        """Read the keys, then write `.cleaned` segments, and wait until they are on disk.

        The old segments are flushed as well. Recovery can then distinguish records that compaction has removed (below
        the recovery point) from the end of a segment that was lost in a power failure (above it).

        Raises the errors of `files.storage_error` for an I/O error, StoppedError if the throttle is stopped,
        CorruptMessageError for damage in the log, and the errors of `copy_segments`. After an error the written files
        are removed (see `abort`), and the log is unchanged. An OSError is ignored if the log was closed meanwhile.
        """
        try:
            self.log.flush(self.closed_to)
            copied = self._copy_segments(self._plan, self._throttle.spend)
        except OSError as error:
            self.abort()
            if self.log.closed:  # deleted or moved meanwhile, with its directory
                return
            raise storage_error(f"compact {self.log.topic_partition}", self.log.dir, error) from error
        except BaseException:
            self.abort()
            raise
        by_offset = {segment.base_offset: segment for segment in self._sources}
        self._groups = [
            ([by_offset[offset] for offset in group], cleaned_segment(self._plan, group[0])) for group in copied.groups
        ]
        self.cleaned_to = copied.cleaned_to
        if copied.cleaned_to == self.first_dirty:
            log.warning(
                "%s cannot be compacted: the batch with offset %d may have more keys than fit into a cleaner's share "
                "of log.cleaner.dedupe.buffer.size; raise this config",
                self.log.topic_partition,
                self.first_dirty,
            )

    # In the event loop

    def install(self) -> bool:
        """Run all of `install_steps` in this thread, and return the result."""
        return run_steps(self.install_steps())

    def install_steps(self) -> Steps:
        """Replace the old segments with the new ones.

        If the log is closed, or no longer has all records of the old ones, remove the new ones, unless the log's
        directory was deleted, and return False.

        An I/O error before the first old segment is removed leaves the log unchanged. If a segment cannot be replaced,
        DiskFailedError is raised, because the log is inconsistent until the next start completes the swap. An error
        after that leaves only files that the next start deletes.
        """
        if not self._is_current():
            self.abort()
            return False
        doing = f"swap in compacted segments of {self.log.topic_partition}"
        plain = [(group, self.log.segment_at(target.base_offset)) for group, target in self._groups]
        try:
            # From the last to the first: recovery regards a .swap file before all .cleaned ones as complete.
            for _, fresh in reversed(plain):
                fresh.rename(CLEANED_SUFFIX, SWAP_SUFFIX)
            yield functools.partial(sync_directory, self.log.dir)
        except OSError as error:
            if self.log.closed:
                return False  # the log was deleted meanwhile, with its directory
            self._undo(plain)
            raise storage_error(doing, self.log.dir, error) from error
        if not self._is_current():
            self._undo(plain)
            return False
        try:
            for group, fresh in plain:
                self._replace(group, fresh)
        except (OSError, KafkaStorageError) as error:
            raise DiskFailedError(f"could not {doing} in {self.log.dir}: {error}; restart the broker") from error
        self._groups = []
        try:
            yield functools.partial(self._delete_replaced, [segment for group, _ in plain for segment in group])
        except OSError as error:
            if not self.log.closed:
                raise storage_error(doing, self.log.dir, error) from error
        return True

    def _delete_replaced(self, segments: list[Segment]) -> None:
        """Delete the files of old segments now, because the next pass may need their names. Readers keep them open.

        The kernel takes milliseconds to free a large file's pages, so the event loop should not wait for this.
        """
        for segment in segments:
            segment.delete_files(DELETED_SUFFIX)
        sync_directory(self.log.dir)

    def _is_current(self) -> bool:
        """Return whether the log is open and still has all segments that were copied, with all of their records."""
        present = {id(segment) for segment in self.log.segments}
        is_whole = self.log.cuts == self._cuts and not self.log.closed
        return is_whole and all(id(s) in present for group, _ in self._groups for s in group)

    def _undo(self, plain: list[tuple[list[Segment], Segment]]) -> None:
        """Remove the written files, whether they are still named `.cleaned` or already `.swap`.

        If a `.swap` file remained, the next recovery would regard it as complete.
        """
        try:
            for _, fresh in plain:
                fresh.delete_files(SWAP_SUFFIX)
            self.abort()
        except OSError as error:
            doing = f"remove compacted segments of {self.log.topic_partition}"
            raise DiskFailedError(f"could not {doing} in {self.log.dir}: {error}; restart the broker") from error

    def _replace(self, group: list[Segment], fresh: Segment) -> None:
        at = self.log.segments.index(group[0])
        self.log.discard(group)
        fresh.rename(SWAP_SUFFIX, "")
        fresh.load()
        if fresh.size == 0 and at > 0:
            fresh.delete_files("")
            return
        self.log.segments.insert(at, fresh)

    def abort(self) -> None:
        """Remove the written files. Those that cannot be removed now will be deleted at the next start."""
        for source in self._sources:  # a new segment has the base offset of one of them
            try:
                cleaned_segment(self._plan, source.base_offset).delete_files("")
            except OSError as error:
                log.warning(
                    "Cannot remove unfinished compacted files of %s; the next start deletes them: %s",
                    self.log.topic_partition,
                    error,
                )
        self._groups = []


def clean(opened: Log, first_dirty: int, *, map_bytes: int = DEDUPE_BUFFER_BYTES) -> int:
    """Run a whole pass in this thread. Return the first dirty offset after it."""
    now_ms = opened.clock.now_ms()
    cleaning = CleanerPass(measure(opened, first_dirty, now_ms), now_ms, map_bytes=map_bytes)
    cleaning.copy()
    return cleaning.cleaned_to if cleaning.install() else first_dirty
