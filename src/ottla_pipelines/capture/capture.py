"""The capture: reads changes, and sends them to topics in transactions.

Changes are sent exactly once: a transaction of the producer has the records of whole transactions of the database, and
the position in the WAL after them, as the offset of a consumer group. If a process is killed before its commit, the
transaction is aborted. A process that is killed after the commit may not have moved the slot's position yet: the next
process reads the committed position, and continues there. The transactional id fences a process that was considered
dead.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from threading import Event
from typing import Final

import psycopg

from ottla import KafkaAdminClient, KafkaProducer
from ottla.errors import ConfigurationError
from ottla.model import OffsetAndMetadata, TopicPartition
from ottla_pipelines.capture.pgoutput import Begin, Change, Commit, DecodingError, Message, Relation, Truncate
from ottla_pipelines.capture.postgresql import PostgresSource, Row, TableSource, lsn_text
from ottla_pipelines.capture.rows import has_fields, have_same_form, unsupported
from ottla_pipelines.capture.sender import Sender, key_fields
from ottla_pipelines.capture.topics import Topics

log: Final = logging.getLogger("ottla_pipelines")


class StoppedError(Exception):
    """Raised if the capture has to stop while it copies rows or sends changes. An open transaction is not committed."""


POLL_SECONDS: Final = 0.2
MAX_CHANGES: Final = 10_000
"""Number of PostgreSQL's messages after which a transaction of the producer ends, together with the current transaction
of the database. While rows are copied, a transaction has at most this number of rows.
"""


class Capture:
    """Captures the changes of tables.

    Args:
        source: the database.
        topics: the topics of the tables.
        producer: a producer with a transactional id.
        admin: the admin client.
        group: the consumer group with the position.
    """

    def __init__(
        self, source: PostgresSource, topics: Topics, producer: KafkaProducer, admin: KafkaAdminClient, group: str
    ) -> None:
        self._source = source
        self._topics = topics
        self._producer = producer
        self._sender = Sender(producer, topics, source)
        self._admin = admin
        self._group = group
        self._tables: dict[int, TableSource] = {}
        self._prepared: dict[int, TableSource] = {}
        """The tables, by OID, whose topics this process has prepared for their current columns."""
        self._stopping = Event()
        self._has_committed = False
        self.steps = 0
        """The number of steps of `run` that have succeeded."""

    def run(self, stopping: Event) -> None:
        """Copy the rows unless that is done, and capture changes until the event is set. The event also stops the copy
        at the next row, and a step at the next message, without a commit of the open transaction.
        """
        self._stopping = stopping
        with contextlib.suppress(StoppedError):
            self.start()
            while not stopping.is_set():
                records = self.step()
                self.steps += 1
                if not records:
                    stopping.wait(POLL_SECONDS)

    def run_once(self) -> int:
        """Capture the rows and changes that have been committed so far, and return the number of records."""
        records = self.start()
        end = self._source.end()
        while self._source.position() < end:
            records += self.step()
        return records

    def start(self) -> int:
        """Copy the rows unless an earlier process has copied them, and move the slot to the committed position. Return
        the number of copied rows.
        """
        tables = self._source.open()
        is_first = not self._source.has_snapshot and not self._source.has_begun
        try:
            return self._start(tables)
        except BaseException:
            if is_first and not self._has_committed:
                # Nothing needs the slot and the publication. If another process never starts, the slot would keep the
                # WAL for ever.
                with contextlib.suppress(psycopg.Error):
                    self._source.undo_open()
            raise

    def _start(self, tables: Sequence[TableSource]) -> int:
        self._producer.init_transactions()  # after the lock: it fences a process that was taken for dead
        self._tables = {table.relation.oid: table for table in tables}
        self._check_names(tables)
        copied = 0
        if self._source.has_snapshot:
            self._check_topics(tables)
            self._check_keys(tables)
        else:
            self._check_new(tables)
            for table in tables:
                self._prepare(table)
            copied = self._copy(tables)
        self._source.drop_unfinished()
        self._source.advance(self._committed())
        return copied

    def _check_names(self, tables: Sequence[TableSource]) -> None:
        """Raise ConfigurationError if tables have the same topic."""
        names: dict[str, str] = {}
        for table in tables:
            name = f"{table.relation.namespace}.{table.relation.name}"
            other = names.setdefault(self._topics.name(table), name)
            if other != name:
                raise ConfigurationError(
                    f"--table {other} and {name} have the same topic {self._topics.name(table)}: capture one of them"
                    " with another --name"
                )

    def _check_topics(self, tables: Sequence[TableSource]) -> None:
        """Raise ConfigurationError if a table does not have a topic, although its rows have been copied."""
        for table in tables:
            topic = self._topics.name(table)
            if not self._topics.exists(topic):
                raise ConfigurationError(
                    f"topic {topic} does not exist, although the rows have been copied: it was deleted, or the table"
                    " was renamed. Capture the table with another --name"
                )

    def _check_keys(self, tables: Sequence[TableSource]) -> None:
        """Read the key of one of the oldest records of each table's topic. Raise ConfigurationError if it does not have
        the columns of the table's primary key, or has values of other types.
        """
        for table in tables:
            topic, fields = self._topics.name(table), key_fields(table)
            first = self._topics.first_key(topic)
            if first is not None and not has_fields(first, fields):
                raise _key_changed(
                    table, f"records of topic {topic} have the key {first.decode(errors='replace')}", table.key
                )

    def _check_new(self, tables: Sequence[TableSource]) -> None:
        """Raise ConfigurationError if there is no slot but a topic has records, or if an unfinished copy has sent rows
        with other keys.
        """
        if self._source.has_begun:
            self._check_keys([table for table in tables if self._topics.exists(self._topics.name(table))])
            return
        for topic in map(self._topics.name, tables):
            if self._topics.has_records(topic):
                raise ConfigurationError(
                    f"topic {topic} has records, but PostgreSQL has no slot for them, so that changes may be missing:"
                    " delete the topic and its table, or use another --name"
                )

    def _copy(self, tables: Sequence[TableSource]) -> int:
        total = 0
        with self._source.snapshot() as snapshot:
            for table in tables:
                count = 0
                with contextlib.closing(snapshot.rows(table)) as rows:
                    while copied := self._copy_some(table, rows):
                        count += copied
                log.info("Topic %s: copied all rows of the table (%d)", self._topics.name(table), count)
                total += count
        self._source.end_snapshot()
        return total

    def _copy_some(self, table: TableSource, rows: Iterator[Row]) -> int:
        for row in rows:
            self._check_stopping()
            self._sender.copy(table, row)
            if self._sender.records >= MAX_CHANGES:
                break
        return self._commit(None)

    def _committed(self) -> int:
        offsets = self._admin.list_consumer_group_offsets(self._group, require_stable=True)
        position = max((offset.offset for offset in offsets.values()), default=0)
        if position > self._source.end():
            # PostgreSQL would move the slot to the end of the WAL instead, and skip changes.
            raise ConfigurationError(
                f"the group {self._group} has the position {lsn_text(position)}, which is after the end of the WAL: the"
                " database was restored to an earlier time, or is another one. Delete the slot, the topics and their"
                " tables, or use another --name"
            )
        return position

    def step(self) -> int:
        """Send the changes of the next committed transactions, move the slot past them, and return the number of
        records.
        """
        # Without changes, the WAL up to here is not needed: it belongs to other tables.
        position = self._source.end()
        with contextlib.closing(self._source.changes(MAX_CHANGES)) as messages:
            for message in messages:
                self._check_stopping()
                if isinstance(message, Commit):
                    position = message.end_lsn
                else:
                    self._apply(message)
        records = self._commit(position)
        self._source.advance(position)
        return records

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise StoppedError

    def _apply(self, message: Message) -> None:
        if isinstance(message, Begin):
            self._sender.begin(message)
        elif isinstance(message, Relation):
            self._update_columns(message)
        elif isinstance(message, Change):
            self._sender.change(self._table(message.oid), message)
        elif isinstance(message, Truncate):
            for oid in message.oids:
                self._sender.truncate(self._table(oid))

    def _table(self, oid: int) -> TableSource:
        try:
            return self._tables[oid]
        except KeyError:
            raise DecodingError(f"a change of a table with the OID {oid}, which is not captured") from None

    def _update_columns(self, relation: Relation) -> None:
        current = self._tables.get(relation.oid)
        if current is None:
            return
        self._check_key(current, relation)
        prepared = self._prepared.get(relation.oid)
        # The first time, the topic may have older columns: the table was changed while nothing captured it.
        if prepared is not None and prepared.relation.columns == relation.columns:
            return
        # A table that was renamed keeps its topic.
        table = TableSource(current.relation._replace(columns=relation.columns), current.key)
        self._tables[relation.oid] = table
        self._prepare(table)

    def _check_key(self, current: TableSource, relation: Relation) -> None:
        """Raise ConfigurationError if the primary key has other columns than before, or if a type has changed so that
        keys may have another form in JSON: rows with the old key would stay in the table forever.
        """
        # Updates and deletes of tables without an identity do not exist; REPLICA IDENTITY FULL does not name the key.
        names = relation.identity or frozenset(self._source.primary_key(relation.oid)) or frozenset(current.key)
        by_name = {column.name: column for column in relation.columns}
        # With REPLICA IDENTITY FULL, the change may be older than a column of the key.
        is_same = names == set(current.key) and names <= by_name.keys()
        if not is_same or not all(have_same_form(column, by_name[column.name]) for column in key_fields(current)):
            raise _key_changed(current, f"its records have the key ({', '.join(current.key)})", sorted(names))

    def _prepare(self, table: TableSource) -> None:
        for column, problem in unsupported(table.relation.columns).items():
            log.error(
                "Topic %s: the table of this topic does not get the column %r, because its name %s; rename the column "
                "to include it",
                self._topics.name(table),
                column,
                problem,
            )
        self._topics.prepare(table)
        self._prepared[table.relation.oid] = table

    def _commit(self, position: int | None) -> int:
        """Commit the open transaction, if there is one, with the position after it unless that is None. Return the
        number of its records.
        """
        records = self._sender.records
        if records:
            self._has_committed = True
            if position is not None:
                place = TopicPartition(self._topics.name(next(iter(self._tables.values()))), 0)
                self._producer.send_offsets_to_transaction({place: OffsetAndMetadata(position)}, self._group)
            self._producer.commit_transaction()
            self._sender.end()
        return records


def _key_changed(table: TableSource, before: str, key: Sequence[str]) -> ConfigurationError:
    relation, shown = table.relation, ", ".join(key)
    return ConfigurationError(
        f"--table {relation.namespace}.{relation.name}: the columns of its primary key ({shown}) or their types have"
        f" changed: {before}. Capture it with another --name"
    )
