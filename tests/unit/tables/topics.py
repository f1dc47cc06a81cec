"""Topics with tables, and their rows and records, for tests of `ottla tables`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla import Broker, KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from ottla_tables.formats.factory import TableFactory
from ottla_tables.formats.table import Snapshot, Table, TableIdentity
from ottla_tables.log.lookup import Lookup
from ottla_tables.log.tiered import TieredRecords
from ottla_tables.opening import WriterFactory
from ottla_tables.parquet import read_batches
from ottla_tables.service import TableService

Row = tuple[Any, ...]


class TableWorld:
    """A broker with a topic that has a table, and clients."""

    def __init__(
        self, broker: Broker, topic: str, directory: Path, configs: Mapping[str, str], properties: Mapping[str, str]
    ) -> None:
        self.topic = topic
        self.servers = broker.bootstrap_servers
        self.admin = KafkaAdminClient(bootstrap_servers=self.servers)
        self.admin.create_topics([NewTopic(topic, 2, 1, None, configs)], wait_for_metadata=True)
        self.producer = KafkaProducer(bootstrap_servers=self.servers)
        self.factory = TableFactory(directory, properties)
        self.lookup = Lookup(self.admin)

    def close(self) -> None:
        """Close the clients."""
        self.producer.close()
        self.admin.close()

    def send(self, *values: Any, partition: int = 0, key: Any = None) -> None:
        """Send values, which are stored when this returns."""
        for value in values:
            self.producer.send(self.topic, value, key=key, partition=partition)
        self.producer.flush()

    def transaction(self, values: list[bytes], *, commit: bool | None = True, partition: int = 0) -> KafkaProducer:
        """Send values in a transaction of a new producer, and commit, abort or (None) leave it open."""
        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=f"{self.topic}-{values[0]!r}")
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(self.topic, value, partition=partition)
        producer.flush()
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)()
            producer.close()
        return producer

    def service(self) -> TableService:
        """Return a new table writer, as if the process was started again."""
        tiered = TieredRecords(self.lookup, {"bootstrap.servers": self.servers})
        return TableService(self.lookup, WriterFactory(self.factory, tiered).open, [self.topic])

    def write(self) -> int:
        """Write everything to the table with a new writer, and return the number of rows."""
        return self.service().write_all()

    def table(self, suffix: str = "") -> Table:
        """Open the table."""
        (topic,) = self.lookup.topics([self.topic])
        owner = TableIdentity(topic.name, topic.topic_id)
        return self.factory.open(owner, topic.config, pa.schema([]), suffix)

    def snapshot(self) -> Snapshot:
        """Load the table."""
        return self.table().load()

    def rows(self, suffix: str = "") -> list[dict[str, Any]]:
        """Return the rows of the table, sorted by partition and offset."""
        table = self.table(suffix)
        batches = (batch for file in table.load().files for batch in read_batches(table, file.path))
        rows = [row for batch in batches for row in batch.to_pylist()]
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def records(self) -> list[Row]:
        """Return offset, partition, timestamp, key, value and headers of all committed records, sorted alike."""
        partitions = [TopicPartition(self.topic, 0), TopicPartition(self.topic, 1)]
        records = []
        with KafkaConsumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(tp) < ends[tp] for tp in partitions):
                for batch in consumer.poll(100).values():
                    records += [(r.offset, r.partition, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
        return sorted(records, key=lambda record: (record[1], record[0]))


def as_record(row: Mapping[str, Any]) -> Row:
    """Return a row of a table without a schema as a record."""
    headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
    timestamp = round(row["timestamp"].timestamp() * 1000)
    return row["offset"], row["partition"], timestamp, row["key"], row["value"], headers


@contextmanager
def table_world(
    broker: Broker, topic: str, directory: Path, properties: Mapping[str, str] | None = None, **configs: str
) -> Iterator[TableWorld]:
    """Create a topic with these configs below ottla.table., with `_` for `.`. `properties`: of --catalog-config."""
    named = {f"ottla.table.{name.replace('_', '.')}": value for name, value in configs.items()}
    world = TableWorld(broker, topic, directory, named, properties or {})
    try:
        yield world
    finally:
        world.close()
