"""The types of schemas that the registry accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ottla_registry.schemas.avro import AvroSchema
from ottla_registry.schemas.json_schema import JsonSchema
from ottla_registry.schemas.parsed import ParsedSchema, ReferencedSchema
from ottla_registry.schemas.protobuf import ProtobufSchema

TYPES: Final[Mapping[str, Callable[[str, Sequence[ReferencedSchema]], ParsedSchema]]] = {
    "AVRO": AvroSchema,
    "JSON": JsonSchema,
    "PROTOBUF": ProtobufSchema,
}
"""Parsers by schema type. They raise ValueError for an invalid schema."""
