"""Compatibility of Protobuf files: checks whether messages of a writer's file can be read with a reader's file.

The names of the differences, and the choice of those that are incompatible, follow Confluent's `SchemaDiff`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla_registry.schemas.protobuf_text import REPEATED, REQUIRED, SCALARS

WIRE_GROUPS: Final = (
    {"int32", "uint32", "int64", "uint64", "bool", "enum"},
    {"sint32", "sint64"},
    {"string", "bytes"},
    {"fixed32", "sfixed32"},
    {"fixed64", "sfixed64"},
)
"""Groups of types that can be read as each other."""
MESSAGE, ENUM, GROUP = 11, 14, 10


def differences(writer: Sequence[Any], reader: Sequence[Any]) -> list[str]:
    """Return the incompatible differences between two FileDescriptorProtos; empty if there are none. `writer` and
    `reader` are lists of descriptors: imported files, and as the last item the file itself.
    """
    return _Comparison(writer, reader).differences()


class _Comparison:
    def __init__(self, writer: Sequence[Any], reader: Sequence[Any]) -> None:
        self._writer, self._reader = writer[-1], reader[-1]
        self._old_messages = _messages_by_type(writer)
        self._new_messages = _messages_by_type(reader)
        self._compared: dict[tuple[str, str], list[str]] = {}

    def differences(self) -> list[str]:
        if self._writer.package != self._reader.package:
            return [_error("PACKAGE_CHANGED", "#/")]
        errors: list[str] = []
        new = dict(_messages(self._reader.message_type, "#"))
        for path, message in _messages(self._writer.message_type, "#"):
            if path not in new:
                errors.append(_error("MESSAGE_REMOVED", path))
            else:
                errors += self._fields(message, new[path], path)
        return errors

    def _fields(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        old = {field.number: field for field in writer.field}
        new = {field.number: field for field in reader.field}
        deleted = _deleted_oneofs(writer, reader)
        for number in sorted({*old, *new}):
            at = f"{path}/{number}"
            if number not in new:
                oneof = _oneof(writer, old[number])
                if old[number].label == REQUIRED:
                    yield _error("REQUIRED_FIELD_REMOVED", at)
                elif oneof and oneof not in deleted:
                    yield _error("ONEOF_FIELD_REMOVED", at)
            elif number not in old:
                if new[number].label == REQUIRED:
                    yield _error("REQUIRED_FIELD_ADDED", at)
            else:
                yield from self._field(old[number], new[number], at)
        yield from _moved_to_oneofs(writer, reader, path)

    def _field(self, writer: Any, reader: Any, path: str) -> Iterator[str]:
        old, new = _kind(writer), _kind(reader)
        if old != new and not any({old, new} <= group for group in WIRE_GROUPS):
            is_scalar = {old, new}.isdisjoint({"message"})
            yield _error("FIELD_SCALAR_KIND_CHANGED" if is_scalar else "FIELD_KIND_CHANGED", path)
        elif old == new == "message":
            yield from self._named_type(writer.type_name, reader.type_name, path)
        if (writer.label == REQUIRED) != (reader.label == REQUIRED):
            yield _error("REQUIRED_FIELD_ADDED" if reader.label == REQUIRED else "REQUIRED_FIELD_REMOVED", path)
        elif (writer.label == REPEATED) != (reader.label == REPEATED) and old not in ("string", "bytes", "message"):
            yield _error("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _named_type(self, old: str, new: str, path: str) -> list[str]:
        """Compare the message types of a field: their names without packages and, if one of them is imported, their
        fields. The fields of messages in the file itself are compared by `differences`.
        """
        old_name, old_message, is_old_imported = self._old_messages[old]
        new_name, new_message, is_new_imported = self._new_messages[new]
        if old_name != new_name:
            return [_changed(path)]
        if not (is_old_imported or is_new_imported):
            return []
        if (old, new) not in self._compared:
            self._compared[old, new] = []  # a recursive message is compatible as far as it has been compared
            self._compared[old, new] = list(self._fields(old_message, new_message, f"#/{old_name}"))
        errors = self._compared[old, new]
        return [*errors, _changed(path)] if errors else []


def _messages_by_type(files: Sequence[Any]) -> dict[str, tuple[str, Any, bool]]:
    """Return, by the full name of each message type, its path in its file, the message, and whether it is imported."""
    messages: dict[str, tuple[str, Any, bool]] = {}
    for file in files:
        prefix = f".{file.package}." if file.package else "."
        for path, message in _messages(file.message_type, ""):
            messages[prefix + path[1:].replace("/", ".")] = path[1:], message, file is not files[-1]
    return messages


def _changed(path: str) -> str:
    return _error("FIELD_NAMED_TYPE_CHANGED", path)


def _messages(messages: Any, path: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        at = f"{path}/{message.name}"
        yield at, message
        yield from _messages(message.nested_type, at)


def _deleted_oneofs(writer: Any, reader: Any) -> set[str]:
    """Return the names of the oneofs that were deleted together with all their fields."""
    names = {oneof.name for oneof in writer.oneof_decl} - {oneof.name for oneof in reader.oneof_decl}
    numbers = {field.number for field in reader.field}
    return names - {_oneof(writer, field) for field in writer.field if field.number in numbers}


def _moved_to_oneofs(writer: Any, reader: Any, path: str) -> Iterator[str]:
    """Yield an error for each oneof whose fields could be set together before."""
    old = {field.number: _oneof(writer, field) for field in writer.field}
    origins: dict[str, set[str | int]] = {}
    for field in reader.field:
        oneof = _oneof(reader, field)
        if oneof and field.number in old:
            origins.setdefault(oneof, set()).add(old[field.number] or field.number)
    for oneof, groups in origins.items():
        if len(groups) > 1:
            was_exclusive = any(isinstance(group, str) for group in groups)
            kind = "FIELD_MOVED_TO_EXISTING_ONEOF" if was_exclusive else "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
            yield _error(kind, f"{path}/{oneof}")


def _oneof(message: Any, field: Any) -> str:
    """Return the name of a field's oneof; empty if it has none, or has one only because it is optional in proto3."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return ""
    return str(message.oneof_decl[field.oneof_index].name)


def _kind(field: Any) -> str:
    if field.type in (MESSAGE, GROUP):
        return "message"
    return "enum" if field.type == ENUM else SCALARS[field.type]


def _error(kind: str, path: str) -> str:
    return f"{{errorType:'{kind}', path:'{path}'}}"
