"""Table maintenance: when old snapshots are deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow")

from ottla.config.topic import TableConfig
from ottla_tables.errors import CommitConflictError, TableError
from ottla_tables.formats.table import Table, parse_offsets
from ottla_tables.maintenance import EXPIRY_MS, Maintenance


class ContendedTable:
    """A table whose deletion of snapshots conflicts with another writer's commit as often as `conflicts` says."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.limits: list[int] = []

    def expire(self, older_than_ms: int) -> None:
        self.limits.append(older_than_ms)
        if len(self.limits) <= self.conflicts:
            raise CommitConflictError("another writer")


def test_deletion_of_snapshots_is_repeated_at_the_next_flush_after_a_conflict() -> None:
    now_ms = 10 * EXPIRY_MS
    table: Any = ContendedTable(conflicts=1)
    config = TableConfig({"ottla.table.compact.files": 0, "ottla.table.retention.ms": 0})
    maintenance = Maintenance("t", cast(Table, table), config, lambda: now_ms)
    for _ in range(3):
        maintenance.run()
        now_ms += 1_000
    assert len(table.limits) == 2, "once with a conflict, once without"
    now_ms += EXPIRY_MS
    maintenance.run()
    assert len(table.limits) == 3


@pytest.mark.parametrize("text", ["x", "[]", '{"0": null}', '{"a": 1}'])
def test_damaged_offsets_of_a_table_are_reported(text: str) -> None:
    with pytest.raises(TableError, match="is damaged"):
        parse_offsets(text)


def test_single_small_file_is_not_rewritten_with_compact_files_of_one() -> None:
    snapshot = SimpleNamespace(files=[SimpleNamespace(path="data/a.parquet", size=1)])
    table: Any = SimpleNamespace(load=lambda: snapshot)  # anything else that it does fails
    config = TableConfig({"ottla.table.compact.files": 1, "ottla.table.retention.ms": -1})
    Maintenance("t", cast(Table, table), config).run()
