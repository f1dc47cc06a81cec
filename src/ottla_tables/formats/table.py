"""The interface of table formats.

Every commit stores the next offset of each partition in the same atomic step as the files. If a writer is killed before
its commit, no reader sees its files; after the commit, the offsets show where to continue. So no record is written
twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from ottla_tables.errors import TableError

OFFSETS_PROPERTY: Final = "ottla.offsets"
"""The property with the next offset of each partition, in Iceberg's snapshots and tables, and in Parquet manifests."""
TOPIC_PROPERTY: Final = "ottla.topic"
TOPIC_ID_PROPERTY: Final = "ottla.topic-id"


class WrittenFile(NamedTuple):
    """A Parquet file that is not committed yet. `size` is in bytes, `metadata` is Arrow's metadata of the file (None if
    it is incomplete), and `partition` has the values of the partition columns.
    """

    path: str
    rows: int
    size: int
    metadata: Any
    partition: tuple[Any, ...] = ()


class TableFile(NamedTuple):
    """A Parquet file of a table. `path` is a local path or a URL, `size` is in bytes, and `handle` is the format's own
    object for the file.
    """

    path: str
    rows: int
    size: int
    handle: Any = None


class Snapshot(NamedTuple):
    """A version of a table: its files, and the next offset of each partition."""

    files: tuple[TableFile, ...]
    offsets: dict[int, int]


class Commit(NamedTuple):
    """A change of a table. `offsets`: the next offset of each partition after the change."""

    added: Sequence[WrittenFile]
    removed: Sequence[TableFile]
    offsets: Mapping[int, int]
    is_rewrite: bool = False
    """Whether the commit only rewrites existing rows, as in a compaction."""


class Table(Protocol):
    """One table. Not thread-safe; other processes may change the same table."""

    @property
    def schema(self) -> Any:
        """The Arrow schema of the files to write, with the format's metadata."""
        ...

    @property
    def widens(self) -> bool:
        """Whether `evolve` gives columns of numbers wider types, such as 64 bits instead of 32."""
        ...

    @property
    def partition_fields(self) -> tuple[PartitionField, ...]:
        """The partition columns."""
        ...

    @property
    def store_properties(self) -> Mapping[str, str]:
        """The properties of the object store with the files, for readers in other processes. A catalog may have sent
        credentials with the last load.
        """
        ...

    @property
    def offsets(self) -> dict[int, int]:
        """The offsets of the version that the next commit is based on: of the last load or commit."""
        ...

    def load(self) -> Snapshot:
        """Load the newest version, which the next commit is based on. Return its files and offsets."""
        ...

    def open_file(self, name: str, directory: str) -> tuple[str, Any]:
        """Create a data file. Return its path and a binary stream. `directory`: the partition's directory, such as
        `day=5`; empty for a table without partition columns.
        """
        ...

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a file at a URL, and the file's path in it."""
        ...

    def discard(self, files: Sequence[WrittenFile]) -> None:
        """Delete files that will not be committed."""
        ...

    def commit(self, commit: Commit) -> None:
        """Commit a change. Raises CommitConflictError if a commit of another writer conflicts with it."""
        ...

    def evolve(self, schema: Any) -> None:
        """Add the columns and fields of structs that the table lacks, and widen columns of numbers if `widens`."""
        ...

    def expire(self, older_than_ms: int) -> None:
        """Delete old versions of the table or removed files, if they are older than `older_than_ms` (since 1970). The
        newest version and its files remain.
        """
        ...


class PartitionField(NamedTuple):
    """A partition column: its name, the column that it is computed from, and the function that computes its values
    from an Arrow array of that column.
    """

    name: str
    source: str
    transform: Any


class TableIdentity(NamedTuple):
    """The topic that a table belongs to."""

    topic: str
    topic_id: UUID

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the table that name the topic."""
        return {TOPIC_PROPERTY: self.topic, TOPIC_ID_PROPERTY: str(self.topic_id)}

    def check(self, properties: Mapping[str, str], where: str) -> None:
        """Raise TableError if a table belongs to another topic, or to a deleted one with the same name. A table without
        these properties is accepted.
        """
        for name, value in self.properties.items():
            actual = properties.get(name, value)
            if actual != value:
                raise TableError(
                    f"{where} is the table of another topic: {name} is {actual} instead of {value}; "
                    "delete the table, or set another ottla.table.location for the topic"
                )


def dump_offsets(offsets: Mapping[int, int]) -> str:
    """Return offsets as the JSON text of a table property."""
    return json.dumps({str(partition): offset for partition, offset in sorted(offsets.items())})


def parse_offsets(text: str | None) -> dict[int, int]:
    """Parse the offsets in a table property; an empty mapping if it is missing. Raises TableError if it is damaged."""
    if not text:
        return {}
    try:
        return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise TableError(f"the property {OFFSETS_PROPERTY} is damaged: {text!r}") from error
