"""The first example of Java's producer: a hundred records with strings as keys and values."""

import sys

from ottla import KafkaProducer, ProducerRecord


def main(servers: str = "localhost:9092", topic: str = "my-topic") -> None:
    """Send the numbers to 99."""
    props = {
        "bootstrap.servers": servers,
        "linger.ms": 1,
        "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
        "value.serializer": "org.apache.kafka.common.serialization.StringSerializer",
    }
    with KafkaProducer(props) as producer:
        for i in range(100):
            producer.send(ProducerRecord(topic, key=str(i), value=str(i)), on_completion)


def on_completion(metadata: object, error: object) -> None:
    """Report the result of a record. One of the arguments is None."""
    if error is not None:
        print(f"failed: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
