"""Parquet files that are written to a disk without space."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla_tables import parquet
from ottla_tables.formats.table import PartitionField, WrittenFile
from ottla_tables.parquet import FileWriter

SCHEMA = pa.schema([("part", pa.int64()), ("x", pa.int64())])
MAGIC = b"PAR1"


class FullDisk:
    """A table whose files have space for the first bytes of a Parquet file."""

    schema = SCHEMA
    partition_fields = (PartitionField("part", "part", lambda column: column),)

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.streams: list[Any] = []

    def open_file(self, name: str, _: str) -> tuple[str, Any]:
        path = self._directory / name
        stream = path.open("wb", buffering=0)
        write = stream.write

        class Stream:
            closed = False

            def write(self, data: Any) -> int | None:
                if bytes(data) != MAGIC:
                    raise OSError(errno.ENOSPC, "no space is left on the device")
                return write(data)

            def close(self) -> None:
                self.closed = True
                stream.close()

        self.streams.append(Stream())
        return str(path), self.streams[-1]

    def discard(self, files: Sequence[WrittenFile]) -> None:
        for file in files:
            Path(file.path).unlink()


def rows() -> Any:
    return pa.record_batch([[1, 2, 3], [4, 5, 6]], schema=SCHEMA)


@pytest.mark.parametrize("group_rows", [1, 100], ids=["while rows are written", "on closing"])
def test_discard_deletes_all_incomplete_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", group_rows)
    table: Any = FullDisk(tmp_path)
    writer = FileWriter(table)

    def write() -> None:
        writer.write(rows())
        writer.close()

    with pytest.raises(OSError, match="no space"):
        write()
    writer.discard()
    assert list(tmp_path.iterdir()) == []
    assert table.streams
    assert all(stream.closed for stream in table.streams)
