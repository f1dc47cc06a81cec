"""The transactional example of Java's producer: a hundred records, all of them or none."""

import sys

from ottla import KafkaProducer, ProducerRecord
from ottla.errors import (
    InvalidProducerEpochError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
)

FATAL = (
    ProducerFencedError,
    InvalidProducerEpochError,
    OutOfOrderSequenceNumberError,
    TransactionalIdAuthorizationFailedError,
)
"""After these another producer goes on; this one can only be closed."""


def main(servers: str = "localhost:9092", topic: str = "my-topic") -> None:
    """Send the numbers to 99 in one transaction."""
    props = {"bootstrap.servers": servers, "transactional.id": "my-transactional-id"}
    producer = KafkaProducer(props, key_serializer=str.encode, value_serializer=str.encode)
    producer.init_transactions()
    try:
        producer.begin_transaction()
        for i in range(100):
            producer.send(ProducerRecord(topic, key=str(i), value=str(i)))
        producer.commit_transaction()
    except FATAL:
        raise
    except KafkaError:
        producer.abort_transaction()
        raise
    finally:
        producer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
