"""A log directory: its lock, its owner, its logs and their checkpoints. Kafka's LogManager.

    with LogDir.open(path, broker_id=0) as log_dir:
        log_dir.load(...)

The file `.kafka_cleanshutdown` marks a clean shutdown of all logs. It is deleted before any log is opened for appends.
Not thread-safe: event loop only, except `load`, `stop_loading`, and the functions that are returned for workers.
"""

from __future__ import annotations

import fcntl
import functools
import logging
import os
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from ottla import errors, names
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.config.topic import LogConfig
from ottla.model import TopicPartition
from ottla.names import directory_name
from ottla.storage import checkpoints
from ottla.storage.append_writer import AppendWriter
from ottla.storage.files import replace_file, storage_error, sync_directory
from ottla.storage.log import Log
from ottla.storage.log_flusher import LogFlusher
from ottla.storage.partition_metadata import TopicIdSync, write_topic_id
from ottla.storage.recovery import open_log

if TYPE_CHECKING:
    from ottla.storage.compaction.cleaner import CleanerPass, CopySegments, Steps
    from ottla.storage.throttle import Throttle

log = logging.getLogger("ottla.storage")

LOCK = ".lock"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
MAX_DIRECTORY_NAME = 255
CLUSTER_METADATA = "__cluster_metadata"
PROGRESS_SECONDS = 2.0
"""Minimum time in seconds between two log lines about the progress of loading."""

ConfigOf = Callable[[TopicPartition], LogConfig]
T = TypeVar("T")


class UnusableDirectoryError(errors.StartupError):
    """The directory cannot be used; the broker can continue with its other directories."""


class LoadStoppedError(Exception):
    """Loading was stopped before all logs were loaded, because the broker is shutting down."""


