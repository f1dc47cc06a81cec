"""Serializers and deserializers with the schemas of a schema registry. They are compatible with those of Confluent.

    registry = SchemaRegistryClient("http://localhost:8081")
    KafkaProducer(value_serializer=AvroSerializer(registry, schema))
    KafkaConsumer(value_deserializer=AvroDeserializer(registry))

Schemas are cached. Serializing a record for a subject that is not cached, or deserializing one with a schema id that is
not cached, waits for the registry in the calling thread. Deserializing Protobuf, or JSON without validation, sends
no requests to the registry.
"""

from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.serdes.protobuf import ProtobufDeserializer, ProtobufSerializer
from ottla.serdes.registry_client import RegisteredSchema, Schema, SchemaReference, SchemaRegistryClient
from ottla.serdes.registry_errors import SchemaRegistryError

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JsonSchemaDeserializer",
    "JsonSchemaSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "Schema",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
]
