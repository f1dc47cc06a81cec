"""Offsets outside of Kafka, from the documentation of Java's consumer: results and offsets in one transaction.

A rebalance listener seeks to the offsets in the database, so that each record counts exactly once. See also
examples/delivery.
"""

import sqlite3
import sys
from collections.abc import Collection

from ottla import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

TABLES = """
CREATE TABLE IF NOT EXISTS counts (key TEXT PRIMARY KEY, n INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition));
"""


class SaveOffsetsOnRebalance(ConsumerRebalanceListener):
    """Starts at the offsets in the database. They are stored with the results, so revocation needs no action."""

    def __init__(self, consumer: KafkaConsumer, database: sqlite3.Connection) -> None:
        self.consumer = consumer
        self.database = database

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Seek to the offsets in the database."""
        for partition in assigned:
            row = self.database.execute("SELECT next FROM offsets WHERE topic = ? AND partition = ?", partition)
            (position,) = row.fetchone() or (0,)
            self.consumer.seek(partition, position)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Do nothing: offsets are stored with the results."""


def main(
    servers: str = "localhost:9092",
    topic: str = "my-topic",
    path: str = "counts.sqlite",
    count: int | None = None,
) -> None:
    """Count the keys of `count` records (None: without end)."""
    seen = 0
    database = sqlite3.connect(path)
    database.executescript(TABLES)
    with KafkaConsumer({"bootstrap.servers": servers, "group.id": "db", "enable.auto.commit": "false"}) as consumer:
        consumer.subscribe([topic], listener=SaveOffsetsOnRebalance(consumer, database))
        while count is None or seen < count:
            for partition, records in consumer.poll(timeout_ms=100).items():
                with database:  # one transaction
                    for record in records:
                        key = (record.key or b"").decode()
                        database.execute("INSERT INTO counts VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1", (key,))
                    place = (*partition, records[-1].offset + 1)
                    database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", place)
                seen += len(records)
    database.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
