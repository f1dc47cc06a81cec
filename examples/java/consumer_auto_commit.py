"""Automatic offset committing, from the documentation of Java's consumer."""

import sys

from ottla import KafkaConsumer


def main(servers: str = "localhost:9092", topic: str = "my-topic", count: int | None = None) -> None:
    """Print `count` records (None: without end)."""
    props = {
        "bootstrap.servers": servers,
        "group.id": "auto",
        "enable.auto.commit": "true",
        "auto.commit.interval.ms": "1000",
        "auto.offset.reset": "earliest",
        "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "value.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    }
    seen = 0
    with KafkaConsumer(props) as consumer:
        consumer.subscribe([topic])
        while count is None or seen < count:
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    print(f"offset = {record.offset}, key = {record.key}, value = {record.value}")
                    seen += 1


if __name__ == "__main__":
    main(*sys.argv[1:3])
