"""A read of a topic as one: the files of its table, and the records of the log after the table's offsets."""

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
    """A version of a table and ranges of the log, which have each record that was committed at one moment once.

    `table`: None if the topic has none. `starts` and `ends`: the offsets of the log.
    """

    table: Table | None
    snapshot: Snapshot
    converter: RowConverter
    starts: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]


def plan_read(topic: TableTopic, lookup: Lookup, tables: TableFactory, converters: ConverterFactory) -> TopicRead:
    """Load the newest version of the topic's table and the offsets after it. Raises KafkaError."""
    config = topic.config
    table: Table | None = None
    converter: RowConverter = BytesConverter()
    snapshot = Snapshot((), {})
    # First the table, then the end of the log: between them, the table only grows from what the log has.
    if config.ottla_table_format != "none":
        columns = converters.initial_schema(topic.name, config.ottla_table_schema)
        table = tables.open(TableIdentity(topic.name, topic.topic_id), config, columns)
        converter = converters.converter(topic.name, config.ottla_table_schema, table.schema, widens=table.widens)
        snapshot = table.load()
    leaders = lookup.leaders(topic.name)
    ends = lookup.offsets(leaders, committed=True)
    firsts = lookup.offsets(leaders, EARLIEST)
    starts = {tp: snapshot.offsets.get(tp.partition, firsts.get(tp, 0)) for tp in ends}
    if table is not None and not snapshot.offsets and (deleted := [tp for tp in ends if firsts.get(tp, 0) > 0]):
        # Another machine may have the table, and this one has just created an empty one.
        raise TableError(
            f"the table of {topic.name} is empty, and records of {deleted[0]} before offset {firsts[deleted[0]]} are "
            "not in the log: if the table is on another machine, set its directory, or ottla.table.location to a URL; "
            "if it is new, wait until `ottla tables run` has written to it"
        )
    for tp, start in starts.items():
        if start < firsts.get(tp, 0):
            raise TableError(
                f"{tp}: offsets {start} to {firsts[tp] - 1} are neither in the table nor in the log; "
                "is `ottla tables run` running?"
            )
    return TopicRead(table, snapshot, converter, starts, {tp: max(end, starts[tp]) for tp, end in ends.items()})
