"""The buffer of rows that spills to disk until they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.spark.sink.spill_buffer import SpillBuffer

BATCHES = [
    pa.RecordBatch.from_pydict({"name": [f"{i}-{n}" for n in range(size)]}) for i, size in enumerate((1000, 0, 3))
]


@pytest.mark.parametrize("max_memory_bytes", [1, 1 << 20])
def test_rows_can_be_read_repeatedly(max_memory_bytes: int) -> None:
    with SpillBuffer(max_memory_bytes) as buffer:
        buffer.extend(iter(BATCHES))
        assert buffer.count == 1003
        assert list(buffer) == list(buffer) == [BATCHES[0], BATCHES[2]]


@pytest.mark.parametrize("batches", [[], BATCHES[1:2]])
def test_empty_batches_give_an_empty_buffer(batches: list[pa.RecordBatch]) -> None:
    with SpillBuffer() as buffer:
        buffer.extend(batches)
        assert (buffer.count, list(buffer)) == (0, [])


def test_interrupted_read_restarts_from_the_beginning() -> None:
    """This happens after the database has rolled back a transaction half-way."""
    with SpillBuffer(1) as buffer:
        buffer.extend(BATCHES)
        next(iter(buffer))
        assert list(buffer) == [BATCHES[0], BATCHES[2]]


def test_rows_spill_to_sparks_local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'spark'},/elsewhere")
    with SpillBuffer(1) as buffer, pytest.raises(FileNotFoundError, match=str(tmp_path / "spark")):
        buffer.extend(BATCHES)
    (tmp_path / "spark").mkdir()
    with SpillBuffer(1) as buffer:
        buffer.extend(BATCHES)
        assert list(buffer) == [BATCHES[0], BATCHES[2]]
    assert not list((tmp_path / "spark").iterdir())
