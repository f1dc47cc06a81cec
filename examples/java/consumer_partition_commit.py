"""Commits of single partitions, from the documentation of Java's consumer: after the records of each partition, commit
its next offset."""

import sys

from ottla import KafkaConsumer, OffsetAndMetadata


def main(servers: str = "localhost:9092", topic: str = "my-topic", count: int | None = None) -> None:
    """Print `count` records (None: without end)."""
    props = {
        "bootstrap.servers": servers,
        "group.id": "by-partition",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    seen = 0
    with KafkaConsumer(props) as consumer:
        consumer.subscribe([topic])
        while count is None or seen < count:
            for partition, records in consumer.poll(timeout_ms=100).items():
                for record in records:
                    print(f"{record.offset}: {record.value!r}")
                last = records[-1].offset
                consumer.commit_sync({partition: OffsetAndMetadata(last + 1)})
                seen += len(records)


if __name__ == "__main__":
    main(*sys.argv[1:3])
