"""Sends changes as records: rows by their primary key, deletes and old keys as tombstones.

Records have headers with the names of Debezium's ExtractNewRecordState: `__op` (r: copied, c: inserted, u: updated, d:
deleted, t: truncated), `__table`, and for changes `__lsn`, the position of the commit in the WAL. The timestamp of
changes is that of the commit, and that of copied rows the time of sending.
"""

from __future__ import annotations

from typing import Final

from ottla import KafkaProducer
from ottla_pipelines.capture.pgoutput import Begin, Change, Column, DecodingError, UnchangedValue, Values
from ottla_pipelines.capture.postgresql import PostgresSource, Row, TableSource, lsn_text
from ottla_pipelines.capture.rows import as_json
from ottla_pipelines.capture.topics import Topics

COPIED: Final = "r"
DELETED: Final = "d"
TRUNCATED: Final = "t"


class Sender:
    """Sends records in transactions of the producer. Each begins with its first record."""

    def __init__(self, producer: KafkaProducer, topics: Topics, source: PostgresSource) -> None:
        self._producer = producer
        self._topics = topics
        self._source = source
        self.records = 0
        """The number of records in the open transaction."""
        self._begin: Begin | None = None

    def begin(self, transaction: Begin) -> None:
        """Set the transaction of the database that the next changes belong to."""
        self._begin = transaction

    def copy(self, table: TableSource, row: Row) -> None:
        """Send a row of the snapshot."""
        self._send(table, _key(table, row), _json(table, row), COPIED)

    def change(self, table: TableSource, change: Change) -> None:
        """Send a change of a row, and before it a tombstone for its old key if the key has changed.

        The new row is not sent if it lacks values and does not exist in the database any more.
        """
        old_key = None if change.old is None else _key(table, change.old)
        if change.new is None:
            self._send(table, old_key, None, change.operation)
            return
        values = self._completed(table, change)
        new_key = _key(table, change.new if values is None else values)
        if old_key is not None and old_key != new_key:
            self._send(table, old_key, None, DELETED)
        if values is not None:
            self._send(table, new_key, _json(table, values), change.operation)

    def truncate(self, table: TableSource) -> None:
        """Send a tombstone for each key that `Topics.keys` returns."""
        self._producer.flush()  # also for keys of this transaction
        for key in self._topics.keys(self._topics.name(table)):
            self._send(table, key, None, TRUNCATED)

    def _completed(self, table: TableSource, change: Change) -> Row | None:
        """Return the new row, including the values that the WAL does not contain because they did not change. These
        come from the old row or, if it lacks them, from the current row in the database. Return None if the current
        row is needed, but does not exist any more.
        """
        assert change.new is not None
        columns = table.relation.columns
        values = list(change.new)
        for index, old in enumerate(change.old or ()):
            is_present = change.has_old_row or columns[index].name in table.key
            if isinstance(values[index], UnchangedValue) and is_present:
                values[index] = old
        if any(isinstance(value, UnchangedValue) for value in values):
            current = self._source.row(table, dict(zip(table.key, _key_values(table, values), strict=True)))
            if current is None:
                return None
            for index, column in enumerate(columns):
                if isinstance(values[index], UnchangedValue):
                    values[index] = current.get(column.name)
        return _texts(values)

    def _send(self, table: TableSource, key: bytes | None, value: bytes | None, operation: str) -> None:
        if not self.records:
            self._producer.begin_transaction()
        self.records += 1
        headers = [("__op", operation.encode()), ("__table", _name(table))]
        timestamp_ms = None
        if self._begin is not None:
            headers.append(("__lsn", lsn_text(self._begin.lsn).encode()))
            timestamp_ms = self._begin.timestamp_ms
        self._producer.send(self._topics.name(table), value, key=key, headers=headers, timestamp_ms=timestamp_ms)

    def end(self) -> None:
        """Reset the number of records, after the end of a transaction."""
        self.records = 0


def key_fields(table: TableSource) -> tuple[Column, ...]:
    """Return the columns of the primary key, which are the fields of the records' keys."""
    by_name = {column.name: column for column in table.relation.columns}
    return tuple(by_name[name] for name in table.key)


def _key(table: TableSource, values: Values | Row) -> bytes:
    return as_json(key_fields(table), _key_values(table, values))


def _key_values(table: TableSource, values: Values | Row) -> Row:
    index = {column.name: number for number, column in enumerate(table.relation.columns)}
    return _texts([values[index[name]] for name in table.key])


def _json(table: TableSource, values: Row) -> bytes:
    return as_json(table.relation.columns, values)


def _texts(values: Values | Row) -> Row:
    texts: Row = []
    for value in values:
        if isinstance(value, UnchangedValue):
            raise DecodingError("the primary key of a change is missing")
        texts.append(value)
    return texts


def _name(table: TableSource) -> bytes:
    return f"{table.relation.namespace}.{table.relation.name}".encode()
