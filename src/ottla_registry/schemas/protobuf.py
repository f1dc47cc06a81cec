"""Protobuf schemas: .proto files, compiled by Google's protoc in a separate process, and descriptors in base64."""

from __future__ import annotations

import base64
import binascii
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from ottla_registry.schemas.parsed import ReferencedSchema
from ottla_registry.schemas.protobuf_compatibility import differences
from ottla_registry.schemas.protobuf_text import proto_text

MAIN: Final = "ottla_main_schema.proto"
COMPILE_SECONDS: Final = 30
MAX_COMPILED: Final = 512
MAX_NAME: Final = 200
META: Final = """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
DECIMAL: Final = """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
WELL_KNOWN: Final = {
    "confluent/meta.proto": META,
    "confluent/type/decimal.proto": DECIMAL,  # so in Java
    "confluent/types/decimal.proto": DECIMAL,  # so in Python
}


class ProtobufSchema:
    """A compiled Protobuf schema. Raises ValueError if the schema cannot be compiled, or is a descriptor that cannot be
    written as a .proto file.

    Args:
        text: a .proto file, or a FileDescriptorProto in base64.
        references: the files that it imports, directly or indirectly, by the names in the import statements.
    """

    def __init__(self, text: str, references: Sequence[ReferencedSchema] = ()) -> None:
        self._references = tuple(references)
        descriptor = _descriptor(text)
        if descriptor is None:
            self.canonical = text
            self.file: Any = _compiled(text, self._references)
            return
        written = self._written(descriptor, _imports(descriptor, self._references))
        if written is None:
            raise ValueError("the descriptor cannot be written as a .proto file: it has groups, or an edition")
        self.canonical = written
        self.file = _compiled(self.canonical, self._references)

    def _written(self, descriptor: Any, imported: Sequence[bytes]) -> str | None:
        """Return the .proto file of a descriptor; None if protoc compiles that file to another descriptor. Raises
        ValueError if the descriptor is malformed, or if protoc does not compile the file.
        """
        file_class = _class_with_extensions(descriptor, imported)
        file = file_class.FromString(descriptor.SerializeToString())
        try:
            text = proto_text(file)
        except (KeyError, ValueError) as error:
            raise ValueError(f"malformed descriptor: {error!r}") from None
        compiled = file_class.FromString(_compile(text, self._references)[-1])
        return text if _comparable(compiled) == _comparable(file) else None

    @cached_property
    def normalized(self) -> str:
        """The schema as a .proto file that is written from its descriptor: without comments, with enums first, and then
        messages, services and extensions. `canonical` if protoc does not compile that file to the same descriptor.
        """
        try:
            return self._written(self.file, _compile(self.canonical, self._references)[:-1]) or self.canonical
        except ValueError:  # protoc does not compile what `proto_text` writes for an edition
            return self.canonical

    @property
    def files(self) -> list[Any]:
        """The descriptors of the files that it imports, and then its own."""
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        return [FileDescriptorProto.FromString(data) for data in _compile(self.canonical, self._references)]

    @property
    def serialized(self) -> str:
        """The FileDescriptorProto in base64, for requests with `format=serialized`."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    def cannot_read(self, writer: ProtobufSchema) -> list[str]:
        """Return the reasons why messages of `writer` cannot be read with this schema; empty if they can."""
        return differences(writer.files, self.files)


def _descriptor(text: str) -> Any:
    """Return the FileDescriptorProto of a text in base64; None if the text is something else."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _comparable(file: Any) -> bytes:
    """Return the bytes of a descriptor without its name, source code info, JSON names and the syntax proto2, for
    comparison with the descriptor that protoc makes of its text.
    """
    copy = type(file)()
    copy.CopyFrom(file)
    for part in ("name", "source_code_info"):
        copy.ClearField(part)
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    fields, pending = list(copy.extension), list(copy.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        fields += (*message.field, *message.extension)
    for field in fields:
        field.ClearField("json_name")
    serialized: bytes = copy.SerializeToString(deterministic=True)
    return serialized


def _imports(descriptor: Any, references: tuple[ReferencedSchema, ...]) -> tuple[bytes, ...]:
    """Return the serialized descriptors of the files that a file imports, directly or indirectly. Raises ValueError if
    they cannot be compiled.
    """
    if not descriptor.dependency:
        return ()
    text = 'syntax = "proto3";\n' + "".join(f'import "{name}";\n' for name in descriptor.dependency)
    return _compile(text, references)[:-1]


def _class_with_extensions(descriptor: Any, imported: Sequence[bytes]) -> Any:
    """Return a class for FileDescriptorProto that knows the extensions of a file and of its imports, so that it parses
    custom options. Raises ValueError if the file is malformed.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    if not imported:
        return descriptor_pb2.FileDescriptorProto  # extensions of options need an import
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in imported:
            pool.AddSerializedFile(file)
        pool.AddSerializedFile(descriptor.SerializeToString())
        file_type = pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto")
    except KeyError:
        return descriptor_pb2.FileDescriptorProto  # no file imports descriptor.proto
    except TypeError as error:
        raise ValueError(f"malformed descriptor: {error}") from None
    return message_factory.GetMessageClass(file_type)


def _compiled(text: str, references: tuple[ReferencedSchema, ...]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    return FileDescriptorProto.FromString(_compile(text, references)[-1])


@lru_cache(MAX_COMPILED)
def _compile(text: str, references: tuple[ReferencedSchema, ...]) -> tuple[bytes, ...]:
    """Return the serialized descriptors of the files that a file imports, directly or indirectly, and last that of the
    file. Raises ValueError if protoc is not installed, fails, or takes more than COMPILE_SECONDS, or if a reference is
    invalid.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    spec = importlib.util.find_spec("grpc_tools")
    if spec is None or spec.origin is None:
        raise ValueError("Protobuf requires grpcio-tools; run `pip install 'ottla[registry]'`")
    with TemporaryDirectory(prefix="ottla-protoc-") as directory:
        root, well_known, output = (Path(directory) / name for name in ("schemas", "well_known", "output"))
        for name, content in (*references, (MAIN, text)):
            _write(root, name, content)
        _write_well_known(well_known)
        includes = [f"-I{root}", f"-I{well_known}", f"-I{Path(spec.origin).parent / '_proto'}"]
        # -P: no module of the working directory is imported
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", *includes]
        command += ["--include_imports", f"--descriptor_set_out={output}", MAIN]
        try:
            result = subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc takes more than {COMPILE_SECONDS} s") from None
        if result.returncode != 0:
            errors = result.stderr.decode("utf-8", "replace").replace(f"{root}/", "").replace(f"{MAIN}:", "")
            raise ValueError(errors.strip()[:1_000] or "protoc failed")
        files = FileDescriptorSet.FromString(output.read_bytes()).file
    return tuple(file.SerializeToString(deterministic=True) for file in files)


def _write_well_known(root: Path) -> None:
    """Write the files that clients of Confluent's registry may import without registering them, other than
    google/protobuf.
    """
    for name, content in WELL_KNOWN.items():
        _write(root, name, content)
    types = importlib.util.find_spec("google.type")
    for directory in (types and types.submodule_search_locations) or ():
        (root / "google").mkdir(exist_ok=True)
        (root / "google" / "type").symlink_to(directory)


def _write(root: Path, name: str, content: str) -> None:
    """Write a file for protoc. Raises ValueError if the name is invalid, such as one that leads out of the directory,
    or if the file cannot be written.
    """
    path = PurePosixPath(name)
    if (
        path.suffix != ".proto"
        or path.is_absolute()
        or ".." in path.parts
        or not name.isprintable()
        or len(name) > MAX_NAME
    ):
        raise ValueError(f"invalid name of a reference: {name!r:.200}")
    file = root / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _descriptor(content)
        file.write_text(content if descriptor is None else proto_text(descriptor), encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ValueError(f"invalid reference {name!r:.200}: {error}") from None
