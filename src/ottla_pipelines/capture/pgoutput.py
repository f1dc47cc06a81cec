"""Decoding of `pgoutput`, the plugin of PostgreSQL's logical replication (its "Logical Replication Message Formats").

Version 1 of the protocol, with values as text: bytes in, messages out, no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.errors import KafkaError

POSTGRES_EPOCH_MS: Final = 946_684_800_000
"""2000-01-01, from which PostgreSQL counts, in milliseconds since 1970."""


class UnchangedValue:
    """Stands for the value of a large (TOAST) column that an update did not change. The new row in the WAL does not
    contain it; the old row does with REPLICA IDENTITY FULL.
    """


UNCHANGED: Final = UnchangedValue()
Values = list[str | UnchangedValue | None]
FULL: Final = b"f"
"""The replica identity with all columns."""


class DecodingError(KafkaError):
    """Raised for a message that is malformed, unknown or incomplete, or about a table that is not captured."""


class Column(NamedTuple):
    """A column: its name, the OID of its type, and the type's modifier (-1 for none)."""

    name: str
    type_oid: int
    modifier: int


class Begin(NamedTuple):
    """The beginning of a committed transaction: the position of its commit, and the time in milliseconds since 1970."""

    lsn: int
    timestamp_ms: int


class Commit(NamedTuple):
    """The end of a transaction. `end_lsn`: the position after it."""

    end_lsn: int


class Relation(NamedTuple):
    """A table with its columns. PostgreSQL sends this before the table's first change, and again after the table was
    altered.

    `identity`: the columns of the replica identity. Deletes contain their old values, and so do updates that change
    them. Empty with REPLICA IDENTITY FULL, where updates and deletes contain the whole old row, if there is no replica
    identity, and in a relation that was not decoded.
    """

    oid: int
    namespace: str
    name: str
    columns: tuple[Column, ...]
    identity: frozenset[str] = frozenset()


class Change(NamedTuple):
    """An insert (`old` is None), update or delete (`new` is None). `old`: the old row, or only its key; None if the WAL
    does not contain it.
    """

    oid: int
    old: Values | None
    new: Values | None
    operation: str
    """c, u or d, as in Debezium."""
    has_old_row: bool = False
    """Whether `old` has all columns (REPLICA IDENTITY FULL), and not only the key."""


class Truncate(NamedTuple):
    """All rows of these tables were deleted."""

    oids: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate


def decode(data: bytes) -> Message | None:
    """Return the decoded message; None for origins, types and messages of applications, which are ignored. Raises
    DecodingError if the message is unknown or malformed.
    """
    kind = data[:1]
    if kind in IGNORED:
        return None
    read = _READERS.get(kind)
    if read is None:
        raise DecodingError(f"unknown message {kind!r} of pgoutput")
    try:
        return read(_Reader(data))
    except (struct.error, ValueError, IndexError) as error:
        raise DecodingError(f"damaged message {kind!r} of pgoutput: {error}") from error


class _Reader:
    """Reads the fields of a message after its first byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        self._at += struct.calcsize(code)
        return int(value)

    def byte(self) -> bytes:
        self._at += 1
        return self._data[self._at - 1 : self._at]

    def text(self) -> str:
        end = self._data.index(0, self._at)
        value = self._data[self._at : end].decode()
        self._at = end + 1
        return value

    def values(self) -> Values:
        return [self._value() for _ in range(self.number("H"))]

    def _value(self) -> str | UnchangedValue | None:
        kind = self.byte()
        if kind == b"n":
            return None
        if kind == b"u":
            return UNCHANGED
        if kind != b"t":
            raise ValueError(f"unknown kind {kind!r} of a value")
        size = self.number("I")
        if self._at + size > len(self._data):
            raise ValueError("a value is cut off")
        self._at += size
        return self._data[self._at - size : self._at].decode()


def _begin(reader: _Reader) -> Begin:
    lsn = reader.number("Q")
    return Begin(lsn, POSTGRES_EPOCH_MS + reader.number("q") // 1000)


def _commit(reader: _Reader) -> Commit:
    reader.byte()
    reader.number("Q")
    return Commit(reader.number("Q"))


def _relation(reader: _Reader) -> Relation:
    oid, namespace, name = reader.number("I"), reader.text(), reader.text()
    is_full = reader.byte() == FULL
    flagged = [_column(reader) for _ in range(reader.number("H"))]
    identity = frozenset(column.name for is_key, column in flagged if is_key and not is_full)
    return Relation(oid, namespace or "pg_catalog", name, tuple(column for _, column in flagged), identity)


def _column(reader: _Reader) -> tuple[int, Column]:
    """Read a flag, 1 if the column is in the replica identity and otherwise 0, and the column."""
    return reader.number("B") & 1, Column(reader.text(), reader.number("I"), reader.number("i"))


def _insert(reader: _Reader) -> Change:
    oid = reader.number("I")
    reader.byte()
    return Change(oid, None, reader.values(), "c")


def _update(reader: _Reader) -> Change:
    oid, old = reader.number("I"), None
    kind = reader.byte()
    if kind != b"N":  # K: the key before, O: the row before
        old = reader.values()
        reader.byte()
    return Change(oid, old, reader.values(), "u", kind == b"O")


def _delete(reader: _Reader) -> Change:
    oid, kind = reader.number("I"), reader.byte()
    return Change(oid, reader.values(), None, "d", kind == b"O")


def _truncate(reader: _Reader) -> Truncate:
    count = reader.number("I")
    reader.byte()
    return Truncate(tuple(reader.number("I") for _ in range(count)))


IGNORED: Final = (b"O", b"Y", b"M")
_READERS: Final[Mapping[bytes, Callable[[_Reader], Message]]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
}
