"""Avro with a schema registry, by fastavro, as in Confluent's Python client."""

from __future__ import annotations

import io
import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ConfigurationError
from ottla.serdes.framing import HEADER_BYTES, header, required_schema_id
from ottla.serdes.registry_client import Schema, SchemaRegistryClient
from ottla.serdes.schema_serde import SchemaIds, SchemaSerializer, SubjectNames, SubjectNameStrategy

MAX_SCHEMAS: Final = 1_000


class AvroSerializer(SchemaSerializer):
    """Serializes values, mostly dictionaries, with an Avro schema.

    - `registry`: the client of the schema registry.
    - `schema`: the schema in JSON, or a Schema, which may have references. Only use_latest_version=True works without
      one.
    - `to_dict`: converts each value except None into what the schema describes: `(value, topic) -> dict`.
    - `auto_register_schemas`: whether the schema is registered at the first record of a subject
      (auto.register.schemas). None: it is, unless the latest version is used. False: it must be registered already,
      unless the latest version is used.
    - `use_latest_version`: write with the version of the subject that is the latest one at the first record
      (use.latest.version).
    - `normalize_schemas`: whether the registry normalizes the schema (normalize.schemas).
    - `subject_name_strategy`: TopicNameStrategy (`<topic>-value` or `<topic>-key`), RecordNameStrategy,
      TopicRecordNameStrategy, or a callable (topic, "key" or "value", name of the record type) -> subject.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | Schema | None = None,
        *,
        to_dict: Callable[[Any, str], Any] | None = None,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: str | SubjectNameStrategy = "TopicNameStrategy",
    ) -> None:
        self._schema = avro_schema(schema) if isinstance(schema, str) else schema
        self._to_dict = to_dict
        ids = SchemaIds(
            registry,
            auto_register_schemas=auto_register_schemas,
            use_latest_version=use_latest_version,
            normalize_schemas=normalize_schemas,
        )
        super().__init__(ids, SubjectNames(subject_name_strategy))
        self._parser = AvroParser(registry)
        self._record_name = "" if self._schema is None else _record_name(self._parser.parsed(self._schema))

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a value; None for None.

        Raises SchemaRegistryError if the registry does not provide the schema or its id, ValueError if a subject or
        schema is missing or the schema is invalid, and an error such as ValueError or TypeError if the value does not
        match the schema.
        """
        if value is None:
            return None
        from fastavro import schemaless_writer

        schema_id, schema = self._ids.writing(self._names.subject(topic, self._record_name), self._schema)
        parsed = self._parser.parsed(schema)
        content = value if self._to_dict is None else self._to_dict(value, topic)
        if _is_bytes(parsed):  # without its length, as Confluent's serializers write it
            if not isinstance(content, (bytes, bytearray, memoryview)):  # bytes(5) would be five zeros
                raise TypeError(f"a value of the schema bytes must be bytes-like, not {type(content).__name__}")
            return header(schema_id) + bytes(content)
        buffer = io.BytesIO(header(schema_id))
        buffer.seek(HEADER_BYTES)
        schemaless_writer(buffer, parsed, content)
        return buffer.getvalue()


class AvroDeserializer:
    """Deserializes values of any Avro schema of the registry.

    - `registry`: the client of the schema registry.
    - `schema`: the schema to read with. By default, and always for the schema `bytes`, values are read with the schema
      that they were written with.
    - `from_dict`: converts each value: `(value, topic) -> object`. It is not called for null values (tombstones).
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | Schema | None = None,
        *,
        from_dict: Callable[[Any, str], Any] | None = None,
    ) -> None:
        self._registry = registry
        self._parser = AvroParser(registry)
        self._from_dict = from_dict
        reader = avro_schema(schema) if isinstance(schema, str) else schema
        self._reader = None if reader is None else self._parser.parsed(reader)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the value of serialized bytes; None for None.

        Raises ValueError if they are malformed, SchemaRegistryError if a request to the registry fails, and fastavro's
        SchemaResolutionError if the schema to read with is not compatible with the one they were written with.
        """
        if data is None:
            return None
        from fastavro import schemaless_reader

        schema_id = required_schema_id(data)
        writer = self._parser.parsed(self._registry.schema(schema_id))
        if _is_bytes(writer):
            value: Any = bytes(data[HEADER_BYTES:])
        else:
            buffer = io.BytesIO(data)
            buffer.seek(HEADER_BYTES)
            try:
                value = schemaless_reader(buffer, writer, self._reader)
            except (EOFError, IndexError, ArithmeticError) as error:  # OverflowError for dates and times
                raise ValueError(f"the bytes are not a value of the schema {schema_id}: {error!r}") from error
        return value if self._from_dict is None else self._from_dict(value, topic)


class AvroParser:
    """Parses schemas with their references, and caches the results."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry
        self._parsed: OrderedDict[Schema, Any] = OrderedDict()

    def parsed(self, schema: Schema) -> Any:
        """Return fastavro's form of a schema. Raises ConfigurationError if it is invalid, and SchemaRegistryError if
        its references cannot be fetched.
        """
        if schema not in self._parsed:
            self._parsed[schema] = self._parse(schema)
            if len(self._parsed) > MAX_SCHEMAS:
                self._parsed.popitem(last=False)
        return self._parsed[schema]

    def _parse(self, schema: Schema) -> Any:
        from fastavro import parse_schema

        named: dict[str, Any] = {}
        texts = [reference.text for reference in self._registry.references(schema).values()]
        try:
            for text in texts:
                parse_schema(json.loads(text), named_schemas=named)
            return parse_schema(json.loads(schema.text), named_schemas=named)
        except Exception as error:  # fastavro raises KeyError and TypeError for malformed schemas, too
            raise ConfigurationError(f"invalid Avro schema: {error!r}") from error


def avro_schema(text: str) -> Schema:
    """Return a schema without references. The name of a primitive type becomes an object such as {"type": "string"}, as
    Confluent writes it.
    """
    text = text.strip()
    return Schema(text if text[:1] in ("{", "[") else json.dumps({"type": text.strip('"')}))


def _record_name(parsed: Any) -> str:
    return str(parsed.get("name") or parsed.get("type")) if isinstance(parsed, dict) else ""


def _is_bytes(parsed: Any) -> bool:
    return bool(parsed == "bytes" or (isinstance(parsed, dict) and parsed.get("type") == "bytes"))
