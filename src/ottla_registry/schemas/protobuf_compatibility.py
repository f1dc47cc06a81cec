"""Whether messages of a writer's Protobuf file can be read with a reader's file: numbers, types and labels of fields.

The names of differences, and which of them are compatible, are those of Confluent's `SchemaDiff`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla_registry.schemas.protobuf_text import REPEATED, REQUIRED, SCALARS

WIRE_GROUPS: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
"""Types of which each can be read as another one of its group."""
MESSAGE, ENUM, GROUP = 11, 14, 10


def differences(writer: Any, reader: Any) -> list[str]:
    """Return the incompatible differences between two FileDescriptorProtos; empty if there are none."""
    if writer.package != reader.package:
        return [_error("PACKAGE_CHANGED", "#/")]
    errors: list[str] = []
    new = dict(_messages(reader.message_type, "#"))
    for path, message in _messages(writer.message_type, "#"):
        if path not in new:
            errors.append(_error("MESSAGE_REMOVED", path))
        else:
            errors += _fields(message, new[path], path)
    return errors


def _messages(messages: Any, path: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        at = f"{path}/{message.name}"
        yield at, message
        yield from _messages(message.nested_type, at)


def _fields(writer: Any, reader: Any, path: str) -> Iterator[str]:
    old = {field.number: field for field in writer.field}
    new = {field.number: field for field in reader.field}
    for number in sorted({*old, *new}):
        at = f"{path}/{number}"
        if number not in new:
            if old[number].label == REQUIRED:
                yield _error("REQUIRED_FIELD_REMOVED", at)
            elif _oneof(writer, old[number]):
                yield _error("ONEOF_FIELD_REMOVED", at)
        elif number not in old:
            if new[number].label == REQUIRED:
                yield _error("REQUIRED_FIELD_ADDED", at)
        else:
            yield from _field(old[number], new[number], at)
    yield from _moved_to_oneofs(writer, reader, path)


def _field(writer: Any, reader: Any, path: str) -> Iterator[str]:
    old, new = _kind(writer), _kind(reader)
    if old != new and not any({old, new} <= group for group in WIRE_GROUPS):
        yield _error("FIELD_SCALAR_KIND_CHANGED" if {old, new}.isdisjoint({"message"}) else "FIELD_KIND_CHANGED", path)
    elif old == new == "message" and writer.type_name != reader.type_name:
        yield _error("FIELD_NAMED_TYPE_CHANGED", path)
    if (writer.label == REQUIRED) != (reader.label == REQUIRED):
        yield _error("REQUIRED_FIELD_ADDED" if reader.label == REQUIRED else "REQUIRED_FIELD_REMOVED", path)
    elif (writer.label == REPEATED) != (reader.label == REPEATED) and old not in ("string", "bytes", "message"):
        yield _error("FIELD_NUMERIC_LABEL_CHANGED", path)


def _moved_to_oneofs(writer: Any, reader: Any, path: str) -> Iterator[str]:
    """Moving one field into a new oneof is compatible; moving several, or one into an existing oneof, is not."""
    old = {field.number: _oneof(writer, field) for field in writer.field}
    existing = set(old.values())
    moved: dict[str, int] = {}
    for field in reader.field:
        oneof = _oneof(reader, field)
        if oneof and field.number in old and not old[field.number]:
            moved[oneof] = moved.get(oneof, 0) + 1
    for oneof, count in moved.items():
        if oneof in existing:
            yield _error("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{oneof}")
        elif count > 1:
            yield _error("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{oneof}")


def _oneof(message: Any, field: Any) -> str:
    """Return the name of a field's oneof; empty if it has none."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)


def _kind(field: Any) -> str:
    if field.type in (MESSAGE, GROUP):
        return "message"
    return "enum" if field.type == ENUM else SCALARS[field.type]


def _error(kind: str, path: str) -> str:
    return f"{{errorType:'{kind}', path:'{path}'}}"
