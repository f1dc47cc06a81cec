"""Messages: declared once for all versions, encoded and decoded by functions that are compiled at first use.

    class HeartbeatRequest(Request["HeartbeatResponse"], api_key=12, versions="0-4", flexible="4+"):
        group_id: str = f.string("0+")

    data = encode(HeartbeatRequest(group_id="g"), version=4)
    assert decode(HeartbeatRequest, data, version=4).group_id == "g"

A declaration costs microseconds at import; `__init__` and the codecs are compiled at the first call.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform

from ottla.errors import KafkaError, MalformedMessageError, UnsupportedVersionError
from ottla.protocol.fields import Field, bounds
from ottla.protocol.wire import Chunk, splice

if TYPE_CHECKING:
    from ottla.protocol.codegen import Decoder, Encoder, SlicedDecoder, SlicedEncoder

S = TypeVar("S", bound="Struct")
R = TypeVar("R", bound="Response")


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructType(type):
    """Turns declared fields into slots, and stores them in FIELDS."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        api_key: int | None = None,
        versions: str = "",
        flexible: str = "",
    ) -> StructType:
        fields = []
        for attribute, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = attribute
                fields.append(value)
                del namespace[attribute]
        namespace["__slots__"] = (*namespace.get("__slots__", ()), *(field.name for field in fields))
        namespace["FIELDS"] = tuple(fields)
        namespace["decoders"] = {}
        namespace["encoders"] = {}
        namespace["sliced_decoders"] = {}
        namespace["sliced_encoders"] = {}
        if api_key is not None:
            namespace["API_KEY"] = api_key
        if versions:
            low, high = bounds(versions)
            namespace["VERSIONS"] = range(low, high + 1)
            first = bounds(flexible or "none")[0]
            namespace["FLEXIBLE"] = None if (flexible or "none") == "none" else first
            namespace["NAME"] = name.removesuffix("Request").removesuffix("Response")
        return super().__new__(mcs, name, bases, namespace)

    @property
    def RESPONSE(cls) -> type[Response]:  # noqa: N802
        """The response class of a request class: in the same module, the class named `NAME` + "Response"."""
        response: type[Response] = vars(sys.modules[cls.__module__])[f"{cls.NAME}Response"]  # type: ignore[attr-defined]
        return response


class Struct(metaclass=StructType):
    """Base of all declared messages and structures: objects with one slot per field, compared by value."""

    if TYPE_CHECKING:
        FIELDS: ClassVar[tuple[Field, ...]]
        decoders: ClassVar[dict[int, Decoder]]
        encoders: ClassVar[dict[int, Encoder]]
        sliced_decoders: ClassVar[dict[int, SlicedDecoder]]
        sliced_encoders: ClassVar[dict[int, SlicedEncoder]]
    NAME: ClassVar[str] = ""
    VERSIONS: ClassVar[range] = range(0)
    FLEXIBLE: ClassVar[int | None] = None

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            from ottla.protocol.codegen_init import make_init

            cls = type(self)
            cls.__init__ = make_init(cls)
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.FIELDS)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={_shown(getattr(self, f.name))}" for f in self.FIELDS)
        return f"{type(self).__name__}({shown})"


def _shown(value: Any) -> str:
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    return repr(value)


class Message(Struct):
    """A top-level Struct, with a name and versions."""


class Response(Message):
    """Base class of the responses of a broker."""

    API_KEY: ClassVar[int] = -1


if TYPE_CHECKING:

    class Request(Message, Generic[R]):
        """Base class of the requests to a broker; the type argument is the class of the response."""

        API_KEY: ClassVar[int] = -1
else:

    class Request(Message):
        """Base class of the requests to a broker; the type argument is the class of the response."""

        API_KEY: ClassVar[int] = -1

        def __class_getitem__(cls, response):
            return cls


class Data(Message):
    """Base class of messages without an API key: those in records, and those that group members exchange."""


BAD_BYTES = (struct.error, IndexError, UnicodeDecodeError)
BAD_VALUES = (struct.error, AttributeError, TypeError, UnicodeEncodeError, OverflowError)


def decode(cls: type[S], buffer: bytes | bytearray | memoryview, version: int, pos: int = 0) -> S:
    """Read a message. Bytes after its end are ignored.

    Raises MalformedMessageError if the bytes do not form the message, UnsupportedVersionError for a version that is
    not declared.
    """
    return decode_from(cls, buffer, version, pos)[0]


