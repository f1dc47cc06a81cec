"""Records with schemas of a schema registry: Avro, Protobuf and JSON Schema in Confluent's wire format."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.console.consoles import open_console
from tests.unit.console.registries import FakeRegistry, schema_registry

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError
from ottla.serdes.framing import schema_id_of
from ottla_console.cluster.schema_registry import MAX_FETCHES, SchemaRegistry
from ottla_console.security.masking import Masking

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
CUSTOMER: dict[str, Any] = {
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "email", "type": "string"},
        {"name": "address", "type": "Address"},
        {"name": "token", "type": "bytes"},
        {"name": "price", "type": PRICE},
    ],
}
VALUE = {"email": "a@example.org", "address": {"city": "Brno"}, "token": b"\x01\xff", "price": Decimal("1.50")}


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as fake:
        yield fake


def avro(registry: FakeRegistry, schema_id: int) -> bytes:
    """Register a schema with a reference, and return a record of it."""
    reference = {"name": "Address", "subject": "address/v", "version": 3}
    registry.responses[f"/schemas/ids/{schema_id}"] = {"schema": json.dumps(CUSTOMER), "references": [reference]}
    registry.responses["/subjects/address%2Fv/versions/3"] = {"schema": json.dumps(ADDRESS)}
    named: dict[str, Any] = {}
    fastavro.parse_schema(ADDRESS, named_schemas=named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(CUSTOMER, named_schemas=named), VALUE)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def protobuf(registry: FakeRegistry, schema_id: int) -> bytes:
    """Register a schema with a nested message, an import and a timestamp, and return a record of the nested message."""
    from google.protobuf import descriptor_pb2, timestamp_pb2

    field = descriptor_pb2.FieldDescriptorProto
    city = descriptor_pb2.FileDescriptorProto(name="city.proto", package="shop", syntax="proto3")
    city.message_type.add(name="City").field.add(name="name", number=1, type=field.TYPE_STRING, label=1)
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    shop.dependency.extend(["city.proto", "google/protobuf/timestamp.proto"])
    order = shop.message_type.add(name="Shop").nested_type.add(name="Order")
    for number, name in enumerate(("shop.City", "google.protobuf.Timestamp"), 1):
        order.field.add(name=f"f_{number}", number=number, type=field.TYPE_MESSAGE, label=1, type_name=f".{name}")
    reference = {"name": "city.proto", "subject": "city", "version": 1}
    schema = {"schemaType": "PROTOBUF", "schema": "syntax …", "references": [reference]}
    registry.responses[f"/schemas/ids/{schema_id}"] = schema
    registry.responses[f"/schemas/ids/{schema_id}?format=serialized"] = {**schema, "schema": _base64(shop)}
    registry.responses["/subjects/city/versions/1?format=serialized"] = {"schema": _base64(city)}
    brno, moment = b"\x0a\x04Brno", timestamp_pb2.Timestamp(seconds=1).SerializeToString()
    data: bytes = b"\x0a" + bytes([len(brno)]) + brno + b"\x12" + bytes([len(moment)]) + moment
    return b"\0" + schema_id.to_bytes(4, "big") + b"\x04\x00\x00" + data


def _base64(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


async def decoded(client: SchemaRegistry, value: bytes) -> Any:
    await client.load([value])
    text = client.to_json(value)
    return None if text is None else json.loads(text)


async def test_avro_is_decoded_with_its_references(registry: FakeRegistry) -> None:
    value = avro(registry, 1)
    client = SchemaRegistry(registry.url + "/", "me:secret")
    expected = {"email": "a@example.org", "address": {"city": "Brno"}, "token": "01ff", "price": "1.50"}
    assert await decoded(client, value) == expected
    assert "Basic bWU6c2VjcmV0" in registry.credentials


async def test_protobuf_is_decoded_by_the_path_of_its_message(registry: FakeRegistry) -> None:
    value = protobuf(registry, 2)
    expected = {"f_1": {"name": "Brno"}, "f_2": "1970-01-01T00:00:01Z"}
    assert await decoded(SchemaRegistry(registry.url), value) == expected


async def test_first_protobuf_message_and_json_schema_are_decoded(registry: FakeRegistry) -> None:
    protobuf(registry, 3)
    client = SchemaRegistry(registry.url)
    assert await decoded(client, b"\0\0\0\0\x03\0") == {}
    registry.responses["/schemas/ids/4"] = {"schemaType": "JSON", "schema": "{}"}
    assert await decoded(client, b'\0\0\0\0\x04{"a": 1}') == {"a": 1}


@pytest.mark.parametrize(
    "data", [b"", b"\x04", b"\x04\x00\x08", b"\x02\x0a", b"\x02\x01", b"\xff" * 6, b"\0\x0a\xff\xff"]
)
async def test_malformed_record_is_not_decoded(registry: FakeRegistry, data: bytes) -> None:
    protobuf(registry, 5)
    assert await decoded(SchemaRegistry(registry.url), b"\0\0\0\0\x05" + data) is None


async def test_schemas_and_unknown_ids_are_fetched_once(registry: FakeRegistry) -> None:
    value, client = avro(registry, 6), SchemaRegistry(registry.url)
    registry.requests.clear()
    for _ in range(3):
        await client.load([value, value, b"\0\0\0\0\x07x", b"text", b"\0\0", None])
    assert registry.requests.count("/schemas/ids/6") == 1
    assert registry.requests.count("/schemas/ids/7") == 1
    assert len(registry.requests) == 3  # one more for the reference


async def test_page_fetches_a_bounded_number_of_schemas(registry: FakeRegistry) -> None:
    registry.requests.clear()
    await SchemaRegistry(registry.url).load(b"\0\1\0\0" + bytes([i]) for i in range(MAX_FETCHES + 10))
    assert len(registry.requests) == MAX_FETCHES


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0", b"\1\0\0\0\1"])
def test_value_without_schema_header_has_no_schema_id(value: bytes | None) -> None:
    assert schema_id_of(value) is None


@pytest.mark.parametrize("url", ["localhost:8081", "file:///etc/passwd", "http://", "http://me:secret@a:1"])
def test_malformed_registry_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--schema-registry"):
        SchemaRegistry(url)


def test_page_decodes_masks_and_filters_values(registry: FakeRegistry, ottla_broker: Broker, ottla_topic: str) -> None:
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for value in (avro(registry, 8), protobuf(registry, 9), b"\0\0\0\0\x0aabc"):
            producer.send(ottla_topic, value)
    masking = Masking([f"{ottla_topic}=email,f_1.name"])
    page = f"/topics/{ottla_topic}/messages"
    with open_console(ottla_broker.bootstrap_servers, schema_registry=registry.url, masking=masking) as browser:
        text = browser.text(page)
        assert "1970-01-01T00:00:01Z" in text
        assert "Brno" in text
        assert "a@example.org" not in text
        assert "a@example.org" not in browser.text(f"{page}?format=text")
        assert "1.50" in browser.text(f"{page}?filter=1.50")
        assert "0 of 3 offsets" in browser.text(f"{page}?filter=example.org")
    with open_console(ottla_broker.bootstrap_servers, schema_registry=registry.url) as browser:
        assert "00 00 00 00 0a 61 62 63" in browser.text(page)


def test_values_are_shown_as_hex_if_the_registry_is_unreachable(
    unused_address: str, ottla_broker: Broker, ottla_topic: str
) -> None:
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, b"\0\0\0\0\x01\xff")
    url = f"http://{unused_address}"
    with open_console(ottla_broker.bootstrap_servers, schema_registry=url) as browser:
        assert "00 00 00 00 01 ff" in browser.text(f"/topics/{ottla_topic}/messages")
