"""The order of the tests that share a queue."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import longest_first

ROOT = Path(__file__).parents[2]


def test_slowest_files_run_first_with_their_tests_in_order() -> None:
    durations: dict[str, int] = json.loads(longest_first.TABLE.read_text())
    (longest, *_), (*_, shortest) = durations, durations
    ids = ["tests/new.py::a", f"{shortest}::a", f"{longest}::b", f"{shortest}::b", f"{longest}::a"]
    items: list[Any] = [SimpleNamespace(nodeid=nodeid) for nodeid in ids]
    longest_first.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == [ids[2], ids[4], ids[1], ids[3], ids[0]]


def test_durations_table_names_existing_files() -> None:
    durations: dict[str, int] = json.loads(longest_first.TABLE.read_text())
    assert [file for file in durations if not (ROOT / file).is_file()] == []
