"""Reading with kafka-python's methods: iteration, groups, manual assignment, deserializers, headers, metrics.

Written for kafka-python, with only the import changed.
"""

import sys

from ottla import IsolationLevel, KafkaConsumer, TopicPartition


def main(servers: str = "localhost:9092", topic: str = "orders") -> None:
    """Read records in each of these ways."""
    everything = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", "consumer_timeout_ms": 30_000}

    consumer = KafkaConsumer(topic, **{**everything, "consumer_timeout_ms": 2000})
    for message in consumer:  # ends after consumer_timeout_ms without a message; by default it never does
        print(message.partition, message.offset, message.key, message.value, message.headers)
    consumer.close()

    # Members of a group share the partitions; where they are is committed from time to time, and at the end.
    consumer = KafkaConsumer(topic, group_id="shippers", **everything)
    print(f"the group begins with {next(consumer).value!r}")
    consumer.close()

    consumer = KafkaConsumer(**everything)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])  # no group: exactly this
    consumer.seek_to_end(partition)
    end = consumer.position(partition)
    consumer.seek(partition, max(0, end - 1))
    print(f"the last message of partition 0 is {next(consumer).value!r}")
    consumer.close()

    consumer = KafkaConsumer(value_deserializer=lambda data: data.decode(), **everything)
    consumer.subscribe([topic])
    batches = {}
    while not batches:
        batches = consumer.poll(timeout_ms=500, max_records=10)
    print(f"poll() returned messages of {len(batches)} partitions")
    print(f"groups of metrics: {len(consumer.metrics())}")
    consumer.close()

    consumer = KafkaConsumer(topic, isolation_level=IsolationLevel.READ_COMMITTED, **everything)
    print(f"the first one that is committed: {next(consumer).value!r}")
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
