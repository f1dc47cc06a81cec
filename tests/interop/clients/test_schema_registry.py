"""Confluent's Python client and serializers against Ottla's schema registry, and against Ottla's serializers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("confluent_kafka.schema_registry.avro", exc_type=ImportError)

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.unit.registry.registries import serve_registry

from ottla import serdes
from ottla.broker.embedded import Broker

pytestmark = pytest.mark.interop

VISIT = json.dumps(
    {
        "type": "record",
        "name": "Visit",
        "namespace": "shop",
        "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": None}],
    }
)
NARROW = VISIT.replace('["null", "long"], "default": null', '"string"')
PAGE = json.dumps(
    {"title": "Page", "type": "object", "properties": {"page": {"type": "string"}}, "additionalProperties": False}
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker() as broker, serve_registry(broker.bootstrap_servers) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    return SchemaRegistryClient({"url": url})


def error_of(call: Any, *arguments: Any) -> int:
    """Return the error code of a request that the registry rejects."""
    with pytest.raises(SchemaRegistryError) as failure:
        call(*arguments)
    return int(failure.value.error_code)


def test_confluent_client_registers_checks_and_deletes_schemas(client: Any) -> None:
    assert NARROW != VISIT
    avro = Schema(VISIT, "AVRO")
    schema_id = client.register_schema("s", avro)
    assert client.lookup_schema("s", avro).version == 1
    assert json.loads(client.get_schema(schema_id).schema_str) == json.loads(VISIT)
    assert client.get_latest_version("s").schema_id == schema_id
    assert client.get_versions("s") == [1]
    assert client.get_subjects() == ["s"]
    assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert client.get_schema_versions(schema_id)[0].version == 1
    assert client.get_contexts() == ["."]

    assert client.get_compatibility() == "BACKWARD"
    assert not client.test_compatibility("s", Schema(NARROW, "AVRO"))
    assert error_of(client.register_schema, "s", Schema(NARROW, "AVRO")) == 409
    assert error_of(client.register_schema, "s", Schema("{", "AVRO")) == 42201
    assert error_of(client.get_compatibility, "s") == 40408
    client.set_compatibility("s", "NONE")
    assert client.get_compatibility("s") == "NONE"
    assert client.test_compatibility("s", Schema(NARROW, "AVRO"))
    client.delete_config("s")

    page = Schema(PAGE, "JSON")
    client.register_schema("page", page)
    reference = SchemaReference("page.json", "page", 1)
    user = Schema('{"type": "object", "properties": {"p": {"$ref": "page.json"}}}', "JSON", [reference])
    user_id = client.register_schema("user", user)
    assert client.get_referenced_by("page", 1) == [user_id]
    assert client.get_latest_version("user").schema.references == [reference]
    assert error_of(client.delete_subject, "page") == 42206

    assert client.update_mode("s", "READONLY") == "READONLY"
    assert error_of(client.register_schema, "s", Schema('"int"', "AVRO")) == 42205
    assert client.get_mode("s") == client.delete_mode("s") == "READONLY"
    assert client.get_global_mode() == "READWRITE"
    assert client.delete_version("s", 1) == 1
    client.clear_caches()
    assert error_of(client.get_latest_version, "s") == 40401
    assert client.delete_subject("s", permanent=True) == [1]
    assert "s" not in client.get_subjects()


def test_avro_bytes_equal_those_of_confluents_serializer(client: Any, url: str) -> None:
    context, ours = SerializationContext("avro", MessageField.VALUE), serdes.SchemaRegistryClient(url)
    for value in ({"page": "/", "n": None}, {"page": "/ä", "n": -(2**40)}):
        data = AvroSerializer(client, VISIT)(value, context)
        assert data == serdes.AvroSerializer(ours, VISIT).serialize("avro", value)
        assert (
            value == serdes.AvroDeserializer(ours).deserialize("avro", data) == AvroDeserializer(client)(data, context)
        )
    key = SerializationContext("avro", MessageField.KEY)
    strings = serdes.AvroSerializer(ours, "string")
    strings.configure({}, is_key=True)
    assert AvroSerializer(client, '"string"')("k", key) == strings.serialize("avro", "k")
    raw = serdes.AvroSerializer(ours, "bytes").serialize("raw", b"abc")
    assert raw == AvroSerializer(client, '"bytes"')(b"abc", SerializationContext("raw", MessageField.VALUE))


def test_confluent_serializer_sends_the_guid_of_a_schema_in_a_header(client: Any, url: str) -> None:
    schema_registry = pytest.importorskip("confluent_kafka.schema_registry")
    if not hasattr(schema_registry, "header_schema_id_serializer"):
        pytest.skip("confluent-kafka has no GUIDs")
    headers: Any = []
    context = SerializationContext("guids", MessageField.VALUE, headers)
    serializer = AvroSerializer(
        client, VISIT, conf={"schema.id.serializer": schema_registry.header_schema_id_serializer}
    )
    value = {"page": "/index.html", "n": 1}
    data = serializer(value, context)
    assert [(name, len(guid)) for name, guid in headers] == [("__value_schema_id", 17)]
    other_client = SchemaRegistryClient({"url": url})  # without the schema in its cache
    read = {"schema.id.deserializer": schema_registry.dual_schema_id_deserializer}
    assert AvroDeserializer(other_client, conf=read)(data, context) == value


def test_confluent_client_sets_a_compatibility_group_and_default_metadata(client: Any) -> None:
    from confluent_kafka.schema_registry import (
        ConfigCompatibilityLevel,
        Metadata,
        MetadataProperties,
        ServerConfig,
    )

    config = ServerConfig(
        compatibility=ConfigCompatibilityLevel.FULL,
        compatibility_group="major",
        default_metadata=Metadata(None, MetadataProperties({"owner": "shop"}), None),
    )
    client.set_config("contract", config)
    stored = client.get_config("contract")
    assert (stored.compatibility_group, stored.compatibility_level) == ("major", ConfigCompatibilityLevel.FULL)
    schema_id = client.register_schema("contract", Schema(VISIT, "AVRO"))
    latest = client.get_latest_with_metadata("contract", {"owner": "shop"})
    assert (latest.schema_id, latest.version) == (schema_id, 1)


def test_json_bytes_equal_those_of_confluents_serializer(client: Any, url: str) -> None:
    context, ours = SerializationContext("json", MessageField.VALUE), serdes.SchemaRegistryClient(url)
    value = {"page": "/ä"}
    data = JSONSerializer(PAGE, client)(value, context)
    assert data == serdes.JsonSchemaSerializer(ours, PAGE).serialize("json", value)
    assert (
        value == serdes.JsonSchemaDeserializer(ours).deserialize("json", data) == JSONDeserializer(PAGE)(data, context)
    )
    latest = serdes.JsonSchemaSerializer(ours, use_latest_version=True).serialize("json", value)
    assert latest == data


def message_classes() -> tuple[Any, Any]:
    """Return the first message type of a file with an import, and one that is nested in the second."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="shop", syntax="proto3")
    city.message_type.add(name="City").field.add(name="name", number=1, type=field.TYPE_STRING, label=1)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.append("city.proto")
    visit = shop.message_type.add(name="Visit")
    visit.field.add(name="city", number=1, type=field.TYPE_MESSAGE, type_name=".shop.City", label=1)
    nested = shop.message_type.add(name="Outer").nested_type.add(name="Inner")
    nested.field.add(name="n", number=1, type=field.TYPE_INT64, label=1)
    pool = descriptor_pool.DescriptorPool()
    for file in (city, shop):
        pool.Add(file)
    visit_class, inner_class = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("shop.Visit", "shop.Outer.Inner")
    )
    return visit_class, inner_class


def test_protobuf_bytes_equal_those_of_confluents_serializer(client: Any, url: str) -> None:
    pytest.importorskip("grpc_tools")
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    ours = serdes.SchemaRegistryClient(url)
    visit_class, inner_class = message_classes()
    visit = visit_class()
    visit.city.name = "Brno"
    for message in (visit, inner_class(n=-3)):
        topic = type(message).__name__
        context = SerializationContext(topic, MessageField.VALUE)
        data = ProtobufSerializer(type(message), client, {"use.deprecated.format": False})(message, context)
        assert data == serdes.ProtobufSerializer(ours, type(message)).serialize(topic, message)
        assert message == serdes.ProtobufDeserializer(type(message)).deserialize(topic, data)
        theirs = ProtobufDeserializer(type(message), {"use.deprecated.format": False}, client)
        assert message == theirs(data, context)
    assert client.get_latest_version("Visit-value").schema.references == [
        SchemaReference("city.proto", "city.proto", 1)
    ]
