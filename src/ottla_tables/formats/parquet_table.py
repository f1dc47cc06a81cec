"""Plain Parquet files in a directory, with a manifest per commit.

`_ottla/N.json` has the files of version N and the next offset of each partition. A commit is atomic: it creates the
next manifest as a hard link, which fails if another writer has created it. After that, the data files lose the suffix
`.uncommitted`, so programs that read `data/**/*.parquet` without the manifests see only committed rows. If a crash
interrupts the renames, the writer's next load completes them.
"""

from __future__ import annotations

import json
import os
import uuid
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ottla.clock import now_ms
from ottla.errors import ConfigurationError
from ottla_tables.errors import CommitConflictError, MissingTableError, TableError
from ottla_tables.formats.table import (
    OFFSETS_PROPERTY,
    Commit,
    PartitionField,
    Snapshot,
    TableFile,
    TableIdentity,
    WrittenFile,
)
from ottla_tables.partitioning import identity_fields
from ottla_tables.synced import sync
from ottla_tables.values.arrow_types import grown_schema

MANIFESTS: Final = "_ottla"
DATA: Final = "data"
UNCOMMITTED: Final = ".uncommitted"
REMOVED: Final = ".removed"


class ParquetTable:
    """A table in a local directory."""

    widens = True

    def __init__(self, location: str, schema: Any | None, partition_by: tuple[str, ...], owner: TableIdentity) -> None:
        self._directory = local_directory(location)
        self._owner = owner
        self._version = 0
        self._manifest: dict[str, Any] = {**owner.properties, OFFSETS_PROPERTY: {}, "files": []}
        self._is_writable = schema is not None
        self._schema = pa.schema([]) if schema is None else schema
        self._partition_by = partition_by
        self.load()
        owner.check(self._manifest, str(self._directory))
        if self._is_writable:
            (self._directory / MANIFESTS).mkdir(parents=True, exist_ok=True)
        elif not self._version:
            raise MissingTableError(f"there is no manifest in {self._directory / MANIFESTS}")

    @property
    def schema(self) -> Any:
        """The Arrow schema of the files."""
        return self._schema

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The partition columns."""
        return identity_fields(self._schema, self._partition_by)

    @property
    def store_properties(self) -> Mapping[str, str]:
        """Empty, because the files are in a local directory."""
        return {}

    @property
    def offsets(self) -> dict[int, int]:
        """The offsets of the version that the next commit is based on."""
        return {int(partition): offset for partition, offset in self._manifest[OFFSETS_PROPERTY].items()}

    def load(self) -> Snapshot:
        """Load the newest manifest, and return its files and offsets. If its commit was interrupted, complete it,
        unless the table is only read. Raises TableError if the manifest is damaged.
        """
        for version in sorted(self._versions(), reverse=True):
            try:
                self._manifest = json.loads(self._path(version).read_bytes())
            except FileNotFoundError:  # expired meanwhile, so there is a newer one
                return self.load()
            except ValueError as error:
                raise TableError(f"{self._path(version)} is damaged: {error}") from error
            self._version = version
            break
        if "schema" in self._manifest:
            stored = pa.ipc.read_schema(pa.py_buffer(b64decode(self._manifest["schema"])))
            self._schema = grown_schema(stored, self._schema)
        if self._is_writable:
            self._rename()
        files = tuple(
            TableFile(str(self._existing(file["path"])), file["rows"], file["size"], file["path"])
            for file in self._manifest["files"]
        )
        return Snapshot(files, self.offsets)

    def _versions(self) -> list[int]:
        return [int(path.stem) for path in (self._directory / MANIFESTS).glob("*.json") if path.stem.isdigit()]

    def _path(self, version: int) -> Path:
        return self._directory / MANIFESTS / f"{version:020d}.json"

    def _existing(self, name: str) -> Path:
        """Return the path of a file under its committed name, or its earlier one if it was not renamed yet."""
        path = self._directory / name
        uncommitted = path.with_name(path.name + UNCOMMITTED)
        return path if path.exists() or not uncommitted.exists() else uncommitted

    def _rename(self) -> None:
        for name, before, after in (
            *((name, UNCOMMITTED, "") for name in self._manifest.get("added", ())),
            *((name, "", REMOVED) for name in self._manifest.get("removed", ())),
        ):
            path = self._directory / name
            try:
                path.with_name(path.name + before).rename(path.with_name(path.name + after))
            except (FileNotFoundError, PermissionError):
                continue  # done already, or left to the writer

    def open_file(self, name: str, directory: str) -> tuple[str, Any]:
        """Create a data file, which gets its final name when it is committed."""
        path = self._directory / DATA / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path), path.with_name(path.name + UNCOMMITTED).open("wb")

    def file_system(self, path: str) -> tuple[Any, str]:
        """Raise ConfigurationError, because files of this format cannot be at a URL."""
        raise ConfigurationError(f"ottla.table.format=parquet does not read {path}")

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Delete files that will not be committed."""
        for file in files:
            Path(file.path + UNCOMMITTED).unlink(missing_ok=True)

    def commit(self, commit: Commit) -> None:
        """Write the next manifest, and rename the added and removed files. Raises CommitConflictError if the manifest
        exists already.
        """
        removed = {file.handle for file in commit.removed}
        added = [
            {"path": str(Path(file.path).relative_to(self._directory)), "rows": file.rows, "size": file.size}
            for file in commit.added
        ]
        for file in commit.added:
            sync(Path(file.path + UNCOMMITTED))
        manifest = {
            **self._owner.properties,
            OFFSETS_PROPERTY: {str(partition): offset for partition, offset in commit.offsets.items()},
            "timestamp_ms": now_ms(),
            "schema": b64encode(self._schema.serialize()).decode(),
            "files": [file for file in self._manifest["files"] if file["path"] not in removed] + added,
            "added": [file["path"] for file in added],
            "removed": sorted(removed),
        }
        self._write(manifest)
        self._version += 1
        self._manifest = manifest
        self._rename()

    def _write(self, manifest: dict[str, Any]) -> None:
        path = self._path(self._version + 1)
        temporary = path.with_name(f"{uuid.uuid4().hex}.tmp")
        with temporary.open("wb") as file:
            file.write(json.dumps(manifest).encode())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise CommitConflictError(f"{self._directory}: version {self._version + 1} exists already") from None
        finally:
            temporary.unlink()
        sync(path)

    def evolve(self, schema: Any) -> None:
        """Add columns, and widen others. The next commit stores the new schema."""
        self._schema = grown_schema(self._schema, schema)

    def expire(self, older_than_ms: int) -> None:
        """Delete the manifests older than `older_than_ms`, except the newest manifest. Also delete the files that were
        removed from the table before that time.
        """
        for version in sorted(self._versions())[:-1]:
            path = self._path(version)
            if path.stat().st_mtime_ns // 1_000_000 < older_than_ms:
                path.unlink(missing_ok=True)
        for path in (self._directory / DATA).rglob(f"*{REMOVED}"):
            if path.stat().st_ctime_ns // 1_000_000 < older_than_ms:  # the time of its removal
                path.unlink(missing_ok=True)


def local_directory(location: str) -> Path:
    """Return the directory of a location. Raises ConfigurationError for an object store."""
    path = location.removeprefix("file://")
    if "://" in path:
        raise ConfigurationError(
            f"ottla.table.location: {location}: ottla.table.format=parquet needs a local directory; iceberg and delta "
            "commit on object stores as well"
        )
    return Path(path)


def present_path(path: str) -> str:
    """Return the path that a file has now: the writer may have renamed it since its table was loaded. If it does not
    exist, return `path`.
    """
    committed = path.removesuffix(UNCOMMITTED)
    names = (path, committed, committed + REMOVED)
    return next((name for name in names if Path(name).exists()), path)
