"""Flow control, from the documentation of Java's consumer: pause one partition until the other is read to its end."""

import sys

from ottla import KafkaConsumer, TopicPartition


def main(servers: str = "localhost:9092", topic: str = "my-topic") -> None:
    """Print partition 1, then partition 0."""
    first, second = TopicPartition(topic, 1), TopicPartition(topic, 0)
    with KafkaConsumer({"bootstrap.servers": servers, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([first, second])
        ends = consumer.end_offsets([first, second])
        consumer.pause(second)
        for partition in (first, second):
            consumer.resume(partition)
            while consumer.position(partition) < ends[partition]:
                for partition, records in consumer.poll(timeout_ms=100).items():
                    print(partition, [record.value for record in records])


if __name__ == "__main__":
    main(*sys.argv[1:])
