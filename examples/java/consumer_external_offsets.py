"""Java's offsets outside of Kafka: results and offsets change together, in one transaction of a database.

A rebalance listener takes up from the database. So each record counts exactly once. See also examples/delivery.
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
    """Positions come from the database; they are stored with the results, so nothing is to do when they go."""

    def __init__(self, consumer: KafkaConsumer, database: sqlite3.Connection) -> None:
        self.consumer = consumer
        self.database = database

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Go on where the database is."""
        for partition in assigned:
            row = self.database.execute("SELECT next FROM offsets WHERE topic = ? AND partition = ?", partition)
            (position,) = row.fetchone() or (0,)
            self.consumer.seek(partition, position)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Nothing."""


def main(
    servers: str = "localhost:9092",
    topic: str = "my-topic",
    path: str = "counts.sqlite",
    count: int | None = None,
) -> None:
    """Count keys, of `count` records (None: for ever)."""
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
