"""The rows of a task that may have to write them again: in memory while they are few, else in a file.

A task may be given any number of rows, and a worker's memory is not Spark's to bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Final

import pyarrow as pa

HELD_BYTES: Final = 64 * 1024 * 1024
"""Size of the rows that a task keeps in memory; more rows go to a file."""


class SpillBuffer:
    """Batches that can be read more than once, one after the other. A context manager, which deletes the file."""

    def __init__(self, most_in_memory: int = HELD_BYTES) -> None:
        self.count = 0
        """The number of rows."""
        # Where Spark keeps what does not fit into memory; the system's directory for temporary files may be memory.
        place = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
        self._file = SpooledTemporaryFile(most_in_memory, dir=place)  # noqa: SIM115 - it is closed with this

    def extend(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Keep all rows of `batches`, which have one schema. Raises OSError if the disk is full."""
        writer = None
        for batch in batches:
            if batch.num_rows:
                writer = writer or pa.ipc.new_stream(self._file, batch.schema)
                writer.write_batch(batch)
                self.count += batch.num_rows
        if writer is not None:
            writer.close()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, from the first one on."""
        if self.count:
            self._file.seek(0)
            yield from pa.ipc.open_stream(self._file)

    def __enter__(self) -> SpillBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()
