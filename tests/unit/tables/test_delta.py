"""Delta tables, without a writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla_tables.formats import delta
from ottla_tables.formats.delta import DeltaLakeTable
from ottla_tables.formats.table import TableIdentity
from ottla_tables.object_store import ObjectStore

MINUTE_MS = 60_000
NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(("retention_ms", "hours"), [(0, 0), (MINUTE_MS, 1), (60 * MINUTE_MS, 1), (61 * MINUTE_MS, 2)])
def test_retention_of_a_delta_table_is_rounded_up_to_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention_ms: int, hours: int
) -> None:
    vacuumed: list[int] = []

    def vacuum(_: DeltaTable, retention_hours: int, **__: Any) -> None:
        vacuumed.append(retention_hours)

    owner = TableIdentity("t", UUID(int=1))
    table = DeltaLakeTable(str(tmp_path), pa.schema([("x", pa.int64())]), (), owner, ObjectStore({}))
    monkeypatch.setattr(DeltaTable, "vacuum", vacuum)
    monkeypatch.setattr(delta, "now_ms", lambda: NOW_MS)
    table.expire(NOW_MS - 5 - retention_ms)  # the caller has looked at the clock 5 ms ago
    assert vacuumed == [hours]
