"""Reading of a pipeline's tables from their committed files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ottla.errors import ConfigurationError
from ottla_pipelines.declarative.tables import read_table


def write(table: Path, name: str, *rows: int) -> str:
    table.mkdir(exist_ok=True)
    pq.write_table(pa.table({"n": list(rows)}), table / name)
    return json.dumps({"path": f"file:///elsewhere/{name}", "action": "add"})


def write_commit(table: Path, name: str, *lines: str) -> None:
    (table / "_spark_metadata").mkdir(exist_ok=True)
    (table / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))


def rows(table: Path) -> Any:
    return read_table(table).column("n").to_pylist()


def test_files_of_a_killed_micro_batch_are_ignored(tmp_path: Path) -> None:
    table = tmp_path / "t"
    committed_line = write(table, "part-1.parquet", 1, 2)
    write(table, "part-killed.parquet", 3, 4)
    write_commit(table, "0", committed_line)
    write_commit(table, "1", write(table, "part-2 b.parquet", 3, 4).replace("2 b", "2%20b"))
    (table / "_spark_metadata" / ".2.tmp").write_text("half")
    assert rows(table) == [1, 2, 3, 4]


def test_compacted_commit_log_replaces_earlier_entries(tmp_path: Path) -> None:
    table = tmp_path / "t"
    lines = [write(table, f"part-{i}.parquet", i) for i in range(4)]
    for i, line in enumerate(lines[:2]):
        write_commit(table, str(i), line)
    write_commit(table, "2.compact", *lines[:3])
    write_commit(table, "3", lines[3])
    assert rows(table) == [0, 1, 2, 3]


def test_table_without_commit_log_has_all_its_files(tmp_path: Path) -> None:
    write(tmp_path / "t", "part-1.parquet", 1)
    write(tmp_path / "t", "part-2.parquet", 2)
    assert rows(tmp_path / "t") == [1, 2]


def test_missing_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such table"):
        read_table(tmp_path / "t")
