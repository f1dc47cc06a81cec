"""Serializers and deserializers with the schemas of a schema registry. They are compatible with those of Confluent.

    registry = SchemaRegistryClient("http://localhost:8081")
    KafkaProducer(value_serializer=AvroSerializer(registry, schema))
    KafkaConsumer(value_deserializer=AvroDeserializer(registry))

Schemas are cached. The first record that is serialized for a subject and, except for Protobuf, the first one that is
deserialized with a schema id wait for the registry in the calling thread.
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
