"""JSON with a schema of the registry, validated by the package jsonschema, as in Confluent's Python client."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from ottla.errors import ConfigurationError
from ottla.serdes.framing import HEADER_BYTES, header, required_schema_id
from ottla.serdes.registry_client import Schema, SchemaRegistryClient
from ottla.serdes.schema_serde import SchemaIds, SchemaSerializer, SubjectNames, SubjectNameStrategy

MAX_SCHEMAS: Final = 1_000


class JsonSchemaSerializer(SchemaSerializer):
    """Serializes values, mostly dictionaries, as JSON, and validates them.

    - `registry`: the client of the schema registry.
    - `schema`: the JSON Schema, or a Schema, which may have references. Only use_latest_version=True works without one.
    - `to_dict`: converts each value except None into what the schema describes: `(value, topic) -> dict`.
    - `validate`: whether values are validated.
    - `auto_register_schemas` and the following arguments: see AvroSerializer. The name of the record type is the title
      of the schema.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | Schema | None = None,
        *,
        to_dict: Callable[[Any, str], Any] | None = None,
        validate: bool = True,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: str | SubjectNameStrategy = "TopicNameStrategy",
    ) -> None:
        self._schema = Schema(schema, "JSON") if isinstance(schema, str) else schema
        self._to_dict = to_dict
        ids = SchemaIds(
            registry,
            auto_register_schemas=auto_register_schemas,
            use_latest_version=use_latest_version,
            normalize_schemas=normalize_schemas,
        )
        super().__init__(ids, SubjectNames(subject_name_strategy))
        self._validators = Validators(registry) if validate else None
        self._title = "" if self._schema is None else _title(self._schema)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a value; None for None.

        Raises ValueError if it does not match the schema (if values are validated), or if a subject or schema is
        missing, TypeError if JSON cannot represent it, and SchemaRegistryError if a request to the registry fails.
        """
        if value is None:
            return None
        schema_id, schema = self._ids.writing(self._names.subject(topic, self._title), self._schema)
        content = value if self._to_dict is None else self._to_dict(value, topic)
        if self._validators is not None:
            self._validators.validate(schema, content)
        return header(schema_id) + json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


class JsonSchemaDeserializer:
    """Deserializes JSON, and validates it against the schema that it was written with.

    - `registry`: the client of the schema registry.
    - `from_dict`: converts each value: `(value, topic) -> object`. It is not called for null values (tombstones).
    - `validate`: whether values are validated.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        *,
        from_dict: Callable[[Any, str], Any] | None = None,
        validate: bool = True,
    ) -> None:
        self._registry = registry
        self._from_dict = from_dict
        self._validators = Validators(registry) if validate else None

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the value of serialized bytes; None for None.

        Raises ValueError if they are malformed or, if values are validated, do not match the schema, and
        SchemaRegistryError if a request to the registry fails.
        """
        if data is None:
            return None
        schema_id = required_schema_id(data)
        value = json.loads(bytes(data[HEADER_BYTES:]))
        if self._validators is not None:
            self._validators.validate(self._registry.schema(schema_id), value)
        return value if self._from_dict is None else self._from_dict(value, topic)


class Validators:
    """Validates values, with a validator for each schema. Those of the MAX_SCHEMAS last used schemas are cached."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry
        self._cached_validator = lru_cache(MAX_SCHEMAS)(self._validator)

    def validate(self, schema: Schema, value: Any) -> None:
        """Raise ValueError if a value does not match a schema, or SchemaRegistryError if the schema's references cannot
        be fetched.
        """
        for error in self._cached_validator(schema).iter_errors(value):
            path = "/".join(map(str, error.absolute_path))
            raise ValueError(f"the value does not match the schema at /{path}: {error.message:.500}")

    def _validator(self, schema: Schema) -> Any:
        from jsonschema.validators import validator_for
        from referencing import Registry, Resource
        from referencing.jsonschema import DRAFT7

        resources = [
            (name, Resource.from_contents(json.loads(reference.text), default_specification=DRAFT7))
            for name, reference in self._registry.references(schema).items()
        ]
        document = json.loads(schema.text)
        registry: Registry[Any] = Registry().with_resources(resources)
        return validator_for(document)(document, registry=registry)


def _title(schema: Schema) -> str:
    try:
        document = json.loads(schema.text)
    except ValueError as error:
        raise ConfigurationError(f"invalid JSON Schema: {error}") from None
    return str(document.get("title") or "") if isinstance(document, dict) else ""
