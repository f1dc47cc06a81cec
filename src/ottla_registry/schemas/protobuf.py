"""Protobuf schemas: .proto files, compiled by Google's protoc in a process of its own, and descriptors in base64."""

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


class ProtobufSchema:
    """A compiled Protobuf schema. Raises ValueError if the schema is invalid.

    Args:
        text: a .proto file, or a FileDescriptorProto in base64.
        references: the files that it imports, by the names in its import statements.
    """

    def __init__(self, text: str, references: Sequence[ReferencedSchema] = ()) -> None:
        self._references = tuple(references)
        descriptor = _descriptor(text)
        if descriptor is None:
            self.canonical = text
            self.file: Any = _compiled(text, self._references)
            return
        try:
            self.canonical = proto_text(descriptor)
        except (KeyError, ValueError) as error:
            raise ValueError(f"malformed descriptor: {error!r}") from None
        self.file = _compiled(self.canonical, self._references)
        if _comparable(descriptor) != _comparable(self.file):
            raise ValueError(
                "the descriptor cannot be written as a .proto file: it has options of its own, or extensions"
            )

    @cached_property
    def normalized(self) -> str:
        """The text without comments, in the order of the descriptor."""
        text = proto_text(self.file)
        compiled = _compiled(text, self._references)
        return text if _comparable(compiled) == _comparable(self.file) else self.canonical

    @property
    def serialized(self) -> str:
        """The FileDescriptorProto in base64, for requests with `format=serialized`."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    def cannot_read(self, writer: ProtobufSchema) -> list[str]:
        """Return why messages of `writer` cannot be read with this schema."""
        return differences(writer.file, self.file)


def _descriptor(text: str) -> Any:
    """Return a FileDescriptorProto in base64; None if the text is no base64."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _comparable(file: Any) -> bytes:
    """Return the parts of a descriptor that its text determines."""
    copy = type(file)()
    copy.CopyFrom(file)
    for part in ("name", "source_code_info"):
        copy.ClearField(part)
    if copy.syntax == "proto2":
        copy.ClearField("syntax")
    pending = list(copy.message_type)
    while pending:
        message = pending.pop()
        pending += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    serialized: bytes = copy.SerializeToString(deterministic=True)
    return serialized


def _compiled(text: str, references: tuple[ReferencedSchema, ...]) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    return FileDescriptorProto.FromString(_compile(text, references))


@lru_cache(MAX_COMPILED)
def _compile(text: str, references: tuple[ReferencedSchema, ...]) -> bytes:
    """Return the descriptor of a file. Raises ValueError with protoc's errors."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    spec = importlib.util.find_spec("grpc_tools")
    if spec is None or spec.origin is None:
        raise ValueError("Protobuf requires grpcio-tools; run `pip install 'ottla[registry]'`")
    with TemporaryDirectory(prefix="ottla-protoc-") as directory:
        root = Path(directory)
        for name, content in (*references, (MAIN, text)):
            _write(root, name, content)
        includes = [f"-I{root}", f"-I{Path(spec.origin).parent / '_proto'}"]
        # -P: no module of the working directory is imported
        command = [
            sys.executable,
            "-P",
            "-m",
            "grpc_tools.protoc",
            *includes,
            f"--descriptor_set_out={root / 'out'}",
            MAIN,
        ]
        try:
            result = subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ValueError(f"protoc takes more than {COMPILE_SECONDS} s") from None
        if result.returncode != 0:
            output = result.stderr.decode("utf-8", "replace").replace(f"{root}/", "").replace(f"{MAIN}:", "")
            raise ValueError(output.strip()[:1_000] or "protoc failed")
        file = FileDescriptorSet.FromString((root / "out").read_bytes()).file[0]
    compiled: bytes = file.SerializeToString(deterministic=True)
    return compiled


def _write(root: Path, name: str, content: str) -> None:
    """Write a file for protoc. Raises ValueError if its name leads out of the directory."""
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
