"""Moving a replica to another log directory of its broker while it is in use (KIP-113).

The log is copied to a second log, in a directory whose name ends in `-future`. When the copy has caught up, it replaces
the first log between two appends. After a crash before that, the first log is still in use, and the unfinished copy
is deleted at the next start. Copying alternates with requests, a chunk at a time. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import uuid4

from ottla.errors import KafkaError, KafkaStorageError
from ottla.replication.partition import Partition
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir

log = logging.getLogger("ottla.replication")

CHUNK_BYTES = 1024 * 1024
"""Maximum number of bytes that are copied at a time, which takes about a millisecond. A single batch may be larger."""


class LogDirMove:
    """The move of one replica to another log directory."""

    def __init__(
        self, partition: Partition, source: LogDir, target: LogDir, bytes_per_second: Callable[[], float]
    ) -> None:
        self.partition = partition
        self.source = source
        self.target = target
        self._bytes_per_second = bytes_per_second
        self._future: Log | None = None
        self._truncations = 0
        """The log's count of truncations at the last copy."""
        self._task: asyncio.Task[None] | None = None

    @property
    def size(self) -> int:
        return 0 if self._future is None else self._future.size

    @property
    def lag(self) -> int:
        return self.partition.log.log_end_offset - (0 if self._future is None else self._future.log_end_offset)

    def start(self, done: Callable[[], None]) -> None:
        """Start copying. `done` is called when the move has ended, successfully or not."""
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(lambda _: done())

    async def cancel(self) -> None:
        """Cancel the move if it has not ended. The replica then stays in its log directory."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        partition = self.partition
        try:
            future = await self._open(partition.log)
            while not partition.closed:
                while copied := await self._copy(future):  # noqa: ASYNC110 - a pause that keeps the limit, or lets requests in
                    await asyncio.sleep(copied / self._bytes_per_second())
                await asyncio.get_running_loop().run_in_executor(None, future.flush)
                if self.lag == 0 and self._truncations == partition.log.cuts and not partition.closed:
                    self._swap(future)
                    return
        except (KafkaError, OSError) as error:
            log.error(
                "Cannot move %s from log directory %s to %s; request the move again when the cause is fixed: %s",
                partition.topic_partition,
                self.source.path,
                self.target.path,
                error,
            )
        finally:
            if self._future is not None:
                self.target.drop_future(self._future)

    async def _open(self, current: Log) -> Log:
        self._truncations = current.cuts
        self._future = future = self.target.create_future(
            current.topic_partition, current.config, current.topic_id, uuid4().hex
        )
        first = next((header for header, _ in current.batches_from(current.log_start_offset)), None)
        await _start(future, current, current.log_end_offset if first is None else first.base_offset)
        return future

    async def _copy(self, future: Log) -> int:
        """Copy the next chunk. Return its size in bytes; 0 if there is none."""
        current = self.partition.log
        if current.cuts != self._truncations:
            # This replica, a follower, has truncated records that its new leader does not have; some of them may have
            # been copied.
            self._truncations = current.cuts
            await _start(future, current, current.segments[0].base_offset)
        if future.log_end_offset >= current.written_end_offset:
            return 0
        if future.log_end_offset < current.segments[0].base_offset:
            # retention has deleted segments before they were copied: start again with the remaining ones
            await _start(future, current, current.segments[0].base_offset)
        offset = max(future.log_end_offset, current.log_start_offset)
        chunk = int(min(CHUNK_BYTES, self._bytes_per_second()))  # no delay of more than about a second
        chunk = min(chunk, current.config.segment_bytes)  # segments may be larger than their current limit
        with current.read(offset, chunk, max_offset=current.log_end_offset) as piece:
            data = memoryview(bytearray(piece.read()))
        future.append_as_follower(data)
        return len(data)

    def _swap(self, future: Log) -> None:
        partition, current = self.partition, self.partition.log
        future.log_start_offset = current.log_start_offset
        future.config = current.config  # the config may have changed during the move
        future.drop_before_start()
        partition.replace_log(self.target.adopt_future(future))
        self._future = None
        try:
            self.source.delete(current.topic_partition)
        except KafkaStorageError as error:
            log.error(
                "Cannot delete the old log of %s in log directory %s after the move to %s; its files stay: %s",
                partition.topic_partition,
                self.source.path,
                self.target.path,
                error,
            )
        log.info("Moved %s from log directory %s to %s", partition.topic_partition, self.source.path, self.target.path)


async def _start(future: Log, current: Log, offset: int) -> None:
    """Restart a copy at an offset.

    If earlier records are in remote storage, the copy gets their leader epochs and the state of their producers.
    """
    if current.log_start_offset < offset:
        state = current.tiered_state_at(offset)
        if state is not None:
            await asyncio.get_running_loop().run_in_executor(None, future.sync_tiered_state, offset, *state)
            future.restart_after_tiered(offset, current.log_start_offset, *state)
            return
    future.truncate_fully_and_start_at(offset)
