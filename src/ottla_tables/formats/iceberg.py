"""Iceberg tables in a catalog of pyiceberg, such as SQLite or PostgreSQL (with SQLAlchemy) or a REST catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
)
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import ListType, MapType, StructType

from ottla.errors import ConfigurationError
from ottla_tables.errors import CommitConflictError, MissingTableError, TableError
from ottla_tables.file_io import TableFileIO
from ottla_tables.formats.table import (
    OFFSETS_PROPERTY,
    Commit,
    PartitionField,
    Snapshot,
    TableFile,
    TableIdentity,
    WrittenFile,
    dump_offsets,
    parse_offsets,
)
from ottla_tables.object_store import ObjectStore
from ottla_tables.partitioning import PARTITION, TRANSFORMS, check_columns

NAMESPACE: Final = "ottla"
OPEN_ATTEMPTS: Final = 3
NO_RETRY: Final = {"commit.retry.num-retries": "0"}
"""No retries: a commit that was repeated on a newer version could add the records twice."""
PROPERTIES: Final = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
    "write.parquet.compression-codec": "zstd",
}
VALUE_METRICS: Final = {"write.metadata.metrics.column.value": "counts"}
"""The property that leaves bounds of values out of the metadata. It is set only for tables with the column `value`,
because Java's catalogs reject it for others.
"""
EPOCH: Final = datetime(1970, 1, 1)
FIELD_ID: Final = "PARQUET:field_id"


def open_catalog(url: str, properties: Mapping[str, str], *, creates: bool = True) -> Catalog:
    """Open a catalog by the URL of a REST catalog, or an SQLAlchemy URL. `properties` take precedence over the URL.

    Raises TableError if it cannot be opened, and with `creates=False` MissingTableError if an SQL catalog does not
    exist.
    """
    # The file of --catalog-config may be one for pyiceberg, with these properties, too.
    all_properties = {
        "type": "rest" if is_rest(url) else "sql",
        "uri": url,
        "py-io-impl": f"{TableFileIO.__module__}.{TableFileIO.__name__}",
        **properties,
    }
    if not creates:
        all_properties["init_catalog_tables"] = "false"
    kind, url = all_properties["type"], all_properties["uri"]
    if url.startswith("sqlite:///"):
        _check_file(Path(url.removeprefix("sqlite:///")), creates)
    for attempt in range(OPEN_ATTEMPTS):
        try:
            catalog = load_catalog(NAMESPACE, **all_properties)
            if kind == "sql" and not creates:
                _check_tables(catalog)
            return catalog
        except MissingTableError:
            raise
        except Exception as error:  # SQLAlchemy and REST clients have no common class of errors
            # Another process may be creating the catalog's own tables: then they exist in the next attempt.
            if attempt == OPEN_ATTEMPTS - 1:
                raise TableError(f"the catalog {_without_password(url)} cannot be opened: {error}") from error
    raise AssertionError("unreachable")


def is_rest(url: str) -> bool:
    """Return whether the URL of a catalog is that of a REST catalog."""
    return url.startswith(("http://", "https://"))


def _check_file(path: Path, creates: bool) -> None:
    if creates:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.exists():
        raise MissingTableError(f"the catalog {path} does not exist")


def _check_tables(catalog: Any) -> None:
    from sqlalchemy import inspect

    if not inspect(catalog.engine).has_table("iceberg_tables"):
        raise MissingTableError("the catalog has no tables")


def _without_password(url: str) -> str:
    return re.sub(r"://([^:/@]+):[^@]*@", r"://\1:[hidden]@", url)


class IcebergTable:
    """A table in the namespace `ottla` of a catalog."""

    widens = True

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        location: str,
        schema: Any | None,
        partition_by: tuple[str, ...],
        owner: TableIdentity,
    ) -> None:
        self._identifier = (NAMESPACE, name)
        self._catalog = catalog
        self._store: ObjectStore | None = None
        try:
            self._table = catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            if schema is None:
                raise MissingTableError(f"{NAMESPACE}.{name}: {error}") from error
            self._table = self._create(schema, location, partition_by, _properties(schema, owner))
        owner.check(self._table.properties, f"the Iceberg table {NAMESPACE}.{name}")
        self._base = self._table.current_snapshot()

    def _create(self, schema: Any, location: str, partition_by: tuple[str, ...], properties: dict[str, str]) -> Any:
        if location.startswith("az://"):
            raise ConfigurationError(
                f"ottla.table.location: readers of Iceberg tables do not know {location}: use"
                " abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
            )
        check_columns(schema, partition_by)
        for attempt in range(OPEN_ATTEMPTS):
            try:
                self._catalog.create_namespace_if_not_exists((NAMESPACE,))
                creation = self._catalog.create_table_transaction(
                    self._identifier, schema, location=location, properties=properties
                )
                with creation as transaction:
                    if partition_by:
                        with transaction.update_spec() as update:
                            _add_fields(update, partition_by)
                break
            except ConfigurationError:
                raise
            except Exception as error:
                # If another process creates the namespace or the table meanwhile, SQL catalogs raise SQLAlchemy's
                # errors.
                if self._catalog.table_exists(self._identifier):
                    break
                if attempt == OPEN_ATTEMPTS - 1:
                    raise CommitConflictError(f"{'.'.join(self._identifier)} cannot be created: {error}") from error
        return self._catalog.load_table(self._identifier)

    @property
    def schema(self) -> Any:
        """The Arrow schema of the files, with the ids of the fields."""
        return arrow_schema(self._table.schema())

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The fields of the current partition spec. Raises TableError for a transform that the writer does not
        support.
        """
        schema, spec = self._table.schema(), self._table.spec()
        return tuple(
            PartitionField(
                field.name,
                schema.find_column_name(field.source_id) or "",
                _transform(str(field.transform)),
            )
            for field in spec.fields
        )

    def load(self) -> Snapshot:
        """Load the newest version of the table, and return its files and offsets."""
        self._table = self._catalog.load_table(self._identifier)
        self._base = self._table.current_snapshot()
        files = tuple(
            TableFile(task.file.file_path, task.file.record_count, task.file.file_size_in_bytes, task.file)
            for task in (self._table.scan().plan_files() if self._base is not None else ())
        )
        return Snapshot(files, self.offsets)

    @property
    def offsets(self) -> dict[int, int]:
        """The offsets of the version that the next commit is based on."""
        # The newest commit that has offsets: another program may have compacted the table since, or rolled it back.
        snapshot = self._base
        while snapshot is not None:
            summary = snapshot.summary
            if summary is not None and OFFSETS_PROPERTY in summary.additional_properties:
                return parse_offsets(summary.additional_properties[OFFSETS_PROPERTY])
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        return parse_offsets(self._table.properties.get(OFFSETS_PROPERTY)) if self._base is not None else {}

    def open_file(self, name: str, directory: str) -> tuple[str, Any]:
        """Create a data file in `data`, below the location of the table, and return its path and a stream to write to.

        `directory` is a path below `data`; empty: `data` itself.
        """
        path = "/".join(filter(None, (self._table.location(), "data", directory, name)))
        return path, self._table.io.new_output(path).create()

    @property
    def store_properties(self) -> Mapping[str, str]:
        """The properties of the catalog, with any credentials that it has sent with the table."""
        properties: Mapping[str, str] = self._table.io.properties
        return properties

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a file, and the file's path in it."""
        properties = self.store_properties
        if self._store is None or self._store.properties != properties:
            self._store = ObjectStore(properties, {})
        return self._store.file_system(path)

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Delete files that will not be committed."""
        for file in files:
            self._table.io.delete(file.path)

    def commit(self, commit: Commit) -> None:
        """Commit files and offsets as one snapshot. The offsets are also stored in a table property, which remains when
        snapshots expire.
        """
        self._check_base()
        offsets = dump_offsets(commit.offsets)
        table = self._table
        table.metadata = table.metadata.model_copy(update={"properties": {**table.properties, **NO_RETRY}})
        transaction = Transaction(table)
        update = transaction.update_snapshot({OFFSETS_PROPERTY: offsets})
        producer = update.overwrite() if commit.removed else update.merge_append()
        for file in commit.removed:
            producer.delete_data_file(file.handle)
        for written in commit.added:
            producer.append_data_file(self._data_file(written))
        try:
            producer.commit()
            transaction.set_properties({OFFSETS_PROPERTY: offsets})
            transaction.commit_transaction()
            self._base = table.current_snapshot()
        except CommitFailedException as error:
            raise CommitConflictError(f"{'.'.join(self._identifier)}: {error}") from error
        except CommitStateUnknownException as error:
            raise TableError(f"{'.'.join(self._identifier)}: {error}") from error

    def _data_file(self, written: WrittenFile) -> DataFile:
        metadata = self._table.metadata
        schema = metadata.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            written.metadata,
            compute_statistics_plan(schema, metadata.properties),
            parquet_path_to_id_mapping(schema),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=written.path,
            file_format=FileFormat.PARQUET,
            partition=Record(*map(_partition_value, written.partition)),
            file_size_in_bytes=written.size,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def evolve(self, schema: Any) -> None:
        """Add the columns that the table lacks, and widen others, in a separate commit."""
        try:
            with self._table.update_schema() as update:
                update.union_by_name(schema)
        except CommitFailedException as error:
            raise CommitConflictError(f"{'.'.join(self._identifier)}: {error}") from error
        self._check_base()

    def _check_base(self) -> None:
        """Raise CommitConflictError if the newest known snapshot is not that of the last `load` or `commit`, because
        another writer has committed since.
        """
        current, base = self._table.current_snapshot(), self._base
        if current is not None and (base is None or base.snapshot_id != current.snapshot_id):
            raise CommitConflictError(f"{'.'.join(self._identifier)} was changed by another writer")

    def expire(self, older_than_ms: int) -> None:
        """Delete the snapshots before this time that no branch or tag refers to, and the files that only they use."""
        before = self._table.metadata
        limit = datetime.fromtimestamp(older_than_ms / 1000, UTC)
        referenced = {reference.snapshot_id for reference in before.refs.values()}
        expired = [s for s in before.snapshots if s.timestamp_ms < older_than_ms and s.snapshot_id not in referenced]
        if not expired:
            return
        obsolete = _files(self._table, expired)
        try:
            self._table.maintenance.expire_snapshots().older_than(limit).commit()
        except CommitFailedException as error:
            raise CommitConflictError(f"{'.'.join(self._identifier)}: {error}") from error
        self._table = self._catalog.load_table(self._identifier)
        for path in obsolete - _files(self._table, self._table.metadata.snapshots):
            self._table.io.delete(path)


def _properties(schema: Any, owner: TableIdentity) -> dict[str, str]:
    return {**PROPERTIES, **(VALUE_METRICS if "value" in schema.names else {}), **owner.properties}


def _add_fields(update: Any, partition_by: tuple[str, ...]) -> None:
    for text in partition_by:
        match = PARTITION.fullmatch(text)
        source, transform = (match["source"], match["transform"]) if match else (text, "identity")
        name = f"{source}_{transform.partition('[')[0]}" if match else None
        try:
            update.add_field(source, parse_transform(transform), name)
        except ValueError as error:
            raise ConfigurationError(f"ottla.table.partition.by: {text}: {error}") from error


def _transform(name: str) -> Any:
    try:
        return TRANSFORMS[name]
    except KeyError:
        raise TableError(f"tables with the partition transform {name} cannot be written") from None


def _partition_value(value: Any) -> Any:
    """Return a partition value as manifests have it: timestamps are microseconds since 1970, and dates are days."""
    if isinstance(value, datetime):
        return (value - EPOCH.replace(tzinfo=value.tzinfo)) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def _files(table: Any, snapshots: Any) -> set[str]:
    """Return the manifest lists, manifests and data files of snapshots."""
    paths = set()
    for snapshot in snapshots:
        paths.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in paths:
                paths.add(manifest.manifest_path)
                paths.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io))
    return paths


def arrow_schema(schema: Schema) -> Any:
    """Return an Arrow schema with the ids of the fields. Unlike in pyiceberg's, strings, bytes and lists have 32-bit
    offsets, like those of the decoder.
    """
    return pa.schema([_arrow_field(field) for field in schema.fields])


def _arrow_field(field: Any) -> Any:
    return pa.field(
        field.name, _arrow_type(field.field_type), nullable=not field.required, metadata={FIELD_ID: str(field.field_id)}
    )


def _arrow_type(kind: Any) -> Any:
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(_arrow_field(kind.element_field))
    if isinstance(kind, MapType):
        return pa.map_(_arrow_field(kind.key_field), _arrow_field(kind.value_field))
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    plain = schema_to_pyarrow(kind)
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(plain, plain)
