"""Comparison of the counts of an input file with the database."""

from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla_pipelines.serve.counts import count_account, expected_events

LINES = ['{"time": "2025-01-01T10:10:00Z", "kind": "a"}', '{"time": "2025-01-01T10:50:00Z", "kind": "a"}', "broken"]
STATISTICS = [
    {"window_start": "2025-01-01T10:00:00Z", "event_group": "a", "events": 2},
    {"window_start": "", "event_group": "(unreadable)", "events": 1},
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(LINES))
    return path


def test_rows_and_counts_of_an_input_file_are_compared(source: Path) -> None:
    expected = expected_events(source, "kind")
    account = count_account(expected, pa.table(expected), STATISTICS)
    assert account.is_exact
    assert account.line == "3 of 3 events, 0 lost, 0 duplicated"


def test_wrong_count_is_reported(source: Path) -> None:
    expected = expected_events(source, "kind")
    account = count_account(expected, pa.table(expected), [{**STATISTICS[0], "events": 3}, STATISTICS[1]])
    assert not account.is_exact
    assert "2 from the input, 3 in the database" in account.differences[0]
