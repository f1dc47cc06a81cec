"""Writes the .proto file of a descriptor, because Python clients register descriptors and Java clients read text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

SCALARS: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""The names of scalar types by FieldDescriptorProto.Type."""
REQUIRED, REPEATED = 2, 3
MAX_NUMBER: Final = 536_870_912


def proto_text(file: Any) -> str:
    """Return a .proto file for a FileDescriptorProto. Unsupported parts are lost or changed; for example, groups
    become messages. Custom options are written if the class of `file` is from a pool with their extensions.
    """
    lines = [f'syntax = "{file.syntax or "proto2"}";']
    if file.package:
        lines.append(f"package {file.package};")
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    lines.append("")
    for index, name in enumerate(file.dependency):
        lines.append(f'import {"public " if index in public else "weak " if index in weak else ""}"{name}";')
    lines += _statements(file)
    for enum in file.enum_type:
        lines += _enum(enum)
    is_proto3 = file.syntax == "proto3"
    for message in file.message_type:
        lines += _message(message, is_proto3)
    for service in file.service:
        lines += _service(service)
    lines += _extensions(file.extension, is_proto3)
    return "\n".join(lines) + "\n"


def _message(message: Any, is_proto3: bool) -> list[str]:
    entries = {nested.name: i for i, nested in enumerate(message.nested_type) if nested.options.map_entry}
    maps = {name: message.nested_type[i] for name, i in entries.items()}
    body: list[str] = _statements(message)
    for enum in message.enum_type:
        body += _enum(enum)
    oneofs: set[int] = set()
    written = 0
    for field in message.field:
        # the number of a nested type, which clients write, counts the entries of maps: they are where their fields are
        entry = entries.get(field.type_name.rpartition(".")[2], -1) if field.label == REPEATED else -1
        for nested in message.nested_type[written:entry] if entry >= written else ():
            body += _message(nested, is_proto3)
        written = max(written, entry + 1)
        if not field.HasField("oneof_index") or field.proto3_optional:
            body.append(_field(field, maps, is_proto3))
        elif field.oneof_index not in oneofs:
            oneofs.add(field.oneof_index)
            oneof = message.oneof_decl[field.oneof_index]
            members = [
                _field(member, maps, is_proto3, in_oneof=True)
                for member in message.field
                if member.HasField("oneof_index") and member.oneof_index == field.oneof_index
            ]
            body += _block(f"oneof {oneof.name}", [*_statements(oneof), *members])
    for nested in message.nested_type[written:]:
        body += _message(nested, is_proto3)
    body += _extensions(message.extension, is_proto3)
    body += _ranges("reserved", [(r.start, r.end) for r in message.reserved_range])
    body += _ranges("extensions", [(r.start, r.end) for r in message.extension_range])
    body += _reserved_names(message.reserved_name)
    return _block(f"message {message.name}", body)


def _extensions(fields: Iterable[Any], is_proto3: bool) -> Iterator[str]:
    for field in fields:
        yield from _block(f"extend {field.extendee}", [_field(field, {}, is_proto3)])


def _field(field: Any, maps: dict[str, Any], is_proto3: bool, *, in_oneof: bool = False) -> str:
    kind = SCALARS.get(field.type) or field.type_name
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    label = ""
    if entry is not None and field.label == REPEATED:
        key, value = (SCALARS.get(part.type) or part.type_name for part in entry.field)
        kind = f"map<{key}, {value}>"
    elif field.label == REPEATED:
        label = "repeated "
    elif field.label == REQUIRED:
        label = "required "
    elif not in_oneof and (field.proto3_optional or not is_proto3):
        label = "optional "
    options = _options(field)
    if field.HasField("default_value"):
        options.append(f"default = {_default(field)}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f'json_name = "{field.json_name}"')
    return f"{label}{kind} {field.name} = {field.number}{_bracketed(options)};"


def _enum(enum: Any) -> list[str]:
    body = _statements(enum)
    for constant in enum.value:
        body.append(f"{constant.name} = {constant.number}{_bracketed(_options(constant))};")
    body += _ranges("reserved", [(r.start, r.end + 1) for r in enum.reserved_range])
    body += _reserved_names(enum.reserved_name)
    return _block(f"enum {enum.name}", body)


def _service(service: Any) -> list[str]:
    body = _statements(service)
    for method in service.method:
        request = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        response = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        call = f"rpc {method.name} ({request}) returns ({response})"
        options = _statements(method)
        body += _block(call, options) if options else [f"{call};"]
    return _block(f"service {service.name}", body)


def _block(head: str, body: Iterable[str]) -> list[str]:
    return [f"{head} {{", *(f"  {line}" for line in body), "}"]


def _ranges(keyword: str, ranges: list[tuple[int, int]]) -> Iterator[str]:
    """Yield a statement for each range. In `ranges`, ends are exclusive."""
    for start, end in ranges:
        last = "max" if end >= MAX_NUMBER else str(end - 1)
        yield f"{keyword} {start};" if end == start + 1 else f"{keyword} {start} to {last};"


def _reserved_names(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield f'reserved "{name}";'


def _options(descriptor: Any) -> list[str]:
    """Return the options, except `map_entry`, as `name = value`."""
    options = []
    for option, value in descriptor.options.ListFields():
        if option.name == "map_entry":
            continue
        name = f"({option.full_name})" if option.is_extension else option.name
        values = value if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else [value]
        options += [f"{name} = {_constant(option, part)}" for part in values]
    return options


def _statements(descriptor: Any) -> list[str]:
    return [f"option {option};" for option in _options(descriptor)]


def _bracketed(options: list[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _constant(option: Any, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if option.enum_type is not None:
        return str(option.enum_type.values_by_number[value].name)
    if option.message_type is not None:
        from google.protobuf import text_format

        return f"{{ {text_format.MessageToString(value, as_one_line=True)} }}"
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    return f'"{_escaped(value)}"' if isinstance(value, str) else str(value)


def _default(field: Any) -> str:
    is_text = SCALARS.get(field.type) in ("string", "bytes")
    return f'"{_escaped(field.default_value)}"' if is_text else str(field.default_value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)
