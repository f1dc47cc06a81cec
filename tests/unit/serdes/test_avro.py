"""Avro serializers, with a registry and clients in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastavro")
pytest.importorskip("uvicorn")

from tests.unit.registry.registries import serve_registry

from ottla import KafkaConsumer, KafkaProducer
from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError, SerializationError
from ottla.serdes import (
    AvroDeserializer,
    AvroSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)

VISIT = {
    "type": "record",
    "name": "Visit",
    "namespace": "shop",
    "fields": [{"name": "page", "type": "string"}, {"name": "n", "type": ["null", "long"], "default": None}],
}
OLD_VISIT = {**VISIT, "fields": VISIT["fields"][:1]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    with serve_registry(broker.bootstrap_servers) as url:
        yield url


def test_records_are_sent_and_received_with_schemas_of_the_registry(broker: Broker, url: str) -> None:
    registry = SchemaRegistryClient(f"http://127.0.0.1:1,{url}")  # the first one does not respond
    options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    serializers: dict[str, Any] = {
        "key_serializer": AvroSerializer(registry, "string"),
        "value_serializer": AvroSerializer(registry, json.dumps(OLD_VISIT)),
    }
    with KafkaProducer(**options, **serializers) as producer:
        producer.send("visits", {"page": "/"}, key="k")
        producer.send("visits", None, key="gone")
        with pytest.raises(SerializationError, match="value_serializer AvroSerializer"):
            producer.send("visits", {"page": 3})
    assert sorted(registry.subjects()) == ["visits-key", "visits-value"]
    deserializers: dict[str, Any] = {
        "key_deserializer": AvroDeserializer(SchemaRegistryClient(url)),
        "value_deserializer": AvroDeserializer(SchemaRegistryClient(url), json.dumps(VISIT)),
    }
    with KafkaConsumer("visits", auto_offset_reset="earliest", **options, **deserializers) as consumer:
        records = [next(consumer), next(consumer)]
    assert [(record.key, record.value) for record in records] == [("k", {"page": "/", "n": None}), ("gone", None)]


def test_options_determine_subject_and_schema(url: str) -> None:
    registry = SchemaRegistryClient(url)
    by_record = AvroSerializer(registry, json.dumps(VISIT), subject_name_strategy="TopicRecordNameStrategy")
    data = by_record.serialize("t", {"page": "/", "n": 3})
    assert data is not None
    latest = registry.latest("t-shop.Visit")
    assert data == b"\0" + latest.schema_id.to_bytes(4, "big") + b"\x02/\x02\x06"
    read = AvroDeserializer(registry, from_dict=lambda value, topic: (topic, value["n"]))
    assert read.deserialize("t", data) == ("t", 3)

    lookup = AvroSerializer(registry, json.dumps(VISIT), auto_register_schemas=False)
    with pytest.raises(SchemaRegistryError, match="40401") as failure:
        lookup.serialize("none", {"page": "/"})
    assert failure.value.error_code == 40401
    named = AvroSerializer(
        registry,
        json.dumps(VISIT),
        auto_register_schemas=False,
        subject_name_strategy=lambda topic, field, name: f"t-{name}",
        to_dict=lambda page, topic: {"page": page},
    )
    assert named.serialize("t", "/") == data[:5] + b"\x02/\0"
    latest_version = AvroSerializer(
        registry, use_latest_version=True, subject_name_strategy=lambda *names: "t-shop.Visit"
    )
    assert latest_version.serialize("t", {"page": "/", "n": None}) == data[:5] + b"\x02/\0"

    with pytest.raises(ConfigurationError, match="both be true"):
        AvroSerializer(registry, "int", auto_register_schemas=True, use_latest_version=True)
    with pytest.raises(ConfigurationError, match="TopicNameStrategy"):
        AvroSerializer(registry, "int", subject_name_strategy="Other")
    with pytest.raises(ConfigurationError, match="invalid Avro schema"):
        AvroSerializer(registry, "nonsense")
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        SchemaRegistryClient("localhost:8081")
    with pytest.raises(ValueError, match="requires use_latest_version"):
        AvroSerializer(registry).serialize("t", 3)
    with pytest.raises(ValueError, match="requires a schema with a name"):
        AvroSerializer(registry, '["int"]', subject_name_strategy="RecordNameStrategy").serialize("t", 3)
    with pytest.raises(SchemaRegistryError, match="no schema registry responds"):
        SchemaRegistryClient("http://127.0.0.1:1").subjects()


def test_bytes_schema_has_no_length_prefix_and_references_are_resolved(url: str) -> None:
    registry = SchemaRegistryClient(url)
    data = AvroSerializer(registry, "bytes").serialize("raw", b"abc")
    assert data is not None
    assert data[5:] == b"abc"
    assert AvroDeserializer(registry).deserialize("raw", data) == b"abc"
    registry.register("enum", Schema('{"type": "enum", "name": "E", "symbols": ["A", "B"]}'))
    text = '{"type": "record", "name": "R", "fields": [{"name": "e", "type": "E"}]}'
    schema = Schema(text, references=(SchemaReference("E", "enum", 1),))
    data = AvroSerializer(registry, schema).serialize("refs", {"e": "B"})
    assert data is not None
    assert AvroDeserializer(SchemaRegistryClient(url)).deserialize("refs", data) == {"e": "B"}
    for malformed in (b"", b"\0\0\0\0", b"\1\0\0\0\1a"):
        with pytest.raises(ValueError, match="do not begin with a zero byte"):
            AvroDeserializer(registry).deserialize("t", malformed)
    for damaged in (data[:5], data[:5] + b"\x10"):  # nothing, and a symbol that the enum does not have
        with pytest.raises(ValueError, match="not a value of the schema"):
            AvroDeserializer(registry).deserialize("refs", damaged)
    with pytest.raises(TypeError, match="must be bytes-like, not int"):
        AvroSerializer(registry, "bytes").serialize("raw", 5)
    with pytest.raises(SchemaRegistryError, match="40403"):
        AvroDeserializer(registry).deserialize("t", b"\0\0\1\0\0a")


@pytest.mark.parametrize(
    ("schema", "number"),
    [
        ({"type": "int", "logicalType": "date"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
    ],
)
def test_date_or_time_out_of_range_is_a_value_error(url: str, schema: dict[str, Any], number: bytes) -> None:
    registry = SchemaRegistryClient(url)
    schema_id = registry.register(f"range-{schema['logicalType']}", Schema(json.dumps(schema)))
    data = b"\0" + schema_id.to_bytes(4, "big") + number
    with pytest.raises(ValueError, match=f"not a value of the schema {schema_id}"):
        AvroDeserializer(registry).deserialize("t", data)
