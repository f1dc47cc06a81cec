"""The first producer example of Kafka 0.8: visits of a web page, keyed by the visitor's address.

    ottla broker &
    ottla create-topic --topic page_visits --replica 1 --partition 5 --bootstrap-server localhost:9092
    python examples/legacy/page_visits.py 100
    ottla console-consumer --bootstrap-server localhost:9092 --topic page_visits --from-beginning

All visits of one address are in one partition, in their order.
"""

import random
import sys
import time

from ottla.legacy import KeyedMessage, Producer, ProducerConfig


def main(events: int, brokers: str = "localhost:9092") -> None:
    """Send a number of visits."""
    props = {
        "metadata.broker.list": brokers,
        "serializer.class": "kafka.serializer.StringEncoder",
        "partitioner.class": "simple_partitioner.SimplePartitioner",
        "request.required.acks": "1",
    }
    with Producer[str, str](ProducerConfig(props)) as producer:
        for _ in range(events):
            ip = f"192.168.2.{random.randrange(255)}"
            visit = f"{time.time_ns() // 1_000_000},www.example.com,{ip}"
            producer.send(KeyedMessage("page_visits", ip, visit))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1].isdigit():
        sys.exit("usage: page_visits.py EVENTS [HOST:PORT,…]")
    main(int(sys.argv[1]), *sys.argv[2:])
