"""Writes and reads the rows of Parquet files in batches, with a bounded amount of memory."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ottla_tables.formats.parquet_table import present_path
from ottla_tables.formats.table import Table, WrittenFile
from ottla_tables.partitioning import split
from ottla_tables.values.arrow_types import conformed

ROW_GROUP_ROWS: Final = 500_000
ROW_GROUP_BYTES: Final = 64 << 20
FILE_BYTES: Final = 512 << 20
"""Default size in bytes at which a FileWriter begins the next file."""
READ_ROWS: Final = 50_000
MAX_OPEN: Final = 50
"""Maximum number of files that a FileWriter has open, one per combination of values of the partition columns."""
COMPRESSION: Final = "zstd"
COMPRESSION_LEVEL: Final = 1
DELTA_ENCODED: Final = ("offset", "timestamp")
"""Columns whose values differ little from row to row, so that delta encoding stores them in few bits."""
NO_DICTIONARY: Final = frozenset({*DELTA_ENCODED, "value"})


class FileSystems(Protocol):
    """A table or object store, which returns the file systems of its files."""

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a file at a URL, and the file's path in it."""
        ...


class CountingStream:
    """A binary stream that counts the bytes written to it."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.size = 0

    def write(self, data: Any) -> None:
        """Write bytes to the stream, and count them."""
        self._stream.write(data)
        self.size += len(data)

    def flush(self) -> None:
        """Do nothing: a Parquet file can be read only when it is complete."""

    def close(self) -> None:
        """Close the underlying stream."""
        self.closed = True
        self._stream.close()


class ParquetFile:
    """A Parquet file that is being written. Rows are buffered until they fill a row group."""

    def __init__(self, path: str, stream: Any, schema: Any, partition: tuple[Any, ...]) -> None:
        self.path = path
        self.partition = partition
        self._stream = CountingStream(stream)
        self._schema = schema
        leaves = [name for name in schema.names if name not in NO_DICTIONARY]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(self._stream, mode="w"),
            schema,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=leaves,
            column_encoding={name: "DELTA_BINARY_PACKED" for name in DELTA_ENCODED if name in schema.names},
        )
        self._pending: list[Any] = []
        self._pending_rows = self._pending_bytes = self._rows = 0

    def write(self, batch: Any) -> None:
        """Buffer rows. Write a row group if there are enough of them."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        if self._pending_rows:
            self._writer.write_table(pa.Table.from_batches(self._pending, self._schema), self._pending_rows)
        self._rows += self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    @property
    def size(self) -> int:
        """The number of bytes written so far, without the buffered rows."""
        return self._stream.size

    def close(self) -> WrittenFile:
        """Write the buffered rows and the footer, close the stream, and return the complete file."""
        self._write_group()
        self._writer.close()
        self._stream.close()
        return WrittenFile(self.path, self._rows, self._stream.size, self._writer.writer.metadata, self.partition)

    def abandon(self) -> WrittenFile:
        """Close the stream of a file that will be deleted, and return the incomplete file. An OSError is ignored."""
        self._writer.is_open = False  # or its finalizer would write the footer
        with suppress(OSError):  # such as a full disk, which may be why the file is deleted
            self._stream.close()
        return WrittenFile(self.path, self._rows, self._stream.size, None, self.partition)


class FileWriter:
    """Writes rows to new files of a table: one per combination of values of the partition columns. Another file begins
    if one becomes too large, or was closed because more than `MAX_OPEN` would be open.
    """

    def __init__(self, table: Table, file_bytes: int = FILE_BYTES) -> None:
        self._table = table
        self._file_bytes = file_bytes
        self._schema = table.schema
        self._fields = table.partition_fields
        self._open: dict[tuple[Any, ...], ParquetFile] = {}
        self._written: list[WrittenFile] = []

    def write(self, batch: Any) -> None:
        """Add rows. Columns of the table that they lack are null; other columns are left out."""
        if not batch.num_rows:
            return
        batch = aligned(batch, self._schema)
        for values, rows in split(batch, self._fields):
            file = self._open.pop(values, None)
            if file is None:
                if len(self._open) >= MAX_OPEN:
                    self._close(next(iter(self._open)))
                file = self._begin(values)
            self._open[values] = file  # last: the file at the front was not written to for the longest time
            file.write(rows)
            if file.size >= self._file_bytes:
                self._close(values)

    def _begin(self, values: tuple[Any, ...]) -> ParquetFile:
        pairs = zip(self._fields, values, strict=True)
        directory = "/".join(f"{field.name}={_directory(value)}" for field, value in pairs)
        path, stream = self._table.open_file(f"ottla-{uuid.uuid4().hex}.parquet", directory)
        return ParquetFile(path, stream, self._schema, values)

    def _close(self, values: tuple[Any, ...]) -> None:
        self._written.append(self._open[values].close())
        del self._open[values]

    def close(self) -> list[WrittenFile]:
        """Complete all files, and return them."""
        for values in list(self._open):
            self._close(values)
        return self._written

    def discard(self) -> None:
        """Delete all files, complete or not."""
        for file in self._open.values():
            incomplete = file.abandon()
            with suppress(OSError):  # object stores may not have an incomplete file
                self._table.discard([incomplete])
        self._open.clear()
        self._table.discard(self._written)


def aligned(batch: Any, schema: Any) -> Any:
    """Return rows with the columns of the table, in the table's order. Missing columns and fields are null. Raises
    ArrowInvalid if a value does not fit its column.
    """
    if batch.schema.equals(schema):
        return batch
    present = set(batch.schema.names)
    columns = [
        conformed(batch.column(field.name), field.type)
        if field.name in present
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_batches(files: FileSystems, path: str, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield the rows of a file in batches, with a bounded amount of memory. `columns`: None for all."""
    path = path.removeprefix("file://")
    if "://" not in path:
        source: Any = present_path(path)
    else:
        file_system, key = files.file_system(path)
        source = file_system.open_input_file(key)
    with pq.ParquetFile(source) as file:
        yield from file.iter_batches(READ_ROWS, columns=columns)


def _directory(value: Any) -> str:
    from urllib.parse import quote

    if value is None:
        return "__HIVE_DEFAULT_PARTITION__"
    return quote(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value), safe="-_ ")