class LogDir:
    """One of the broker's `log.dirs`."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock = SYSTEM_CLOCK,
        producer_expiration_ms: int = 86_400_000,
        writer: AppendWriter | None = None,
    ) -> None:
        self.path = path
        self.clock = clock
        self.producer_expiration_ms = producer_expiration_ms
        self.writer = writer
        self.flusher = LogFlusher(path)
        self._topic_ids = TopicIdSync(self.flusher.workers)
        self.cleaner_passes = 0
        """The number of completed cleaner passes."""
        self.logs: dict[TopicPartition, Log] = {}
        self.failed: dict[TopicPartition, errors.KafkaStorageError] = {}
        """The logs that `load` could not open, with their errors."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The high watermarks of the checkpoint that `load` has read."""
        self.cleaner_offsets: dict[TopicPartition, int] = {}
        """The first dirty offset of each log: the offset up to which a compaction has read its keys.

        Logs that were never compacted are missing.
        """
        self.uncleanable: set[TopicPartition] = set()
        """The logs whose compaction has failed permanently, which are skipped until the next start."""
        self._cleaning: set[TopicPartition] = set()
        self.offline = ""
        """The reason why the directory is offline, such as a disk error; empty while it is online."""
        self.cluster_id: str | None = None
        self.directory_id = ""
        self._lock_fd = -1
        self._pending_deletes: list[tuple[int, Path]] = []
        self._clean = False
        self._loaded = False
        self.load_progress = ""
        """A text about the progress of `load`, for people. Empty before `load`, and once it has returned."""
        self._stops_loading = False
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}
        self._compacted_below = True
        """Whether all logs are compacted below the checkpointed recovery points only."""
        self._checkpoint_lock = Lock()
        """Held by `_write_checkpoints`, which several workers may call."""
        self._checkpoints_begun = 0
        self._last_written = 0
        """The number of the checkpoints that were written last; earlier ones are no longer written."""
        self._durable_points: Mapping[TopicPartition, int] = {}
        """The recovery points that are on disk."""
        self._cleaner_checkpoint_lock = Lock()
        """Held by `_write_cleaner_offsets`, which several workers may call."""
        self._last_cleaner_checkpoint = 0
        """The number of the pass after which the cleaner's checkpoint was written last."""

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        broker_id: int,
        cluster_id: str | None = None,
        clock: Clock = SYSTEM_CLOCK,
        producer_expiration_ms: int = 86_400_000,
        writer: AppendWriter | None = None,
    ) -> LogDir:
        """Open a log directory: create it if it is missing, lock it, and check its owner.

        `cluster_id`: None for the one in meta.properties, or a new one if it has none. Raises StartupError if the
        directory cannot be used, or belongs to another broker or cluster.
        """
        log_dir = cls(Path(path).absolute(), clock=clock, producer_expiration_ms=producer_expiration_ms, writer=writer)
        log_dir._make()
        log_dir._acquire()
        try:
            log_dir._identify(broker_id, cluster_id)
        except OSError as error:
            log_dir._release()
            raise UnusableDirectoryError(storage_error("write meta.properties", log_dir.path, error).message) from error
        except BaseException:
            log_dir._release()
            raise
        return log_dir

    def __enter__(self) -> LogDir:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Opening

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UnusableDirectoryError(f"log.dirs: {self.path} is not a directory") from None
        except OSError as error:
            raise UnusableDirectoryError(f"log.dirs: {self.path} cannot be created: {error.strerror}") from None
        if not os.access(self.path, os.R_OK | os.W_OK | os.X_OK):
            raise UnusableDirectoryError(f"log.dirs: {self.path} is not writable for this user")

    def _acquire(self) -> None:
        try:
            self._lock_fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Kafka uses the other kind of lock. Take it as well, so that neither broker uses a directory that the other
            # one has locked.
            fcntl.lockf(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._release()
            raise errors.StartupError(
                f"log.dirs: {self.path} is in use by another process; stop it or choose another"
            ) from None
        except OSError as error:
            self._release()
            raise UnusableDirectoryError(f"log.dirs: {self.path} is not writable: {error.strerror}") from None

    def _release(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def _identify(self, broker_id: int, cluster_id: str | None) -> None:
        """Compare broker id and cluster id with meta.properties. Write the file if it is missing or incomplete.

        Raises StartupError if they differ.
        """
        path = self.path / META_PROPERTIES
        properties = _read_properties(path)
        owner = properties.get("broker.id", properties.get("node.id"))
        if owner is not None and owner != str(broker_id):
            raise errors.StartupError(
                f"log.dirs: {self.path} belongs to broker {owner}, and this is broker {broker_id}; "
                f"set broker.id={owner} or choose another directory"
            )
        stored_cluster = properties.get("cluster.id")
        if cluster_id is not None and stored_cluster is not None and stored_cluster != cluster_id:
            raise errors.StartupError(
                f"log.dirs: {self.path} belongs to cluster {stored_cluster}, and this is cluster {cluster_id}; "
                f"choose another directory"
            )
        self.cluster_id = cluster_id or stored_cluster or new_id()
        self.directory_id = properties.get("directory.id") or new_id()
        expected = {
            **properties,
            "version": properties.get("version", "0"),
            "node.id" if properties.get("version") == "1" else "broker.id": str(broker_id),
            "cluster.id": self.cluster_id,
            "directory.id": self.directory_id,
        }
        if expected != properties:
            lines = ["#", *(f"{key}={value}" for key, value in expected.items()), ""]
            replace_file(path, "\n".join(lines).encode())

    # Loading

    def load(self, config_of: ConfigOf, *, recovery_threads: int = 1) -> None:
        """Open all logs. `config_of`: returns a partition's config.

        Raises UnusableDirectoryError if the directory cannot be read or written. A log that cannot be opened is added
        to `failed`; the others are not affected. After a crash, up to `recovery_threads` logs are recovered at the same
        time. `load` may run in a separate thread; other threads may then read `load_progress` and call `stop_loading`,
        which makes `load` raise LoadStoppedError unless it has already begun to open the last log.
        """
        began = perf_counter()
        marker = self.path / CLEAN_SHUTDOWN
        self._clean = marker.exists()
        names = (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS)
        self._checkpointed = {name: self._offsets(name) for name in names}
        recovery_points, start_offsets, self.high_watermarks = self._checkpointed.values()
        self._durable_points = recovery_points
        self._compacted_below = recovery_points.pop(checkpoints.COMPACTED_BELOW, None) is not None
        self.cleaner_offsets = self._offsets(checkpoints.CLEANER_OFFSETS)
        try:
            partitions = self.partitions()
            if self._clean:
                marker.unlink()
                sync_directory(self.path)  # the marker would be wrong if it came back after a power failure
        except OSError as error:
            raise UnusableDirectoryError(storage_error("load the logs", self.path, error).message) from error
        reported = began
        verb = "loading" if self._clean else "recovering"
        self.load_progress = f"{verb} the logs of {self.path}: 0 of {len(partitions)}"

        def load_one(item: tuple[TopicPartition, Path]) -> Log | errors.KafkaStorageError:
            tp, directory = item
            if self._stops_loading:
                raise LoadStoppedError
            return self._load_one(tp, directory, config_of, recovery_points.get(tp), start_offsets.get(tp, 0))

        with ThreadPoolExecutor(1 if self._clean else recovery_threads, "ottla-recovery") as pool:
            for i, ((tp, _), loaded) in enumerate(zip(partitions, pool.map(load_one, partitions), strict=True)):
                self._add_loaded(tp, loaded)
                self.load_progress = f"{verb} the logs of {self.path}: {i + 1} of {len(partitions)}"
                if perf_counter() - reported > PROGRESS_SECONDS:
                    reported = perf_counter()
                    log.info("%s: %d of %d logs loaded", self.path, len(self.logs), len(partitions))
        if partitions:
            how = "after a clean shutdown" if self._clean else "with recovery, since the last shutdown was not clean"
            log.info(
                "%s: %d of %d logs loaded in %.2f s %s",
                self.path,
                len(self.logs),
                len(partitions),
                perf_counter() - began,
                how,
            )
        self._loaded, self.load_progress = True, ""
        self._compacted_below = self._compacted_below or not self.failed

    def stop_loading(self) -> None:
        """Make `load` stop after the logs that are being opened, because the broker stops."""
        self._stops_loading = True

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.path / name)
        except errors.KafkaStorageError as error:
            # Without the checkpoint, recovery checks more, and retention keeps more. This is slower, but not wrong.
            log.warning("%s; starting without this checkpoint", error)
            return {}

    def partitions(self) -> list[tuple[TopicPartition, Path]]:
        """Return the partitions that have a log in this log directory, with the logs' directories. Stray partitions are
        left out.

        Delete the directories of deleted logs and of unfinished moves.
        """
        directories = []
        with os.scandir(self.path) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if not entry.is_dir():
                    continue
                if entry.name.endswith((DELETE_SUFFIX, FUTURE_SUFFIX)):
                    self._remove(Path(entry.path))
                    continue
                tp = parse_directory_name(entry.name)
                if tp is not None:
                    directories.append((tp, Path(entry.path)))
        return directories

    def _load_one(
        self, tp: TopicPartition, directory: Path, config_of: ConfigOf, recovery_point: int | None, start_offset: int
    ) -> Log | errors.KafkaStorageError:
        compacted_below = self._compacted_below and recovery_point is not None
        try:
            opened = open_log(
                directory,
                tp,
                config_of(tp),
                clock=self.clock,
                recovery_point=recovery_point or 0,
                log_start_offset=start_offset,
                clean=self._clean,
                compacted=tp in self.cleaner_offsets,
                compacted_below=compacted_below,
                producer_expiration_ms=self.producer_expiration_ms,
                writer=self.writer,
                flusher=self.flusher,
                begin_lower_checkpoint=self._begin_lower_checkpoint,
            )
            if not compacted_below:
                opened.flush()  # what was compacted above its recovery point is below it from now on
            return opened
        except errors.KafkaStorageError as error:
            return error

    def _add_loaded(self, tp: TopicPartition, loaded: Log | errors.KafkaStorageError) -> None:
        if isinstance(loaded, errors.KafkaStorageError):
            log.error(
                "Cannot open the log of %s in %s, so this broker does not serve the partition until a restart: %s",
                tp,
                self.path,
                loaded,
            )
            self.failed[tp] = loaded
            return
        high_watermark = max(self.high_watermarks.get(tp, 0), loaded.local_log_start_offset)
        loaded.high_watermark = min(high_watermark, loaded.log_end_offset)
        self.logs[tp] = loaded

    # Logs

    def create(self, tp: TopicPartition, config: LogConfig, topic_id: str | None = None) -> Log:
        """Return the log of a partition. Open or create it if it is not open.

        If it is not open, and its directory has another topic id than `topic_id` (None: any is accepted), rename that
        directory to one of a stray partition first. Raises KafkaStorageError.
        """
        existing = self.logs.get(tp)
        if existing is not None:
            return existing
        created = self._open_new(tp, config)
        if topic_id is not None and created.topic_id not in (None, topic_id):
            # the log is of a deleted topic of this name, and could not be renamed when the topic was deleted
            self.logs[tp] = created
            log.warning(
                "%s: renamed the log of an earlier, deleted topic with the same name to %s; delete that directory to "
                "free space",
                tp,
                self.mark_stray(tp),
            )
            created = self._open_new(tp, config)
        if topic_id is not None and created.topic_id != topic_id:
            self.assign_topic_id(created, topic_id)
        self.logs[tp] = created
        return created

    def assign_topic_id(self, owner: Log, topic_id: str) -> None:
        """Write the id of the topic that a log belongs to. A thread calls fsync later. Raises KafkaStorageError."""
        try:
            write_topic_id(owner.dir, topic_id)
        except OSError as error:
            raise storage_error(f"write the topic id of {owner.topic_partition}", owner.dir, error) from error
        owner.topic_id = topic_id
        self._topic_ids.add(owner.dir)

    def _open_new(self, tp: TopicPartition, config: LogConfig) -> Log:
        return open_log(
            self.path / directory_name(tp),
            tp,
            config,
            clock=self.clock,
            producer_expiration_ms=self.producer_expiration_ms,
            writer=self.writer,
            flusher=self.flusher,
            begin_lower_checkpoint=self._begin_lower_checkpoint,
        )

    def create_future(self, tp: TopicPartition, config: LogConfig, topic_id: str | None, unique: str) -> Log:
        """Create an empty log that will replace one in another log directory (see `replication.log_dir_move`).

        `unique`: text that makes the name of the log's directory unique.
        """
        suffix = f".{unique}{FUTURE_SUFFIX}"
        names.check_partition(tp)
        path = self.path / f"{tp.topic[: MAX_DIRECTORY_NAME - len(suffix) - 12]}-{tp.partition}{suffix}"
        created = open_log(path, tp, config, clock=self.clock, producer_expiration_ms=self.producer_expiration_ms)
        if topic_id is not None:
            write_topic_id(created.dir, topic_id)
            created.topic_id = topic_id
        return created

    def adopt_future(self, future: Log) -> Log:
        """Make a future log the log of its partition: close it, rename its directory, and open it again."""
        tp, start = future.topic_partition, future.log_start_offset
        future.close(waits_for_indexes=False)  # no fsync on the event loop
        path = self.path / directory_name(tp)
        future.dir.rename(path)
        sync_directory(self.path)
        if future.topic_id is not None:
            self._topic_ids.add(path)
        adopted = self.logs[tp] = open_log(
            path,
            tp,
            future.config,
            clock=self.clock,
            log_start_offset=start,
            clean=True,
            producer_expiration_ms=self.producer_expiration_ms,
            writer=self.writer,
            flusher=self.flusher,
            begin_lower_checkpoint=self._begin_lower_checkpoint,
        )
        return adopted

    def drop_future(self, future: Log) -> None:
        """Delete a future log."""
        future.close_without_flush()
        self._remove(future.dir)

    def delete(self, tp: TopicPartition) -> None:
        """Delete a log, if there is one: rename its directory at once. A function that `begin_deletion` returns after
        file.delete.delay.ms removes the directory, or else `close` or the next start.
        """
        partition_log = self.logs.get(tp)
        if partition_log is not None:
            doomed = self._rename(partition_log, DELETE_SUFFIX)
            self._pending_deletes.append((self.clock.now_ms() + partition_log.config.file_delete_delay_ms, doomed))

    def mark_stray(self, tp: TopicPartition) -> Path:
        """Close a log, and rename its directory so that it ends with `-stray`. Return the new path."""
        return self._rename(self.logs[tp], STRAY_SUFFIX)

    def _rename(self, partition_log: Log, ending: str) -> Path:
        tp = partition_log.topic_partition
        del self.logs[tp]
        self.cleaner_offsets.pop(tp, None)
        self.uncleanable.discard(tp)
        partition_log.close_without_flush()
        suffix = f".{os.urandom(16).hex()}{ending}"
        target = self.path / f"{tp.topic[: MAX_DIRECTORY_NAME - len(suffix) - 12]}-{tp.partition}{suffix}"
        try:
            partition_log.dir.rename(target)
            if (
                ending != DELETE_SUFFIX
            ):  # if the rename of a deleted log is lost in a power failure, the log is deleted again later
                sync_directory(self.path)
        except OSError as error:
            raise storage_error(f"move away the log of {tp}", self.path, error) from error
        return target

    def begin_deletion(self, now_ms: int) -> Callable[[], None] | None:
        """Return a function, to be called by a worker, that removes directories and segments whose delay has passed.

        Return None if there are none. The function raises KafkaStorageError if a segment's file cannot be deleted.
        """
        due = [path for when, path in self._pending_deletes if when <= now_ms]
        self._pending_deletes = [(when, path) for when, path in self._pending_deletes if when > now_ms]
        segments = [deletion for opened in self.logs.values() if (deletion := opened.begin_deletion(now_ms))]
        if not due and not segments:
            return None

        def delete() -> None:
            for path in due:
                self._remove(path)
            failures: list[errors.KafkaStorageError] = []
            for delete_segments in segments:  # all of them, because they are no longer due
                try:
                    delete_segments()
                except errors.KafkaStorageError as error:
                    failures.append(error)
            if failures:
                raise failures[0]

        return delete

    @staticmethod
    def _remove(path: Path) -> None:
        import shutil  # importing it takes 5 ms, with every archive format, and it is seldom used

        try:
            shutil.rmtree(path)
        except OSError as error:
            log.warning("Cannot remove directory %s of a log, so the next start tries again: %s", path, error)

    def next_cleaning(
        self,
        now_ms: int,
        *,
        map_bytes: int | None = None,
        throttle: Throttle | None = None,
        copy_segments: CopySegments | None = None,
    ) -> CleanerPass | None:
        """Return a cleaner pass over the log that most needs compaction. Return None if no log needs compaction, or if
        the pass cannot be prepared because of an error other than OSError, which marks the log as uncleanable.

        Call the pass's `copy` in a worker, then `finish_cleaning` or `abort_cleaning`. Until then, there is no other
        pass over this log. `copy_segments`: copies the records; by default in this process. Raises the errors of
        `files.storage_error` after an OSError.
        """
        from ottla.storage.compaction import copier
        from ottla.storage.compaction.cleanable import dirtiest, measure
        from ottla.storage.compaction.cleaner import CleanerPass
        from ottla.storage.compaction.offset_map import DEDUPE_BUFFER_BYTES

        busy = self._cleaning | self.uncleanable
        candidates = []
        for tp, opened in self.logs.items():
            if opened.config.compacted and tp not in busy:
                try:
                    candidates.append(measure(opened, self.cleaner_offsets.get(tp, 0), now_ms))
                except Exception as error:
                    self._not_cleanable(tp, error)
        chosen = dirtiest(candidates)
        if chosen is None:
            return None
        tp = chosen.log.topic_partition
        try:
            cleaning = CleanerPass(
                chosen,
                now_ms,
                map_bytes=DEDUPE_BUFFER_BYTES if map_bytes is None else map_bytes,
                throttle=throttle,
                copy_segments=copy_segments or copier.copy_segments,
            )
        except Exception as error:
            self._not_cleanable(tp, error)
            return None
        self._cleaning.add(tp)
        return cleaning

    def _not_cleanable(self, tp: TopicPartition, error: Exception) -> None:
        """Mark a log as uncleanable after an error, or raise the storage error if it is an OSError."""
        if isinstance(error, OSError):
            raise storage_error(f"compact {tp}", self.path, error) from error
        self._mark_uncleanable(tp, error)

    def _mark_uncleanable(self, tp: TopicPartition, because: object) -> None:
        """Mark a log as uncleanable until the next start, and write the reason to the broker's log."""
        self.uncleanable.add(tp)
        # A KafkaError needs no traceback. Any other error is a bug of the cleaner, so its traceback is logged.
        trace = because if isinstance(because, Exception) and not isinstance(because, errors.KafkaError) else None
        reason = str(because) or type(because).__name__
        log.error(
            "Compaction of %s failed; the log is not compacted again in %s until the broker restarts: %s",
            tp,
            self.path,
            reason,
            exc_info=trace,
        )

    def finish_cleaning(self, cleaning: CleanerPass) -> Steps:
        """Return the steps that install the segments of a pass and store its end offset.

        Their result is False if the pass has compacted nothing, or the log has changed meanwhile.
        """
        tp = cleaning.log.topic_partition
        try:
            return (yield from self._finish_cleaning(cleaning, tp))
        finally:
            self._cleaning.discard(tp)

    def _finish_cleaning(self, cleaning: CleanerPass, tp: TopicPartition) -> Steps:
        if self.logs.get(tp) is not cleaning.log or cleaning.log.closed:
            return False  # the log was deleted, or has moved to another directory
        if cleaning.cleaned_to <= cleaning.first_dirty:
            self.abort_cleaning(cleaning, "one batch has more keys than the cleaner's map")
            return False
        if self._durable_points.get(tp, 0) < cleaning.closed_to:
            yield functools.partial(self._write_checkpoints, self._recovery_points(), self._next_checkpoint())
        if not (yield from cleaning.install_steps()) or self.logs.get(tp) is not cleaning.log:
            return False
        self.cleaner_passes += 1
        self.cleaner_offsets[tp] = cleaning.cleaned_to
        live = {tp: offset for tp, offset in self.cleaner_offsets.items() if tp in self.logs}
        try:
            yield functools.partial(self._write_cleaner_offsets, live, self.cleaner_passes)
        except OSError as error:
            raise storage_error("write the cleaner's checkpoint", self.path, error) from error
        return True

    def _write_cleaner_offsets(self, offsets: Mapping[TopicPartition, int], number: int) -> None:
        """Write the cleaner's checkpoint after the pass with this number, unless one of a later pass was written."""
        with self._cleaner_checkpoint_lock:
            if number > self._last_cleaner_checkpoint:
                checkpoints.write_offsets(self.path / checkpoints.CLEANER_OFFSETS, offsets)
                self._last_cleaner_checkpoint = number

    def abort_cleaning(self, cleaning: CleanerPass, because: object = None) -> None:
        """Abort a pass.

        `because`: the cause of a permanent failure, after which the log is marked as uncleanable until the next start;
        None for a temporary failure.
        """
        tp = cleaning.log.topic_partition
        cleaning.abort()
        self._cleaning.discard(tp)
        if because is not None and self.logs.get(tp) is cleaning.log:  # otherwise it was deleted meanwhile
            self._mark_uncleanable(tp, because)

    # Checkpoints and shutdown

    def checkpoint(self) -> None:
        """Write recovery points, high watermarks and log start offsets durably. Raises KafkaStorageError."""
        self.begin_checkpoint()()

    def begin_checkpoint(self) -> Callable[[], None]:
        """Return a function, to be called by a worker, that writes the current offsets. It raises KafkaStorageError.

        It calls fsync, because without it a file may be empty after a power failure. Without its recovery point, a log
        that has lost a segment in the middle looks like a compacted one.
        """
        return functools.partial(self._write_checkpoints, self._offsets_by_file(), self._next_checkpoint())

    def _begin_lower_checkpoint(self, tp: TopicPartition) -> Callable[[], None] | None:
        """Return a function that writes the recovery points of all logs. Return None if the log is not in this
        directory, or if its recovery point on disk is not above the current one and no checkpoint is being written.
        """
        opened = self.logs.get(tp)
        if opened is None:
            return None
        is_writing = self._checkpoints_begun != self._last_written  # perhaps of a higher recovery point
        if self._durable_points.get(tp, 0) <= opened.recovery_point and not is_writing:
            return None
        return functools.partial(self._write_checkpoints, self._recovery_points(), self._next_checkpoint())

    def _next_checkpoint(self) -> int:
        self._checkpoints_begun += 1
        return self._checkpoints_begun

    def _recovery_points(self) -> dict[str, dict[TopicPartition, int]]:
        points = {tp: opened.recovery_point for tp, opened in self.logs.items()}
        by_file = self._with_failed({checkpoints.RECOVERY_POINTS: points})
        if self._compacted_below:
            by_file[checkpoints.RECOVERY_POINTS][checkpoints.COMPACTED_BELOW] = 1
        return by_file

    def _offsets_by_file(self) -> dict[str, dict[TopicPartition, int]]:
        by_file = {
            checkpoints.HIGH_WATERMARKS: {tp: opened.high_watermark for tp, opened in self.logs.items()},
            checkpoints.LOG_START_OFFSETS: {
                tp: opened.log_start_offset
                for tp, opened in self.logs.items()
                if opened.log_start_offset != opened.segments[0].base_offset
            },
        }
        return {**self._recovery_points(), **self._with_failed(by_file)}

    def _with_failed(self, by_file: dict[str, dict[TopicPartition, int]]) -> dict[str, dict[TopicPartition, int]]:
        for name, offsets in by_file.items():
            # the checkpointed offsets of logs that could not be opened remain valid
            read = self._checkpointed.get(name, {})
            offsets.update({tp: read[tp] for tp in self.failed if tp in read and tp not in self.logs})
        return by_file

    def _write_checkpoints(self, by_file: dict[str, dict[TopicPartition, int]], number: int) -> None:
        try:
            with self._checkpoint_lock:
                if number < self._last_written:
                    return
                for name, offsets in by_file.items():
                    checkpoints.write_offsets(self.path / name, offsets)
                self._durable_points, self._last_written = by_file[checkpoints.RECOVERY_POINTS], number
        except OSError as error:
            raise storage_error("write the checkpoints", self.path, error) from error

    def take_offline(self, reason: str) -> None:
        """Record that the directory is offline, so that `close` writes nothing, and the next start recovers its logs as
        after a crash.
        """
        self.offline = reason
        for opened in self.logs.values():
            opened.failed = True

    def close(self) -> None:
        """Flush and close all logs, and write the checkpoints.

        If nothing failed, write the marker of a clean shutdown. If the directory is offline or was not loaded, write
        nothing.
        """
        if self._lock_fd < 0:
            return
        try:
            self._topic_ids.close()
            self.flusher.close()
            self._close()
        finally:
            if self.writer is not None:
                self.writer.close()
            self._release()

    def _close(self) -> None:
        if not self._loaded or self.offline:
            # If not all logs were opened, the checkpoints stay, and a clean shutdown is not marked.
            for opened in self.logs.values():
                opened.close_without_flush()
            return
        clean = not self.failed and not any(opened.failed for opened in self.logs.values())
        try:
            for tp, opened in self.logs.items():
                try:
                    opened.close()
                except (errors.KafkaStorageError, OSError) as error:
                    clean = False
                    log.error(
                        "Could not close log %s, so the next start recovers all logs in %s: %s", tp, self.path, error
                    )
            self.checkpoint()
            for _, path in self._pending_deletes:
                self._remove(path)
            if clean:
                replace_file(self.path / CLEAN_SHUTDOWN, b'{"version":0,"brokerEpoch":-1}')
        except (errors.KafkaStorageError, OSError) as error:
            # the next start recovers the logs, as after a crash
            log.error(
                "Could not mark the shutdown of %s as clean, so the next start recovers its logs: %s", self.path, error
            )


def parse_directory_name(name: str) -> TopicPartition | None:
    """Return the partition of a directory named `topic-N`.

    Return None for other names, and for the metadata log of Kafka's KRaft controller.
    """
    tp = names.parse_directory_name(name)
    return None if tp is None or tp.topic == CLUSTER_METADATA else tp


def new_id() -> str:
    """Return a random UUID (version 4) in Kafka's text format: 22 characters of URL-safe base64, not starting with a
    dash.
    """
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = b2a_base64(raw, newline=False).decode().translate({43: "-", 47: "_", 61: None})
        if not text.startswith("-"):  # command-line tools would parse a leading dash as an option
            return text


def owner_of(path: Path | str) -> int | None:
    """Return the id of the broker that a log directory belongs to; None if its meta.properties is missing or has no
    valid id.

    Raises UnusableDirectoryError if its meta.properties cannot be read.
    """
    properties = _read_properties(Path(path) / META_PROPERTIES)
    owner = properties.get("broker.id", properties.get("node.id"))
    return int(owner) if owner is not None and owner.isdecimal() else None


def cluster_of(path: Path | str) -> str | None:
    """Return the id of the cluster that a log directory belongs to; None if its meta.properties is missing or has none.

    Raises UnusableDirectoryError if its meta.properties cannot be read.
    """
    return _read_properties(Path(path) / META_PROPERTIES).get("cluster.id") or None


def first_stored(read: Callable[[str], T | None], paths: Sequence[str]) -> T | None:
    """Return the first value other than None that `read` returns for one of these log directories; None if there is
    none.

    A directory that cannot be used is skipped. Raises its UnusableDirectoryError if no other directory has a value.
    """
    failure: UnusableDirectoryError | None = None
    for path in paths:
        try:
            value = read(path)
        except UnusableDirectoryError as error:
            failure = failure or error
            continue
        if value is not None:
            return value
    if failure is not None:
        raise failure
    return None


def _read_properties(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableDirectoryError(f"{path} cannot be read: {error}") from None
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}
