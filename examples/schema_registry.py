"""Avro with a schema registry: confluent-kafka's registry client as serializer and deserializer of Ottla's clients.

    pip install "confluent-kafka[avro,schemaregistry]"
    python examples/schema_registry.py localhost:9092 http://localhost:8081

The serializer registers the schema once and puts its id before each value; the deserializer requests
unknown schemas from the registry. Any object with `serialize(topic, value)` or `deserialize(topic, data)` works.
"""

import sys
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ottla import KafkaConsumer, KafkaProducer

VISIT = """
{"type": "record", "name": "Visit", "fields": [
  {"name": "page", "type": "string"},
  {"name": "millis", "type": "long"},
  {"name": "agent", "type": ["null", "string"], "default": null}
]}
"""


class RegisteredAvro:
    """Serializes values as Avro, with the registry's header."""

    def __init__(self, registry: SchemaRegistryClient, schema: str) -> None:
        self._write = AvroSerializer(registry, schema)
        self._read = AvroDeserializer(registry, schema)

    def serialize(self, topic: str, value: dict[str, Any] | None) -> bytes | None:
        """Return the bytes of a value. Its subject in the registry is `<topic>-value`."""
        written: bytes | None = self._write(value, SerializationContext(topic, MessageField.VALUE))
        return written

    def deserialize(self, topic: str, data: bytes | None) -> dict[str, Any] | None:
        """Return the value, written with any of the subject's schemas."""
        read: dict[str, Any] | None = self._read(data, SerializationContext(topic, MessageField.VALUE))
        return read


def main(servers: str = "localhost:9092", registry: str = "http://localhost:8081", topic: str = "visits-avro") -> None:
    """Send two visits and read them."""
    avro = RegisteredAvro(SchemaRegistryClient({"url": registry}), VISIT)

    with KafkaProducer(bootstrap_servers=servers, value_serializer=avro) as producer:
        producer.send(topic, {"page": "/index.html", "millis": 1403061899859})
        producer.send(topic, {"page": "/", "millis": 1403061899860, "agent": "curl"})

    with KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        value_deserializer=avro,
        auto_offset_reset="earliest",
    ) as consumer:
        for records in consumer.poll(timeout_ms=30_000).values():
            for record in records:
                print(record.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
