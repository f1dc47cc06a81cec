"""Stores the rows of a task that may have to write them more than once: in memory, or in a file if they are too large.

A task may have any number of rows, and Spark does not limit the memory of Python workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final

import pyarrow as pa

HELD_BYTES: Final = 64 * 1024 * 1024
"""The size in bytes above which all rows of a task are stored in a file instead of memory."""


class SpillBuffer:
    """Record batches that can be iterated over more than once. A context manager, which deletes the file at the end."""

    def __init__(self, most_in_memory: int = HELD_BYTES) -> None:
        self.count: int = 0
        """The number of rows."""
        # Where Spark keeps what does not fit into memory; the system's directory for temporary files may be memory.
        place = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        self._file = SpooledTemporaryFile(most_in_memory, dir=place)  # noqa: SIM115 - it is closed with this

    def extend(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Add all rows of `batches`, which have the same schema. May be called once. Raises OSError if the disk is
        full.
        """
        writer = None
        for batch in batches:
            if batch.num_rows:
                writer = writer or pa.ipc.new_stream(self._file, batch.schema)
                writer.write_batch(batch)
                self.count += batch.num_rows
        if writer is not None:
            writer.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches from the beginning."""
        if self.count:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)

    def __enter__(self) -> SpillBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
