"""Records of Confluent's serializers, decoded by the console with the schemas of a registry."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from tests.unit.console.consoles import open_console
from tests.unit.console.registries import FakeRegistry, schema_registry

from ottla import KafkaProducer
from ottla.broker.embedded import Broker

pytestmark = pytest.mark.interop

SCHEMA = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": None}],
}


def register(registry: FakeRegistry, client: Any, subject: str, schema: Any) -> None:
    """Register a schema in the client's registry in memory, and serve it by HTTP."""
    schema_id = client.register_schema(subject, schema)
    response = {"schema": schema.schema_str, "schemaType": schema.schema_type}
    registry.responses[f"/schemas/ids/{schema_id}"] = response
    registry.responses[f"/schemas/ids/{schema_id}?format=serialized"] = response


def avro(registry: FakeRegistry, topic: str) -> bytes:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client: Any = SchemaRegistryClient.new_client({"url": "mock://avro"})
    register(registry, client, f"{topic}-value", Schema(json.dumps(SCHEMA), "AVRO"))
    serializer = AvroSerializer(client, json.dumps(SCHEMA))
    data = serializer({"page": "/avro", "n": 7}, SerializationContext(topic, MessageField.VALUE))
    assert isinstance(data, bytes)
    return data


def test_avro_of_confluents_serializer_is_shown_as_json(ottla_broker: Broker, ottla_topic: str) -> None:
    pytest.importorskip("confluent_kafka.schema_registry.avro")
    with schema_registry() as registry, KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, avro(registry, ottla_topic)).get(10)
        with open_console(ottla_broker.bootstrap_servers, schema_registry=registry.url) as browser:
            text = browser.text(f"/topics/{ottla_topic}/messages")
    assert "&#34;page&#34;: &#34;/avro&#34;" in text
    assert "&#34;n&#34;: 7" in text


def test_protobuf_of_confluents_serializer_is_shown_as_json(ottla_broker: Broker, ottla_topic: str) -> None:
    module = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="visit.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Other")
    visit = file.message_type.add(name="Visit")
    visit.field.add(name="page", number=1, type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Visit"))
    client: Any = SchemaRegistryClient.new_client({"url": "mock://protobuf"})
    serializer = module.ProtobufSerializer(message_class, client, {"use.deprecated.format": False})
    with schema_registry() as registry, KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        schema = Schema(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
        register(registry, client, f"{ottla_topic}-value", schema)
        context = SerializationContext(ottla_topic, MessageField.VALUE)
        producer.send(ottla_topic, serializer(message_class(page="/protobuf"), context)).get(10)
        with open_console(ottla_broker.bootstrap_servers, schema_registry=registry.url) as browser:
            text = browser.text(f"/topics/{ottla_topic}/messages")
    assert "&#34;page&#34;: &#34;/protobuf&#34;" in text
