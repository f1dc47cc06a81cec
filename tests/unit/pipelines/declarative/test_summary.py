"""The summary that is printed after a run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla_pipelines.declarative import summary
from ottla_pipelines.topic_tables import WrittenTable


def write(project: Path, name: str, rows: int) -> None:
    directory = project / "tables" / name
    directory.mkdir(parents=True)
    table = pa.table({"page": [f"/{'x' * 60}{n}" for n in range(rows)], "visits": list(range(rows))})
    pq.write_table(table, directory / "part-0.parquet")


def test_summary_shows_row_counts_samples_and_next_steps(tmp_path: Path) -> None:
    write(tmp_path, "visits", 1000)
    write(tmp_path, "top_pages", 27)
    write(tmp_path, "empty", 0)
    text = "\n".join(summary.lines(tmp_path, [WrittenTable("parsed-visits", "iceberg", "parsed_visits", 1234)]))
    assert "topic parsed-visits as a table (iceberg): 1,234 rows" in text
    assert '"select * from parsed_visits limit 5"' in text
    assert "  top_pages         27 rows\n  visits         1,000 rows\n" in text
    assert "empty" not in text
    assert "page" in text.partition("top_pages:")[2].splitlines()[1]
    assert "…" in text, "long values are cut"
    assert "ottla pipeline run --demo" in text


def test_project_without_tables_has_no_summary(tmp_path: Path) -> None:
    assert list(summary.lines(tmp_path)) == []
