"""Delta tables, written with delta-rs.

Offsets are application transactions (`txn` actions): a commit sets the version of the application
`ottla:TOPIC_ID:PARTITION` to the partition's next offset. Delta rejects a commit if another one has set the same
application's version since the table was loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from ottla.clock import now_ms
from ottla.errors import ConfigurationError
from ottla_tables.errors import CommitConflictError, MissingTableError, TableError
from ottla_tables.formats.table import (
    Commit,
    PartitionField,
    Snapshot,
    TableFile,
    TableIdentity,
    WrittenFile,
)
from ottla_tables.object_store import ObjectStore
from ottla_tables.partitioning import identity_fields
from ottla_tables.synced import SyncedStream, sync
from ottla_tables.values.arrow_types import grown, lacks

PARTITIONS: Final = "partitions"
"""The last part of the application id whose version is one more than the highest partition with an offset."""
STATISTICS: Final = ("offset", "partition")
"""Columns whose minimum and maximum per file are in the table's log."""
CLOCK_TOLERANCE_MS: Final = 1000
"""Time in milliseconds that `DeltaLakeTable.expire` subtracts before it rounds up to hours, because its caller has read
the clock a little earlier.
"""


class DeltaLakeTable:
    """A table at a local path or a URL of an object store."""

    widens = False
    """delta-rs cannot write tables with Delta's feature typeWidening."""

    def __init__(
        self,
        location: str,
        schema: Any | None,
        partition_by: tuple[str, ...],
        owner: TableIdentity,
        store: ObjectStore,
    ) -> None:
        self._location = location.removeprefix("file://")
        self._store = store
        if location.startswith(("s3://", "s3a://")):
            store.check_session_token()
        self._options = store.storage_options
        self._application = f"ottla:{owner.topic_id}"
        self._offsets: dict[int, int] = {}
        try:
            self._table = self._open()
            if schema is not None:
                _check_partition_by(self.schema, self._table.metadata().partition_columns)
        except TableNotFoundError as error:
            if schema is None:
                raise MissingTableError(f"there is no Delta table at {location}") from error
            _check_partition_by(schema, partition_by)
            identity_fields(schema, partition_by)
            if "://" not in self._location:
                Path(self._location).mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                self._location,
                schema,
                "ignore",
                list(partition_by),
                owner.topic,
                configuration=owner.properties,
                storage_options=self._options,
                raise_if_key_not_exists=False,
            )
            self._table = self._open()
            self._sync_log(0)
        owner.check(self._table.metadata().configuration, f"the Delta table {location}")

    def _open(self) -> DeltaTable:
        return DeltaTable(self._location, storage_options=self._options)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the files."""
        return pa.schema([plain_field(pa.field(field)) for field in pa.schema(self._table.schema())])

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The partition columns."""
        return identity_fields(self.schema, self._table.metadata().partition_columns)

    @property
    def store_properties(self) -> Mapping[str, str]:
        """The properties of the object store."""
        return self._store.properties

    @property
    def offsets(self) -> dict[int, int]:
        """The offsets of the version that the next commit is based on."""
        return self._offsets

    def load(self) -> Snapshot:
        """Load the newest version of the table, and return its files and offsets."""
        self._table.update_incremental()
        actions = pa.table(self._table.get_add_actions(flatten=False)).to_pylist()
        files = tuple(
            TableFile(
                f"{self._location}/{unquote(action['path'])}", action["num_records"], action["size_bytes"], action
            )
            for action in actions
        )
        self._offsets = self._stored_offsets()
        return Snapshot(files, self._offsets)

    def _stored_offsets(self) -> dict[int, int]:
        versions = {number: self._version(number) for number in range(self._version(PARTITIONS) or 0)}
        return {number: offset for number, offset in versions.items() if offset is not None}

    def _version(self, name: object) -> int | None:
        return self._table.transaction_version(f"{self._application}:{name}")

    def open_file(self, name: str, directory: str) -> tuple[str, Any]:
        """Create a data file below the location."""
        path = "/".join(filter(None, (self._location, directory, name)))
        if "://" not in path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            return path, SyncedStream(Path(path).open("wb"), Path(path))
        file_system, key = self._store.file_system(path)
        return path, file_system.open_output_stream(key)

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a file, and the file's path in it."""
        return self._store.file_system(path)

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Delete files that will not be committed."""
        for file in files:
            if "://" not in file.path:
                Path(file.path).unlink(missing_ok=True)
            else:
                file_system, key = self._store.file_system(file.path)
                file_system.delete_file(key)

    def commit(self, commit: Commit) -> None:
        """Commit files and offsets as one version."""
        self._check_base()
        now = now_ms()
        actions: list[AddAction | RemoveAction] = [self._add(file, now, commit.is_rewrite) for file in commit.added]
        for file in commit.removed:
            handle = file.handle
            partition_values = {name: _text(value) for name, value in (handle.get("partition") or {}).items()}
            path = unquote(handle["path"])
            actions.append(RemoveAction(path, not commit.is_rewrite, now, file.size, partition_values))
        offsets: dict[int | str, int] = {PARTITIONS: max(commit.offsets, default=-1) + 1}
        offsets.update(commit.offsets.items())
        changed = {name: version for name, version in offsets.items() if self._version(name) != version}
        # A rewrite sets all of them: it must not be committed after a newer commit of the writer.
        transactions = [
            Transaction(f"{self._application}:{name}", version, now)
            for name, version in (offsets if commit.is_rewrite else changed).items()
        ]
        before = self._table.version()
        try:
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                self._table.metadata().partition_columns,
                commit_properties=CommitProperties(app_transactions=transactions),
            )
        except CommitFailedError as error:
            raise CommitConflictError(f"{self._location}: {error}") from error
        except DeltaError as error:
            raise TableError(f"{self._location}: {error}") from error
        self._offsets = dict(commit.offsets)
        # Otherwise this commit would be in the way of the next one. If it loads a newer commit, the check fails.
        self._table.update_incremental()
        self._sync_log(before + 1)

    def _sync_log(self, first: int) -> None:
        """Wait until the commits of a local table from a version on are on disk."""
        if "://" not in self._location:
            for version in range(first, self._table.version() + 1):
                sync(Path(self._location) / "_delta_log" / f"{version:020d}.json")

    def _check_base(self) -> None:
        """Raise CommitConflictError if the loaded version has other offsets than those of the last `load` or `commit`,
        because another writer has committed since.
        """
        if self._stored_offsets() != self._offsets:
            raise CommitConflictError(f"{self._location} was changed by another writer")

    def _add(self, file: WrittenFile, now: int, is_rewrite: bool) -> AddAction:
        names = [field.name for field in self.partition_fields]
        values = {name: _text(value) for name, value in zip(names, file.partition, strict=True)}
        path = file.path.removeprefix(self._location).lstrip("/")  # delta-rs quotes it
        return AddAction(path, file.size, values, now, not is_rewrite, json.dumps(_statistics(file)))

    def evolve(self, schema: Any) -> None:
        """Add the columns and fields of structs that the table lacks, in a separate commit. Raises CommitConflictError
        if another writer's commit prevents that, or has changed the offsets.
        """
        from deltalake import Schema

        missing = self._missing(schema)
        if not missing:
            return
        try:
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(missing)).fields)
        except CommitFailedError as error:
            self._table.update_incremental()
            if self._missing(schema):
                raise CommitConflictError(f"{self._location}: {error}") from error
        self._check_base()

    def _missing(self, schema: Any) -> list[Any]:
        """Return the columns that the table lacks, and those with fields that it lacks."""
        own = {field.name: field.type for field in self.schema}
        return [
            field if field.name not in own else field.with_type(grown(own[field.name], field.type, widens=False))
            for field in schema
            if field.name not in own or lacks(own[field.name], field.type, widens=False)
        ]

    def expire(self, older_than_ms: int) -> None:
        """Delete files that were removed before this time. The time until now, less `CLOCK_TOLERANCE_MS`, is rounded up
        to whole hours, which are the unit of delta-rs.
        """
        elapsed_ms = now_ms() - older_than_ms - CLOCK_TOLERANCE_MS
        hours = max(0, -(-elapsed_ms // 3_600_000))
        self._table.vacuum(hours, dry_run=False, enforce_retention_duration=False)


def _check_partition_by(schema: Any, partition_by: Sequence[str]) -> None:
    """Raise ConfigurationError for partition columns of bytes, whose partition values this module does not write."""
    for column in partition_by:
        if column in schema.names and pa.types.is_binary(schema.field(column).type):
            raise ConfigurationError(
                f"ottla.table.partition.by: {column} has bytes, which cannot be partition values of Delta tables; use"
                " another column, or ottla.table.schema=text"
            )


def _text(value: Any) -> str | None:
    """Return a partition value in the form of Delta's log (its protocol's "Partition Value Serialization")."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _statistics(file: WrittenFile) -> dict[str, Any]:
    minima: dict[str, Any] = {}
    maxima: dict[str, Any] = {}
    metadata = file.metadata
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, statistics = column.path_in_schema, column.statistics
            if name in STATISTICS and statistics is not None and statistics.has_min_max:
                minima[name] = min(minima.get(name, statistics.min), statistics.min)
                maxima[name] = max(maxima.get(name, statistics.max), statistics.max)
    return {"numRecords": file.rows, "minValues": minima, "maxValues": maxima, "nullCount": {}}


def plain_field(field: Any) -> Any:
    """Return a field with types that have 32-bit offsets, like those of the decoder, instead of delta-rs' views."""
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_type(kind: Any) -> Any:
    """Return a type with 32-bit offsets, as `plain_field` does for a field."""
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_field(kind.value_field))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
