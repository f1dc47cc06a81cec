"""Manual offset control, from the documentation of Java's consumer: commit after a batch is in a database.

If the process dies between the two, the records are read again: each is processed at least once.
"""

import sys
from collections.abc import Callable

from ottla import ConsumerRecord, KafkaConsumer

MIN_BATCH = 20


def main(
    servers: str = "localhost:9092",
    topic: str = "my-topic",
    insert_into_db: Callable[[list[ConsumerRecord]], None] = print,
    count: int | None = None,
) -> None:
    """Process at least `count` records (None: without end), a batch at a time."""
    props = {
        "bootstrap.servers": servers,
        "group.id": "manual",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    done = 0
    buffer: list[ConsumerRecord] = []
    with KafkaConsumer(props) as consumer:
        consumer.subscribe([topic])
        while count is None or done < count:
            for records in consumer.poll(timeout_ms=100).values():
                buffer += records
            if len(buffer) >= MIN_BATCH:
                insert_into_db(buffer)
                consumer.commit_sync()
                done += len(buffer)
                buffer = []


if __name__ == "__main__":
    main(*sys.argv[1:3])
