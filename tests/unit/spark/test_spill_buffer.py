"""Rows that are kept until they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.spark.sink.spill_buffer import SpillBuffer

BATCHES = [
    pa.RecordBatch.from_pydict({"name": [f"{i}-{n}" for n in range(size)]}) for i, size in enumerate((1000, 0, 3))
]


@pytest.mark.parametrize("most_in_memory", [1, 1 << 20])
def test_rows_are_read_as_often_as_they_are_needed(most_in_memory: int) -> None:
    with SpillBuffer(most_in_memory) as held:
        held.extend(iter(BATCHES))
        assert held.count == 1003
        assert list(held) == list(held) == [BATCHES[0], BATCHES[2]]


@pytest.mark.parametrize("batches", [[], BATCHES[1:2]])
def test_no_rows_are_none(batches: list[pa.RecordBatch]) -> None:
    with SpillBuffer() as held:
        held.extend(batches)
        assert (held.count, list(held)) == (0, [])


def test_reading_that_was_broken_off_begins_again() -> None:
    """As after a transaction that the database has rolled back half-way."""
    with SpillBuffer(1) as held:
        held.extend(BATCHES)
        next(iter(held))
        assert list(held) == [BATCHES[0], BATCHES[2]]


def test_many_rows_lie_where_spark_keeps_what_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'spark'},/elsewhere")
    with SpillBuffer(1) as held, pytest.raises(FileNotFoundError, match=str(tmp_path / "spark")):
        held.extend(BATCHES)
    (tmp_path / "spark").mkdir()
    with SpillBuffer(1) as held:
        held.extend(BATCHES)
        assert list(held) == [BATCHES[0], BATCHES[2]]
    assert not list((tmp_path / "spark").iterdir())
