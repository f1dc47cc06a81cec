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


def note(table: Path, name: str, *lines: str) -> None:
    (table / "_spark_metadata").mkdir(exist_ok=True)
    (table / "_spark_metadata" / name).write_text("\n".join(["v1", *lines]))


def rows(table: Path) -> Any:
    return read_table(table).column("n").to_pylist()


def test_files_of_a_killed_micro_batch_do_not_count(tmp_path: Path) -> None:
    table = tmp_path / "t"
    note_of_one = write(table, "part-1.parquet", 1, 2)
    write(table, "part-killed.parquet", 3, 4)
    note(table, "0", note_of_one)
    note(table, "1", write(table, "part-2 b.parquet", 3, 4).replace("2 b", "2%20b"))
    (table / "_spark_metadata" / ".2.tmp").write_text("half")
    assert rows(table) == [1, 2, 3, 4]


def test_a_compacted_log_stands_for_all_before_it(tmp_path: Path) -> None:
    table = tmp_path / "t"
    lines = [write(table, f"part-{i}.parquet", i) for i in range(4)]
    for i, line in enumerate(lines[:2]):
        note(table, str(i), line)
    note(table, "2.compact", *lines[:3])
    note(table, "3", lines[3])
    assert rows(table) == [0, 1, 2, 3]


def test_a_view_is_all_its_files(tmp_path: Path) -> None:
    write(tmp_path / "t", "part-1.parquet", 1)
    write(tmp_path / "t", "part-2.parquet", 2)
    assert rows(tmp_path / "t") == [1, 2]


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such table"):
        read_table(tmp_path / "t")
