"""Protobuf schemas: text, descriptors and compatibility."""

from __future__ import annotations

import base64
from typing import Any

import pytest

pytest.importorskip("google.protobuf")
pytest.importorskip("grpc_tools")

from google.protobuf import descriptor_pb2

from ottla_registry.schemas.parsed import ReferencedSchema
from ottla_registry.schemas.protobuf import ProtobufSchema
from ottla_registry.schemas.protobuf_compatibility import differences
from ottla_registry.schemas.protobuf_text import proto_text

EVERYTHING = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "city.proto";
option java_package = "org.example";
// A visit.
message Visit {
  enum Kind { UNKNOWN = 0; BOT = 1 [deprecated = true]; reserved 5 to 7; reserved "OLD"; }
  message Page { string path = 1; }
  Page page = 1;
  repeated int64 times = 2 [packed = false];
  map<string, Page> pages = 3;
  optional Kind kind = 4;
  oneof user { string name = 5; uint32 id = 6; }
  City city = 7;
  google.protobuf.Timestamp at = 8 [json_name = "when"];
  reserved 10, 12 to 14;
  reserved "gone";
}
service Visits { rpc Get (Visit) returns (stream Visit); }
"""
CITY = ReferencedSchema("city.proto", 'syntax = "proto3"; package shop; message City { string name = 1; }')


def file(*fields: tuple[Any, ...], package: str = "p", oneofs: tuple[str, ...] = ()) -> Any:
    """Return a descriptor of a message M; a field is (number, type, label, oneof)."""
    descriptor = descriptor_pb2.FileDescriptorProto(package=package, syntax="proto3")
    message = descriptor.message_type.add(name="M")
    for oneof in oneofs:
        message.oneof_decl.add(name=oneof)
    for number, kind, label, *members in fields:
        field = message.field.add(name=f"f{number}", number=number, type=kind, label=label)
        if kind == MESSAGE:
            field.type_name = ".p.M"
        if members:
            field.oneof_index = members[0]
    return descriptor


INT32, INT64, SINT, TEXT, BYTES, MESSAGE, DOUBLE = 5, 3, 17, 9, 12, 11, 1
ONE, REQUIRED, MANY = 1, 2, 3
PAIRS = [
    # reader, writer, the error or None
    (file((1, INT32, ONE), (2, TEXT, ONE)), file((1, INT32, ONE)), None),
    (file((1, INT32, ONE)), file((1, INT32, ONE), (2, TEXT, ONE)), None),
    (file((1, INT64, ONE)), file((1, INT32, ONE)), None),
    (file((1, TEXT, ONE)), file((1, BYTES, ONE)), None),
    (file((1, SINT, ONE)), file((1, INT32, ONE)), "FIELD_SCALAR_KIND_CHANGED"),
    (file((1, DOUBLE, ONE)), file((1, INT32, ONE)), "FIELD_SCALAR_KIND_CHANGED"),
    (file((1, MESSAGE, ONE)), file((1, INT32, ONE)), "FIELD_KIND_CHANGED"),
    (file((1, MESSAGE, ONE)), file((1, MESSAGE, MANY)), None),
    (file((1, INT32, MANY)), file((1, INT32, ONE)), "FIELD_NUMERIC_LABEL_CHANGED"),
    (file((1, TEXT, MANY)), file((1, TEXT, ONE)), None),
    (file((1, INT32, REQUIRED)), file(), "REQUIRED_FIELD_ADDED"),
    (file(), file((1, INT32, REQUIRED)), "REQUIRED_FIELD_REMOVED"),
    (file(package="q"), file(), "PACKAGE_CHANGED"),
    (descriptor_pb2.FileDescriptorProto(package="p"), file(), "MESSAGE_REMOVED"),
    (file(), descriptor_pb2.FileDescriptorProto(package="p"), None),
    (file((1, TEXT, ONE, 0), oneofs=("o",)), file((1, TEXT, ONE)), None),
    (
        file((1, TEXT, ONE, 0), (2, TEXT, ONE, 0), oneofs=("o",)),
        file((1, TEXT, ONE), (2, TEXT, ONE)),
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    (
        file((1, TEXT, ONE, 0), (2, TEXT, ONE, 0), oneofs=("o",)),
        file((1, TEXT, ONE), (2, TEXT, ONE, 0), oneofs=("o",)),
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (file(oneofs=("o",)), file((1, TEXT, ONE, 0), oneofs=("o",)), "ONEOF_FIELD_REMOVED"),
    (file(), file((1, TEXT, ONE, 0), oneofs=("o",)), None),
    (
        file((1, TEXT, ONE, 0), (2, TEXT, ONE, 0), oneofs=("p",)),
        file((1, TEXT, ONE, 0), (2, TEXT, ONE, 1), oneofs=("o", "p")),
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (file((1, TEXT, ONE, 0), oneofs=("p",)), file((1, TEXT, ONE, 0), oneofs=("o",)), None),
]


@pytest.mark.parametrize(("reader", "writer", "error"), PAIRS)
def test_compatibility_follows_the_protobuf_wire_format(reader: Any, writer: Any, error: str | None) -> None:
    errors = differences([writer], [reader])
    assert (errors == []) if error is None else (errors and error in errors[0]), errors


def test_text_and_descriptor_round_trip() -> None:
    schema = ProtobufSchema(EVERYTHING, [CITY])
    assert schema.canonical == EVERYTHING
    again = ProtobufSchema(schema.serialized, [CITY])
    assert again.canonical == schema.normalized == proto_text(schema.file)
    assert again.cannot_read(schema) == []
    for part in (
        "map<string, .shop.Visit.Page> pages = 3;",
        "reserved 12 to 14;",
        "optional .shop.Visit.Kind kind = 4;",
    ):
        assert part in again.canonical


def test_imported_messages_are_compared_by_their_fields() -> None:
    def schema(city: str) -> ProtobufSchema:
        text = 'syntax = "proto3"; import "city.proto"; message M { %s.City city = 1; }'
        package = city.partition("package ")[2].partition(";")[0]
        return ProtobufSchema(text % package, [ReferencedSchema("city.proto", f'syntax = "proto3"; {city}')])

    old = schema("package shop; message City { string name = 1; City near = 2; }")
    assert schema("package town; message City { bytes name = 1; City near = 2; int32 id = 3; }").cannot_read(old) == []
    errors = schema("package shop; message City { int32 name = 1; City near = 2; }").cannot_read(old)
    assert ["SCALAR_KIND_CHANGED" in errors[0], "FIELD_NAMED_TYPE_CHANGED" in errors[-1]] == [True, True]
    own = ProtobufSchema('syntax = "proto3"; message M { City city = 1; } message City { int32 name = 1; }')
    assert "FIELD_SCALAR_KIND_CHANGED" in own.cannot_read(old)[0]


def test_invalid_schema_is_rejected() -> None:
    with pytest.raises(ValueError, match="Expected"):
        ProtobufSchema('syntax = "proto3"; message {')
    for name in ("../city.proto", "/tmp/city.proto", "grpc_tools/protoc.py"):
        with pytest.raises(ValueError, match="invalid name"):
            ProtobufSchema('syntax = "proto3";', [CITY._replace(name=name)])
    proto2 = descriptor_pb2.FileDescriptorProto(name="x.proto")
    message = proto2.message_type.add(name="M")
    message.nested_type.add(name="G")
    message.field.add(name="g", number=1, type=10, label=1, type_name=".M.G")
    with pytest.raises(ValueError, match="groups"):
        ProtobufSchema(base64.b64encode(proto2.SerializeToString()).decode())
    missing = descriptor_pb2.FileDescriptorProto(name="x.proto", dependency=["nowhere.proto"])
    with pytest.raises(ValueError, match=r"nowhere\.proto"):
        ProtobufSchema(base64.b64encode(missing.SerializeToString()).decode())


OPTIONS = ReferencedSchema(
    "options.proto",
    """syntax = "proto2";
    package o;
    import "google/protobuf/descriptor.proto";
    message Owner { optional string name = 1; repeated int32 teams = 2; extensions 100 to 200; }
    enum Level { LOW = 0; HIGH = 1; }
    extend google.protobuf.FileOptions { optional Owner owner = 50000; }
    extend google.protobuf.MessageOptions { repeated string topic = 50000; optional bytes salt = 50001; }
    extend google.protobuf.FieldOptions { optional Level level = 50000; optional double weight = 50001; }
    extend google.protobuf.MethodOptions { optional bool slow = 50000; }
    extend google.protobuf.OneofOptions { optional bool hidden = 50000; }
    """,
)
WITH_OPTIONS = """syntax = "proto3";
import "options.proto";
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";
option (o.owner) = { name: "a \\"b\\"" teams: 1 teams: 2 };
message M {
  option (o.topic) = "x";
  option (o.topic) = "y";
  option (o.salt) = "\\000\\377";
  option (confluent.message_meta) = { doc: "d" params: { key: "k" value: "v" } };
  map<string, int32> m = 1;
  message Inner { int32 i = 1 [(o.level) = HIGH, (o.weight) = -inf, deprecated = true]; }
  Inner inner = 2;
  oneof choice { option (o.hidden) = true; google.type.Date date = 3; confluent.type.Decimal price = 4; }
  map<string, Inner> n = 5;
}
service S { rpc Get (M) returns (M) { option (o.slow) = true; } }
"""


def test_schema_of_an_edition_is_normalized_to_its_canonical_text() -> None:
    schema = ProtobufSchema('edition = "2023"; message A { int32 a = 1; }')
    assert schema.normalized == schema.canonical


def test_custom_options_and_extensions_are_written_and_nested_types_keep_their_numbers() -> None:
    references = [OPTIONS]
    schema = ProtobufSchema(WITH_OPTIONS, references)
    again = ProtobufSchema(schema.serialized, references)
    assert [nested.name for nested in again.file.message_type[0].nested_type] == ["MEntry", "Inner", "NEntry"]
    assert again.file.SerializeToString() == schema.file.SerializeToString()
    for part in ('option (o.owner) = { name: "a \\"b\\"" teams: 1 teams: 2 };', "(o.weight) = -inf", '"\\000\\377"'):
        assert part in schema.normalized
    declared = ProtobufSchema(OPTIONS.schema)
    assert "extend .google.protobuf.FileOptions" in ProtobufSchema(declared.serialized).canonical
