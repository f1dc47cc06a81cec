"""Manual assignment, from the documentation of Java's consumer: two partitions, without rebalances of a group."""

import sys

from ottla import KafkaConsumer, TopicPartition


def main(servers: str = "localhost:9092", topic: str = "my-topic") -> None:
    """Print the records that two partitions have now."""
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with KafkaConsumer({"bootstrap.servers": servers, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for partition, records in consumer.poll(timeout_ms=100).items():
                for record in records:
                    print(partition, record.offset, record.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
