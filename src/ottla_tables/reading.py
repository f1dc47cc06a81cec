"""Plans the read of a topic: the files of its table, and the records in the log after the table's offsets."""

from __future__ import annotations

from typing import NamedTuple

from ottla.model import TopicPartition
from ottla_tables.errors import TableError
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import Snapshot, Table, TableIdentity
from ottla_tables.log.lookup import EARLIEST, Lookup, TableTopic
from ottla_tables.values.factory import ConverterFactory
from ottla_tables.values.rows import BytesConverter, RowConverter


class TopicRead(NamedTuple):
    """A version of a topic's table and the ranges of the log after it.

    `table` is None if the topic has none. `starts` has the table's next offset of each partition, or the log's first
    offset if the table has none. `ends` are exclusive.
    """

    table: Table | None
    snapshot: Snapshot
    converter: RowConverter
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


def plan_read(topic: TableTopic, lookup: Lookup, tables: TableFactory, converters: ConverterFactory) -> TopicRead:
    """Load the newest version of the topic's table, and look up the offsets of the log after it. A missing table is not
    created. Partitions whose end cannot be looked up are left out.

    Raises TableError if the log begins after an offset of the table, or if a topic with ottla.table.format has lost
    records and its table is missing or empty.
    """
    config = topic.config
    table: Table | None = None
    converter: RowConverter = BytesConverter()
    snapshot = Snapshot((), {})
    # First the table, then the end of the log: between them, the table only grows from what the log has.
    if config.ottla_table_format != "none":
        table = tables.open_existing(TableIdentity(topic.name, topic.topic_id), config)
        columns, widens = (None, True) if table is None else (table.schema, table.widens)
        converter = converters.converter(topic.name, config.ottla_table_schema, columns, widens=widens)
        snapshot = snapshot if table is None else table.load()
    leaders = lookup.leaders(topic.name)
    ends = lookup.offsets(leaders, committed=True)
    firsts = lookup.offsets(leaders, EARLIEST)
    starts = {tp: snapshot.offsets.get(tp.partition, firsts.get(tp, 0)) for tp in ends}
    has_table = config.ottla_table_format != "none"
    if has_table and not snapshot.offsets and (deleted := [tp for tp in ends if firsts.get(tp, 0) > 0]):
        raise TableError(
            f"the topic {topic.name} has {'no table' if table is None else 'an empty table'}, and its log begins at "
            f"offset {firsts[deleted[0]]} of {deleted[0]}. If nothing has written the table yet, run `ottla tables "
            "run` on the broker's machine. If the table is on another machine, set its directory (--directory, or "
            "Spark's option ottla.table.directory), or the topic config ottla.table.location to a URL"
        )
    for tp, start in starts.items():
        if start < firsts.get(tp, 0):
            raise TableError(
                f"{tp}: offsets {start} to {firsts[tp] - 1} are neither in the table nor in the log; "
                "is `ottla tables run` running?"
            )
    return TopicRead(table, snapshot, converter, starts, {tp: max(end, starts[tp]) for tp, end in ends.items()})
