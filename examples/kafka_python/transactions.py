"""Transactions with kafka-python's methods. Written for kafka-python, with only the import changed."""

import sys

from ottla import KafkaConsumer, KafkaProducer


def main(servers: str = "localhost:9092", topic: str = "payments") -> None:
    """Commit one transaction, and abort another one."""
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id="cashier-1")
    producer.init_transactions()

    producer.begin_transaction()
    producer.send(topic, value=b"paid").get(timeout=60)
    producer.commit_transaction()

    producer.begin_transaction()
    producer.send(topic, value=b"never happened").get(timeout=60)
    producer.abort_transaction()
    producer.close()

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    for messages in consumer.poll(timeout_ms=30_000).values():
        print([message.value for message in messages])
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
