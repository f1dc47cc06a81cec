"""Periodic tasks of the broker, such as retention, compaction, checkpoints and removal of deleted files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.broker.coordinators import Coordinators
from ottla.clock import Clock
from ottla.errors import KafkaError, KafkaStorageError
from ottla.logs import limit_repeated_errors
from ottla.replication.partition import Partition
from ottla.replication.partitions import Partitions
from ottla.storage.files import DiskFailedError, DiskFullError, ResourcesExhaustedError
from ottla.storage.log_dir import LogDir
from ottla.storage.retention import apply_retention
from ottla.storage.throttle import StoppedError, Throttle

if TYPE_CHECKING:
    from ottla.remote_log.remote_log_manager import RemoteLogManager
    from ottla.storage.compaction.cleaner import CleanerPass, Steps

log = logging.getLogger("ottla.broker")
failures_log = logging.getLogger("ottla.broker.failures")
limit_repeated_errors(failures_log)

MIN_CLEANER_PAUSE_SECONDS = 0.1
CHECK_FLUSHES_MS = 5_000
"""Interval in milliseconds between checks for flushes that do not return."""
DELETE_FILES_MS = 10_000
"""Interval in milliseconds between removals of deleted files."""
REST_MS = 60_000
"""Interval in milliseconds between checks for idle logs. If a log was not used since the last check, its files are
closed.
"""


class BackgroundTasks:
    """The broker's periodic tasks.

    Each runs on the event loop. Checkpoints, removals of files and compactions block, so workers do them. A failure
    does not end a task.
    """

    def __init__(
        self,
        live: DynamicBrokerConfig,
        clock: Clock,
        log_dirs: Sequence[LogDir],
        partitions: Partitions,
        coordinators: Coordinators,
        workers: Executor,
        remove_expired_tokens: Callable[[], Awaitable[None]],
        remote_log: RemoteLogManager | None = None,
        *,
        compacts_in_processes: bool = False,
    ) -> None:
        """`compacts_in_processes`: large compactions run in processes of their own instead of worker threads."""
        self._live = live
        self._clock = clock
        self._log_dirs = log_dirs
        self._partitions = partitions
        self._coordinators = coordinators
        self._workers = workers
        self._remove_expired_tokens = remove_expired_tokens
        self._remote_log = remote_log
        self._compacts_in_processes = compacts_in_processes
        self._throttle = Throttle()
        """Limits the I/O of all compactions together. Stopping the throttle ends the compactions."""
        self._tasks: list[asyncio.Task[None]] = []
        self._cleaners: dict[int, asyncio.Task[None]] = {}

    def start(self) -> None:
        config = self._live.current
        jobs: tuple[tuple[int, Callable[[], Awaitable[None] | None]], ...] = (
            (config.log_retention_check_interval_ms, self.apply_retention),
            (config.replica_high_watermark_checkpoint_interval_ms, self.checkpoint),
            (config.log_flush_scheduler_interval_ms, self.flush_old),
            (max(1, config.replica_lag_time_max_ms // 2), self.check_isr),
            (CHECK_FLUSHES_MS, self.check_flushes),
            (DELETE_FILES_MS, self.delete_files),
            (REST_MS, self.close_idle_files),
            (config.producer_id_expiration_check_interval_ms, self.forget_silent_producers),
            (
                config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                self._coordinators.abort_timed_out_transactions,
            ),
            (
                config.transaction_remove_expired_transaction_cleanup_interval_ms,
                self._coordinators.remove_expired_transactional_ids,
            ),
            (config.delegation_token_expiry_check_interval_ms, self._remove_expired_tokens),
        )
        if self._remote_log is not None:
            jobs += ((config.log_retention_check_interval_ms, self._remote_log.apply_local_retention),)
        self._tasks = [asyncio.create_task(self._periodically(ms, job)) for ms, job in jobs]
        self.resize_cleaner_pool()

    def resize_cleaner_pool(self) -> None:
        """Start cleaners up to `log.cleaner.threads`, or none if `log.cleaner.enable` is false.

        Surplus ones end after their run over the log directories.
        """
        config = self._live.current
        for number in range(config.log_cleaner_threads if config.log_cleaner_enable else 0):
            cleaner = self._cleaners.get(number)
            if cleaner is None or cleaner.done():
                self._cleaners[number] = asyncio.create_task(self._run_cleaner(number))

    async def close(self) -> None:
        self._throttle.stop()
        tasks = [*self._tasks, *self._cleaners.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def apply_retention(self) -> None:
        """Delete segments according to the retention configs of their topic."""
        now = self._clock.now_ms()
        for partition in self._in_service():
            try:
                apply_retention(partition.log, now)
            except DiskFailedError as error:
                partition.fail(error)
            except KafkaError as error:
                # the disk would fill up if the others had to wait for this one
                failures_log.error(
                    "Cannot apply the retention of %s; retrying in %g s: %s",
                    partition.topic_partition,
                    self._live.current.log_retention_check_interval_ms / 1000,
                    error,
                )

    def _in_service(self) -> list[Partition]:
        return [partition for partition in self._partitions if not partition.closed]

    def _usable(self) -> list[LogDir]:
        return [log_dir for log_dir in self._log_dirs if not log_dir.offline]

    async def checkpoint(self) -> None:
        """Write the checkpoint files of recovery points, high watermarks and log start offsets."""
        await asyncio.gather(*(self._in_worker(log_dir, log_dir.begin_checkpoint()) for log_dir in self._usable()))

    async def _in_worker(self, log_dir: LogDir, work: Callable[[], None] | None) -> None:
        """Run work on a log directory in a worker. On a KafkaStorageError, call `_storage_failed`."""
        if work is None:
            return
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, work)
        except KafkaStorageError as error:
            self._storage_failed(log_dir, error)

    def _storage_failed(self, log_dir: LogDir, error: KafkaStorageError) -> None:
        """Take the log directory offline if its disk has failed. Otherwise log the error; the next run tries again."""
        if isinstance(error, DiskFailedError):
            self._partitions.fail_directory(log_dir, error)
        else:
            failures_log.error(
                "Background task in log directory %s failed; its next run tries again: %s", log_dir.path, error
            )

    def check_isr(self) -> None:
        """Request the removal of lagging followers from the ISRs, and the addition of those that have caught up.

        Usually followers are added when they fetch; this repeats requests that were rejected or delayed.
        """
        for partition in self._partitions:
            partition.leader_replica.check_isr()

    def flush_old(self) -> None:
        """Begin to flush logs with unflushed records if their last flush was at least `flush.ms` ago."""
        now = self._clock.now_ms()
        for partition in self._in_service():
            partition_log = partition.log
            if partition_log.unflushed_messages and now - partition_log.last_flush_ms >= partition_log.config.flush_ms:
                partition.flush_in_background()

    def check_flushes(self) -> None:
        """Check the usable log directories for flushes that do not return."""
        for log_dir in self._usable():
            log_dir.flusher.check()

    def forget_silent_producers(self) -> None:
        """Remove the state of producers without an open transaction after `producer.id.expiration.ms` of inactivity."""
        now = self._clock.now_ms()
        for partition in self._partitions:
            partition.log.producers.remove_expired(now)

    async def delete_files(self) -> None:
        """Remove files of deleted topics and segments, in a worker: the file system may take a second to remove some
        GB.
        """
        now = self._clock.now_ms()
        await asyncio.gather(*(self._in_worker(log_dir, log_dir.begin_deletion(now)) for log_dir in self._usable()))

    def close_idle_files(self) -> None:
        """Close the files of idle logs."""
        for partition in self._in_service():
            try:
                partition.log.close_idle()
            except KafkaError as error:
                failures_log.error(
                    "Cannot close the idle files of %s; retrying in %g s: %s",
                    partition.topic_partition,
                    REST_MS / 1000,
                    error,
                )

    async def compact(self, log_dir: LogDir) -> None:
        """Compact the logs of a directory one after the other until none is dirty enough, or `_clean` returns False.

        A worker copies the records, or waits for a process that does.
        """
        if self._compacts_in_processes:
            from ottla.storage.compaction.copy_process import copy_segments
        else:
            from ottla.storage.compaction.copier import copy_segments
        config = self._live.current
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        share = config.log_cleaner_io_buffer_load_factor / config.log_cleaner_threads
        map_bytes = int(config.log_cleaner_dedupe_buffer_size * share)
        while not log_dir.offline:
            cleaning = log_dir.next_cleaning(
                self._clock.now_ms(), map_bytes=map_bytes, throttle=self._throttle, copy_segments=copy_segments
            )
            if cleaning is None or not await self._clean(log_dir, cleaning):
                return  # no progress: try again after the pause

    async def _clean(self, log_dir: LogDir, cleaning: CleanerPass) -> bool:
        """Run one pass of the cleaner.

        Return False if `compact` must stop for now: because of a disk error or a lack of resources, because the pass
        has compacted nothing, or because the log has changed meanwhile.
        """
        try:
            await asyncio.get_running_loop().run_in_executor(self._workers, cleaning.copy)
            return await self._run_steps(log_dir.finish_cleaning(cleaning))
        except (StoppedError, asyncio.CancelledError):
            log_dir.abort_cleaning(cleaning)
            raise
        except (DiskFailedError, DiskFullError, ResourcesExhaustedError) as error:
            self._storage_failed(log_dir, error)
            log_dir.abort_cleaning(cleaning)
            return False
        except Exception as error:
            # whatever the error: the other logs of the directory must not wait for this one
            log_dir.abort_cleaning(cleaning, error)
            return True

    async def _run_steps(self, steps: Steps) -> bool:
        """Run the steps of an operation on a log, those that use the disk in a worker. Return whether it succeeded."""
        loop = asyncio.get_running_loop()
        try:
            wait_for_disk = next(steps)
            while True:
                try:
                    await loop.run_in_executor(self._workers, wait_for_disk)
                except (OSError, asyncio.CancelledError) as error:
                    wait_for_disk = steps.throw(error)
                else:
                    wait_for_disk = next(steps)
        except StopIteration as done:
            return bool(done.value)

    async def _run_cleaner(self, number: int) -> None:
        """Run the cleaner with this number, counted from 0, while `log.cleaner.threads` is larger than the number."""
        while number < self._live.current.log_cleaner_threads:
            await asyncio.sleep(max(MIN_CLEANER_PAUSE_SECONDS, self._live.current.log_cleaner_backoff_ms / 1000))
            for log_dir in self._usable():
                try:
                    await self.compact(log_dir)
                except StoppedError:
                    return
                except KafkaStorageError as error:
                    self._storage_failed(log_dir, error)
                except Exception:
                    # whatever the error: the task must continue
                    log.exception("Compaction in log directory %s failed; the next run tries again", log_dir.path)

    async def _periodically(self, interval_ms: int, job: Callable[[], Awaitable[None] | None]) -> None:
        seconds = interval_ms / 1000
        while True:
            await asyncio.sleep(seconds)
            try:
                done = job()
                if done is not None:
                    await done
            except Exception:
                log.exception(
                    "The background task %s failed; it runs again in %g s", getattr(job, "__name__", job), seconds
                )
