"""Protobuf with a schema registry, as in Confluent's Python client: descriptors are registered in base64."""

from __future__ import annotations

import base64
from typing import Any

from ottla.errors import ConfigurationError
from ottla.serdes.framing import HEADER_BYTES, header, message_indexes, message_path, required_schema_id
from ottla.serdes.registry_client import Schema, SchemaReference, SchemaRegistryClient
from ottla.serdes.schema_serde import SchemaIds, SchemaSerializer, SubjectNames, SubjectNameStrategy


class ProtobufSerializer(SchemaSerializer):
    """Serializes messages of a generated class.

    - `registry`: the client of the schema registry.
    - `message_class`: the class of the messages.
    - `auto_register_schemas` and the following arguments: see AvroSerializer. Imported files other than Google's
      (google/protobuf/) are registered or looked up, too, with their names as subjects, unless the latest version is
      used.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        message_class: Any,
        *,
        auto_register_schemas: bool | None = None,
        use_latest_version: bool = False,
        normalize_schemas: bool = False,
        subject_name_strategy: str | SubjectNameStrategy = "TopicNameStrategy",
    ) -> None:
        if not hasattr(message_class, "DESCRIPTOR"):
            raise ConfigurationError(f"{message_class!r} is not a class of Protobuf messages")
        self._class = message_class
        self._indexes = message_indexes(_path(message_class.DESCRIPTOR))
        ids = SchemaIds(
            registry,
            auto_register_schemas=auto_register_schemas,
            use_latest_version=use_latest_version,
            normalize_schemas=normalize_schemas,
        )
        super().__init__(ids, SubjectNames(subject_name_strategy))
        self._schema: Schema | None = None

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a message; None for None. Raises TypeError if the value is not an instance of the message
        class, ValueError if the subject is empty, and SchemaRegistryError if a request to the registry fails.
        """
        if value is None:
            return None
        if not isinstance(value, self._class):
            raise TypeError(f"expected a {self._class.__name__}, not {type(value).__name__}")
        if self._schema is None and not self._ids.is_latest:
            self._schema = self._described(self._class.DESCRIPTOR.file)
        subject = self._names.subject(topic, self._class.DESCRIPTOR.full_name)
        schema_id, _ = self._ids.writing(subject, self._schema)
        content: bytes = value.SerializeToString()
        return header(schema_id) + self._indexes + content

    def _described(self, file: Any) -> Schema:
        """Return the schema of a file, with references to the files that it imports, except Google's
        (google/protobuf/). If the serializer registers schemas, register those of the imported files first.
        """
        references: list[SchemaReference] = []
        for dependency in file.dependencies:
            if dependency.name.startswith("google/protobuf/"):
                continue
            schema = self._described(dependency)
            registry, normalize = self._ids.registry, self._ids.normalize
            if self._ids.registers:
                registry.register(dependency.name, schema, normalize=normalize)
            version = registry.lookup(dependency.name, schema, normalize=normalize).version
            references.append(SchemaReference(dependency.name, dependency.name, version))
        return Schema(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", tuple(references))


class ProtobufDeserializer:
    """Deserializes messages of a generated class. It needs no registry, because the class already defines the message
    type.

    - `message_class`: the class of the messages.
    """

    def __init__(self, message_class: Any) -> None:
        self._class = message_class

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the message that the bytes contain; None for None. Raises ValueError if the bytes are malformed."""
        if data is None:
            return None
        from google.protobuf.message import DecodeError

        required_schema_id(data)
        content = memoryview(data)[HEADER_BYTES:]
        try:
            _, size = message_path(content)
            return self._class.FromString(bytes(content[size:]))
        except (IndexError, DecodeError) as error:
            raise ValueError(f"malformed {self._class.__name__}: {error}") from None


def _path(descriptor: Any) -> list[int]:
    """Return the indexes that identify a message type in its file: one per level of nesting, the outermost first."""
    parent = descriptor.containing_type
    if parent is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    return [*_path(parent), list(parent.nested_types).index(descriptor)]