def decode_from(cls: type[S], buffer: bytes | bytearray | memoryview, version: int, pos: int = 0) -> tuple[S, int]:
    """Decode a message, and return it with the position after it. Raises the errors of `decode`."""
    decoder = cls.decoders.get(version) or _make_decoder(cls, version)
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return decoder(view, pos, len(view))
    except BAD_BYTES as error:
        raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from error


def decode_in_slices(
    cls: type[S], view: memoryview, version: int, pos: int, most_items: int
) -> Generator[None, None, S]:
    """Decode a message in a generator that yields every few hundred items, so that the caller can let other tasks run.

    Raises the errors of `decode`. A message whose arrays have more than `most_items` items in total is malformed.
    """
    decoder = cls.sliced_decoders.get(version) or _make_sliced_decoder(cls, version)
    try:
        message, _ = yield from decoder(view, pos, len(view), most_items)
    except BAD_BYTES as error:
        raise MalformedMessageError(f"{cls.__name__} version {version}: {error}") from error
    decoded: S = message
    return decoded


def encode_chunks_in_slices(message: Struct, version: int, out: bytearray) -> Generator[None, None, list[Chunk]]:
    """Encode a message like `encode_chunks`, in a generator that yields every few hundred items, so that the caller can
    let other tasks run.

    Raises the errors of `encode`.
    """
    cls, cuts = type(message), list[tuple[int, Any]]()
    encoder = cls.sliced_encoders.get(version) or _make_sliced_encoder(cls, version)
    try:
        yield from encoder(message, out, cuts)
    except KafkaError:
        raise
    except BAD_VALUES as error:
        raise MalformedMessageError(f"{cls.__name__} version {version} cannot be written: {error}") from error
    return splice(out, cuts)


def encode(message: Struct, version: int, out: bytearray | None = None) -> bytearray:
    """Append a message, records included, to `out` or to a new bytearray, and return the bytearray.

    Raises MalformedMessageError if a value cannot be written as the type of its field, and UnsupportedVersionError for
    a version that is not declared, or that lacks a field that is set, unless the field is ignorable or the message is a
    response.
    """
    out = bytearray() if out is None else out
    _write(message, version, out, None)
    return out


def encode_chunks(message: Struct, version: int, out: bytearray) -> list[Chunk]:
    """Encode a message without copying its `records`: return pieces of `out` with the records between them.

    The former content of `out` comes first. `out` must not grow while the chunks are in use; its bytes may be patched.
    Raises the errors of `encode`.
    """
    cuts: list[tuple[int, Any]] = []
    _write(message, version, out, cuts)
    return splice(out, cuts)


def _write(message: Struct, version: int, out: bytearray, cuts: list[tuple[int, Any]] | None) -> None:
    cls = type(message)
    encoder = cls.encoders.get(version) or _make_encoder(cls, version)
    try:
        encoder(message, out, cuts)
    except KafkaError:
        raise
    except BAD_VALUES as error:
        raise MalformedMessageError(f"{cls.__name__} version {version} cannot be written: {error}") from error


def _make_decoder(cls: type[Struct], version: int) -> Decoder:
    from ottla.protocol.codegen_reader import make_decoder

    _check_version(cls, version)
    decoder = cls.decoders[version] = make_decoder(cls, version)
    return decoder


def _make_encoder(cls: type[Struct], version: int) -> Encoder:
    from ottla.protocol.codegen_writer import make_encoder

    _check_version(cls, version)
    encoder = cls.encoders[version] = make_encoder(cls, version)
    return encoder


def _make_sliced_decoder(cls: type[Struct], version: int) -> SlicedDecoder:
    from ottla.protocol.codegen_reader import make_sliced_decoder

    _check_version(cls, version)
    decoder = cls.sliced_decoders[version] = make_sliced_decoder(cls, version)
    return decoder


def _make_sliced_encoder(cls: type[Struct], version: int) -> SlicedEncoder:
    from ottla.protocol.codegen_writer import make_sliced_encoder

    _check_version(cls, version)
    encoder = cls.sliced_encoders[version] = make_sliced_encoder(cls, version)
    return encoder


def _check_version(cls: type[Struct], version: int) -> None:
    if version not in cls.VERSIONS:
        supported = f"{cls.VERSIONS.start} to {cls.VERSIONS.stop - 1}" if cls.VERSIONS else "none"
        raise UnsupportedVersionError(f"{cls.__name__} has no version {version}; declared: {supported}")
