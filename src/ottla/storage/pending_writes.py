"""The queued writes of one log while the disk is slow (see `append_writer`).

Invariant: all batches before `first_offset` are in the files. Not thread-safe: event loop only, except that other
threads may read `first_offset`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.storage.append_writer import AppendWriter, QueuedWrite
from ottla.storage.files import LogFile
from ottla.storage.segment import Segment

if TYPE_CHECKING:
    from typing_extensions import Buffer


class PendingWrite(QueuedWrite):
    """An append whose write is queued."""

    __slots__ = ("base_offset", "segment")

    def __init__(
        self,
        base_offset: int,
        segment: Segment,
        file: LogFile,
        position: int,
        data: bytes,
        on_result: Callable[[PendingWrite, OSError | None], None],
    ) -> None:
        super().__init__(file, position, data, on_result)
        self.base_offset = base_offset
        self.segment = segment


class PendingWrites:
    """The queued writes of one log, in the order of their offsets."""

    def __init__(
        self,
        writer: AppendWriter,
        on_written: Callable[[int], None],
        on_failed: Callable[[OSError, Callable[[], None]], None],
    ) -> None:
        """`on_written`: called after one or more queued writes, with the number of bytes written.

        `on_failed`: called with the error of a queued write and a function that queues it again.
        """
        self.writer = writer
        self.first_offset: int | None = None
        """The base offset of the first append that is not written yet; None if all are written."""
        self._on_written = on_written
        self._on_failed = on_failed
        self._writes: dict[int, PendingWrite] = {}

    def __bool__(self) -> bool:
        return bool(self._writes)

    def write(self, base_offset: int, segment: Segment, file: LogFile, position: int, data: Buffer) -> None:
        """Write an append to its segment, or queue the write if the disk does not keep up. Raises OSError."""
        if self.writer.write(file, position, data):
            return
        pending = PendingWrite(base_offset, segment, file, position, bytes(data), self._on_result)
        self._writes[base_offset] = pending
        self._update(segment)
        self.writer.submit(pending)

    def _write_again(self, pending: PendingWrite) -> None:
        if self._writes.get(pending.base_offset) is pending:
            self.writer.submit(pending)

    def _on_result(self, pending: PendingWrite, error: OSError | None) -> None:
        if self._writes.get(pending.base_offset) is not pending:
            return  # the log was closed or truncated
        if error is not None:
            self._on_failed(error, functools.partial(self._write_again, pending))
            return
        del self._writes[pending.base_offset]
        self._update(pending.segment)
        self._on_written(len(pending.data))

    def _update(self, segment: Segment) -> None:
        self.first_offset = next(iter(self._writes), None)
        queued = (pending.position for pending in self._writes.values() if pending.segment is segment)
        segment.set_unwritten(next(queued, None))

    def wait(self) -> None:
        """Wait until all queued writes are complete. Raises the error of the first one that has failed."""
        writes = list(self._writes.values())
        self.writer.wait(writes)
        self._writes.clear()
        for pending in writes:
            self._update(pending.segment)
        if writes:
            self._on_written(sum(len(pending.data) for pending in writes))

    def drop(self) -> None:
        """Ignore the results of the queued writes, because the log is closed. They are still carried out."""
        self._writes.clear()
