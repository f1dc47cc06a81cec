"""Protobuf serializers; the registry's part is in tests/interop/clients/test_schema_registry.py."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2

from ottla.errors import ConfigurationError
from ottla.serdes import ProtobufDeserializer, ProtobufSerializer, Schema, SchemaRegistryClient
from ottla.serdes.framing import message_indexes, message_path


class MemoryRegistry(SchemaRegistryClient):
    """Gives the first schema the id 1."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")
        self.schemas: dict[str, Schema] = {}

    def register(self, subject: str, schema: Schema, *, normalize: bool = False) -> int:
        self.schemas[subject] = schema
        return len(self.schemas)


def test_message_is_preceded_by_its_message_indexes() -> None:
    registry = MemoryRegistry()
    message = timestamp_pb2.Timestamp(seconds=3)
    data = ProtobufSerializer(registry, timestamp_pb2.Timestamp).serialize("t", message)
    assert data == b"\0\0\0\0\x01\0\x08\x03"
    assert registry.schemas["t-value"].schema_type == "PROTOBUF"
    assert ProtobufDeserializer(timestamp_pb2.Timestamp).deserialize("t", data) == message
    second = ProtobufSerializer(registry, struct_pb2.Value, subject_name_strategy="RecordNameStrategy")
    data = second.serialize("t", struct_pb2.Value(bool_value=True))
    assert data == b"\0\0\0\0\x02\x02\x02\x20\x01"
    assert list(registry.schemas) == ["t-value", "google.protobuf.Value"]
    nested = descriptor_pb2.DescriptorProto.ExtensionRange
    data = ProtobufSerializer(registry, nested).serialize("n", nested())
    assert data is not None
    path, size = message_path(memoryview(data)[5:])
    assert len(path) == 2
    assert size == len(data) - 5
    assert second.serialize("t", None) is None
    assert ProtobufDeserializer(struct_pb2.Value).deserialize("t", None) is None


@pytest.mark.parametrize("path", [[0], [1], [0, 0], [3, 70, 9000]])
def test_message_indexes_round_trip(path: list[int]) -> None:
    data = message_indexes(path)
    assert message_path(memoryview(data + b"rest")) == (path, len(data))


@pytest.mark.parametrize("data", [b"", b"\0\0\0\0\1", b"\0\0\0\0\1\x02", b"\0\0\0\0\1\0\x08", b"\0\0\0\0\1\1"])
def test_malformed_bytes_and_wrong_values_are_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        ProtobufDeserializer(timestamp_pb2.Timestamp).deserialize("t", data)
    with pytest.raises(TypeError, match="expected a Timestamp"):
        ProtobufSerializer(MemoryRegistry(), timestamp_pb2.Timestamp).serialize("t", {"seconds": 3})
    not_a_class: Any = dict
    with pytest.raises(ConfigurationError, match="not a class of Protobuf messages"):
        ProtobufSerializer(MemoryRegistry(), not_a_class)
