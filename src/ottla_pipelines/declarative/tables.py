"""Reading of a pipeline's tables without Spark, as Arrow tables.

The directory of a streaming table can also contain files of uncommitted micro-batches. The committed files are listed
in `_spark_metadata`, which has a file per micro-batch, named by its id, and sometimes a `.compact` file that replaces
all earlier ones. Without this log, rows could be read twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.errors import ConfigurationError

LOG = "_spark_metadata"
_VERSION = "v1"


def read_table(directory: Path) -> pa.Table:
    """Return all committed rows of a table. Raises ConfigurationError if its directory does not exist."""
    if not directory.is_dir():
        raise ConfigurationError(f"{directory}: no such table")
    tables = [pq.ParquetFile(path).read() for path in table_files(directory)]
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def table_files(directory: Path) -> list[Path]:
    """Return the committed files of a table, in the order of its log, or by name if it has no log."""
    if not (directory / LOG).is_dir():
        return sorted(directory.glob("part-*.parquet"))
    # Only the names are used, because the paths in the log are those of the machine that wrote it.
    return [directory / name for name in _logged(directory / LOG)]


def _logged(log: Path) -> list[str]:
    entries: dict[int, Path] = {}
    for path in log.iterdir():
        number, _, kind = path.name.partition(".")
        if number.isdigit() and kind in ("", "compact"):
            entries[int(number)] = path
    first = max((number for number, path in entries.items() if path.suffix), default=-1)
    return [name for number in sorted(entries) if number >= first for name in _added(entries[number])]


def _added(path: Path) -> list[str]:
    version, *lines = path.read_text("utf-8").splitlines()
    assert version == _VERSION, f"{path}: version {version}; Spark has changed its log"
    files = [json.loads(line) for line in lines if line]
    return [Path(unquote(urlsplit(f["path"]).path)).name for f in files if f["action"] == "add"]
