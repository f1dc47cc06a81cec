"""The account of a run of `--input`: its rows and counts, compared with those of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla_pipelines.ingest import files
from ottla_pipelines.serve.account import Account, compare_statistics, row_account


def expected_events(path: Path, by: str | None) -> dict[str, list[Any]]:
    """Return the expected rows of a file, as columns."""
    layout = files.layout(path, by)
    columns: dict[str, list[Any]] = {"row": [], "time": [], "group": [], "event": []}
    for row in files.rows(path):
        columns["row"].append(row.number)
        columns["time"].append(files.time_of(row, layout))
        columns["group"].append(files.group_of(row, layout))
        columns["event"].append(row.text)
    return columns


def count_account(
    expected: Mapping[str, Sequence[Any]], rows: pa.Table, statistics: Sequence[Mapping[str, Any]]
) -> Account:
    """Return the comparison of rows and counts with those of the file."""
    account = row_account("events", expected, rows)
    hours = ("" if time is None else time.strftime("%Y-%m-%dT%H:00:00Z") for time in expected["time"])
    expected_counts = Counter(zip(hours, expected["group"], strict=True))
    actual_counts = {(s["window_start"], s["event_group"]): s["events"] for s in statistics}
    compare_statistics(account, expected_counts, actual_counts, 1)
    return account
