"""JSON Schema serializers, with a registry in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("jsonschema")
pytest.importorskip("uvicorn")

from tests.unit.registry.registries import serve_registry

from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError
from ottla.serdes import (
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
    json_schema,
    schema_serde,
)

VISIT = {"title": "Visit", "type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Broker() as broker, serve_registry(broker.bootstrap_servers) as url:
        yield url


def test_values_are_validated_and_written_as_json(url: str) -> None:
    registry = SchemaRegistryClient(url)
    serializer = JsonSchemaSerializer(registry, json.dumps(VISIT), subject_name_strategy="RecordNameStrategy")
    data = serializer.serialize("visits", {"page": "/ä"})
    assert data == b"\0" + registry.latest("Visit").schema_id.to_bytes(4, "big") + '{"page":"/ä"}'.encode()
    assert JsonSchemaDeserializer(registry).deserialize("visits", data) == {"page": "/ä"}
    read = JsonSchemaDeserializer(SchemaRegistryClient(url), from_dict=lambda value, topic: value["page"])
    assert read.deserialize("visits", data) == "/ä"
    assert serializer.serialize("visits", None) is None
    assert read.deserialize("visits", None) is None
    with pytest.raises(ValueError, match="does not match the schema at /page: 3 is not of type 'string'"):
        serializer.serialize("visits", {"page": 3})
    unchecked = JsonSchemaSerializer(registry, json.dumps(VISIT), validate=False, auto_register_schemas=False)
    with pytest.raises(SchemaRegistryError, match="40401"):
        unchecked.serialize("other", {})
    latest = JsonSchemaSerializer(
        registry, use_latest_version=True, subject_name_strategy=lambda topic, field, name: "Visit", validate=False
    )
    malformed = latest.serialize("t", {})
    with pytest.raises(ValueError, match="required property"):
        read.deserialize("t", malformed)
    with pytest.raises(ConfigurationError, match="invalid JSON Schema"):
        JsonSchemaSerializer(registry, "{")


def test_validators_and_subjects_are_cached_up_to_a_limit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "MAX_SCHEMAS", 2)
    monkeypatch.setattr(schema_serde, "MAX_SUBJECTS", 2)
    registry = SchemaRegistryClient(url)
    texts = [json.dumps({"title": f"Limited{n}", "type": "integer"}) for n in range(3)]
    created: list[str] = []
    create = json_schema.Validators._validator

    def count(validators: json_schema.Validators, schema: Schema) -> Any:
        created.append(json.loads(schema.text)["title"])
        return create(validators, schema)

    monkeypatch.setattr(json_schema.Validators, "_validator", count)
    deserializer = JsonSchemaDeserializer(registry)
    writers = [JsonSchemaSerializer(registry, text, validate=False) for text in texts]
    values = [writer.serialize(f"t{n}", n) for n, writer in enumerate(writers)]
    for n in (0, 1, 0, 2, 0, 1):
        assert deserializer.deserialize(f"t{n}", values[n]) == n
    assert created == ["Limited0", "Limited1", "Limited2", "Limited1"]

    registered: list[str] = []

    def register(subject: str, schema: Schema, *, normalize: bool) -> int:
        registered.append(subject)
        return 1

    monkeypatch.setattr(registry, "register", register)
    serializer = JsonSchemaSerializer(registry, texts[0])
    for topic in ("a", "b", "a", "c", "a", "b"):
        serializer.serialize(topic, 1)
    assert registered == ["a-value", "b-value", "c-value", "b-value"]


def test_schema_references_are_resolved(url: str) -> None:
    registry = SchemaRegistryClient(url)
    registry.register("page", Schema('{"type": "string"}', "JSON"))
    text = '{"type": "object", "properties": {"page": {"$ref": "page.json"}}}'
    schema = Schema(text, "JSON", (SchemaReference("page.json", "page", 1),))
    serializer = JsonSchemaSerializer(registry, schema)
    data = serializer.serialize("refs", {"page": "/"})
    assert JsonSchemaDeserializer(SchemaRegistryClient(url)).deserialize("refs", data) == {"page": "/"}
    with pytest.raises(ValueError, match="/page"):
        serializer.serialize("refs", {"page": 3})
