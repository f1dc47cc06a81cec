"""Sending with kafka-python's methods: fire and forget, waiting, keys, serializers, compression, headers, metrics.

Written for kafka-python, with only the import changed.
"""

import sys

from ottla import DefaultSerializer, JsonSerializer, KafkaProducer


def main(servers: str = "localhost:9092", topic: str = "orders") -> None:
    """Send records in each of these ways."""
    producer = KafkaProducer(bootstrap_servers=servers)
    for number in range(100):
        producer.send(topic, b"order %d" % number)  # returns at once

    future = producer.send(topic, b"an important one")
    metadata = future.get(timeout=60)  # waits, and raises what went wrong
    print(f"partition {metadata.partition}, offset {metadata.offset}")

    producer.send(topic, key=b"customer 7", value=b"same key, same partition")
    producer.send(topic, value=b"c29tZSBieXRlcw==", headers=[("content-encoding", b"base64")])

    results = []
    producer.send(topic, b"call me back").add_callback(results.append).add_errback(results.append)

    producer.flush()  # everything is out, and every outcome is known
    print(f"callback got offset {results[0].offset}")
    print(f"groups of metrics: {len(producer.metrics())}")
    producer.close()

    producer = KafkaProducer(bootstrap_servers=servers, value_serializer=JsonSerializer(), compression_type="gzip")
    producer.send(topic, {"order": 1, "items": ["tea", "milk"]})
    producer.close()

    producer = KafkaProducer(bootstrap_servers=servers, key_serializer=DefaultSerializer())
    producer.send(topic, key="customer 8", value=b"a key of text")
    producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
