"""Serializers and deserializers for Kafka's built-in types, each under the name of its Java class.

    KafkaProducer(key_serializer=StringSerializer(), value_serializer=LongSerializer())

A serde works in both directions; `<Type>Serializer` and `<Type>Deserializer` are the names for options and errors.
`None` is a null value (a tombstone) for every type.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.errors import ConfigurationError


class Serde:
    """Base of all serdes. None stays None; every other value must be an instance of `types`."""

    types: tuple[type, ...] = ()
    expected = ""
    """Description of valid values, for errors."""
    size: int | None = None
    """Size in bytes of every value, if it is fixed."""

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Receive the client's configs. Called once, before any other method."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Serialize a value."""
        if value is None:
            return None
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            raise TypeError(f"expected {self.expected}, not {type(value).__name__}")
        return self._write(topic, value)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Deserialize a value."""
        if data is None:
            return None
        if self.size is not None and len(data) != self.size:
            raise ValueError(f"expected {self.size} bytes, got {len(data)}")
        return self._read(topic, data)

    def close(self) -> None:
        """Release resources when the client closes."""

    def _write(self, topic: str, value: Any) -> bytes:
        raise NotImplementedError

    def _read(self, topic: str, data: bytes) -> Any:
        raise NotImplementedError


class _NumberSerde(Serde):
    """A number of fixed size, big-endian."""

    layout: struct.Struct

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "layout" in vars(cls):
            cls.size = cls.layout.size

    def _write(self, topic: str, value: Any) -> bytes:
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{value} is out of range: expected {self.expected}") from None

    def _read(self, topic: str, data: bytes) -> Any:
        return self.layout.unpack(data)[0]


class ShortSerde(_NumberSerde):
    """An int of 16 bits."""

    types = (int,)
    expected = "an int of 16 bits"
    layout = struct.Struct(">h")


class IntegerSerde(_NumberSerde):
    """An int of 32 bits."""

    types = (int,)
    expected = "an int of 32 bits"
    layout = struct.Struct(">i")


class LongSerde(_NumberSerde):
    """An int of 64 bits."""

    types = (int,)
    expected = "an int of 64 bits"
    layout = struct.Struct(">q")


class FloatSerde(_NumberSerde):
    """A float of 32 bits."""

    types = (float, int)
    expected = "a float of 32 bits"
    layout = struct.Struct(">f")


class DoubleSerde(_NumberSerde):
    """A float of 64 bits."""

    types = (float, int)
    expected = "a float"
    layout = struct.Struct(">d")


class BooleanSerde(Serde):
    """True or False."""

    types = (bool,)
    expected = "a bool"
    size = 1

    def _write(self, topic: str, value: Any) -> bytes:
        return b"\1" if value else b"\0"

    def _read(self, topic: str, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise ValueError(f"expected the byte 0 or 1, got {data[0]}")
        return data == b"\1"


class StringSerde(Serde):
    """Text in the encoding of `(key|value.)(de)serializer.encoding`, UTF-8 by default."""

    types: tuple[type, ...] = (str,)
    expected = "a str"

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the encoding; the config for keys or values overrides the common one."""
        own = "key" if is_key else "value"
        for name in ("serializer.encoding", "deserializer.encoding"):
            for option in (name, f"{own}.{name}"):
                encoding = configs.get(option)
                if encoding is not None:
                    self._set(option, encoding)

    def _set(self, option: str, encoding: Any) -> None:
        try:
            "".encode(encoding)
        except (LookupError, TypeError):
            raise ConfigurationError(
                f"{option}: {encoding!r} is not an encoding that Python knows; use a name such as utf-8"
            ) from None
        self.encoding = encoding

    def _write(self, topic: str, value: Any) -> bytes:
        return str(value).encode(self.encoding)

    def _read(self, topic: str, data: bytes) -> Any:
        return str(data, self.encoding)


class UUIDSerde(StringSerde):
    """A UUID as its 36 characters."""

    types = (uuid.UUID,)
    expected = "a uuid.UUID"

    def _read(self, topic: str, data: bytes) -> uuid.UUID:
        return uuid.UUID(super()._read(topic, data))


class BytesSerde(Serde):
    """Bytes as they are."""

    types = (bytes, bytearray, memoryview)
    expected = "bytes"

    def _write(self, topic: str, value: bytes | bytearray | memoryview) -> bytes:
        return bytes(value)

    def _read(self, topic: str, data: bytes) -> bytes:
        return data


class VoidSerde(Serde):
    """Null values only."""

    expected = "None"

    def _read(self, topic: str, data: bytes) -> Any:
        raise ValueError("expected no value (None)")


class JsonSerde(Serde):
    """Any JSON value, as UTF-8."""

    types = (object,)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Serialize a value as JSON; None is a tombstone, not null."""
        return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def _read(self, topic: str, data: bytes) -> Any:
        return json.loads(data)


_ALL_OF_ONE_SIZE: Final = 0
_EACH_WITH_ITS_SIZE: Final = 1
_NO_VALUE: Final = -1
_INT: Final = struct.Struct(">i")
LIST_INNER: Final = "default.list.{}.serde.inner"


class ListSerde(Serde):
    """A list of values of one type: `ListSerde("integer")`, or the type of default.list.value.serde.inner.

    Values of a fixed size are stored side by side, after the positions of null values; others with their sizes.
    """

    types = (list, tuple)
    expected = "a list"

    def __init__(self, inner: Any = None) -> None:
        self.inner: Any = serde_named(inner) if isinstance(inner, str) else inner

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the inner type."""
        option = LIST_INNER.format("key" if is_key else "value")
        if self.inner is None:
            inner = configs.get(option)
            if inner is None:
                raise ConfigurationError(f"{option} is required for lists: set it to the serde of their elements")
            self.inner = serde_named(inner) if isinstance(inner, str) else inner() if isinstance(inner, type) else inner
        if hasattr(self.inner, "configure"):
            self.inner.configure(configs, is_key)

    def close(self) -> None:
        """Close the inner serde."""
        if hasattr(self.inner, "close"):
            self.inner.close()

    @property
    def _inner_size(self) -> int | None:
        return UUID_BYTES if isinstance(self.inner, UUIDSerde) else getattr(self.inner, "size", None)

    def _write(self, topic: str, value: Sequence[Any]) -> bytes:
        items = [self.inner.serialize(topic, item) for item in value]
        if self._inner_size is None or isinstance(
            self.inner, BooleanSerde
        ):  # Kafka's ListSerializer does not store these as fixed-size values
            sizes = [_INT.pack(_NO_VALUE if item is None else len(item)) for item in items]
            body = b"".join(part for size, item in zip(sizes, items, strict=True) for part in (size, item or b""))
            return bytes([_EACH_WITH_ITS_SIZE]) + _INT.pack(len(items)) + body
        missing = [place for place, item in enumerate(items) if item is None]
        places = b"".join(map(_INT.pack, [len(missing), *missing, len(items)]))
        return bytes([_ALL_OF_ONE_SIZE]) + places + b"".join(item for item in items if item is not None)

    def _read(self, topic: str, data: bytes) -> list[Any]:
        if data[:1] == bytes([_ALL_OF_ONE_SIZE]):
            items = _items_of_one_size(data, self._inner_size or 0)
        elif data[:1] == bytes([_EACH_WITH_ITS_SIZE]):
            items = _items_with_sizes(data)
        else:
            raise ValueError(f"{data[:1]!r} is not the start of a list")
        return [None if item is None else self.inner.deserialize(topic, item) for item in items]


def _items_of_one_size(data: bytes, size: int) -> Iterator[bytes | None]:
    count, at = _int(data, 1)
    missing = {_int(data, at + 4 * place)[0] for place in range(_at_most(count, data))}
    count, at = _int(data, at + 4 * count)
    if size * (count - len(missing)) > len(data):
        raise ValueError("the list is truncated")
    for place in range(count):
        if place in missing:
            yield None
        else:
            item, at = _item(data, at, size)
            yield item


def _items_with_sizes(data: bytes) -> Iterator[bytes | None]:
    count, at = _int(data, 1)
    for _ in range(_at_most(count, data)):
        size, at = _int(data, at)
        if size == _NO_VALUE:
            yield None
        else:
            item, at = _item(data, at, size)
            yield item


def _item(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if size < 0 or at + size > len(data):
        raise ValueError("the list is truncated")
    return data[at : at + size], at + size


UUID_BYTES: Final = 36


def _int(data: bytes, at: int) -> tuple[int, int]:
    try:
        return _INT.unpack_from(data, at)[0], at + 4
    except struct.error:
        raise ValueError("the list is truncated") from None


def _at_most(count: int, data: bytes) -> int:
    """Return the number of items of 4 or more bytes, if `data` can hold that many."""
    if not 0 <= count <= len(data) // 4:
        raise ValueError("the list is truncated")
    return count


# Under the names of Kafka's classes


class StringSerializer(StringSerde):
    """Serialize text (UTF-8 unless configured)."""


class StringDeserializer(StringSerde):
    """Deserialize text."""


class IntegerSerializer(IntegerSerde):
    """Serialize an int as 4 bytes."""


class IntegerDeserializer(IntegerSerde):
    """Deserialize an int from 4 bytes."""


class LongSerializer(LongSerde):
    """Serialize an int as 8 bytes."""


class LongDeserializer(LongSerde):
    """Deserialize an int from 8 bytes."""


class ShortSerializer(ShortSerde):
    """Serialize an int as 2 bytes."""


class ShortDeserializer(ShortSerde):
    """Deserialize an int from 2 bytes."""


class FloatSerializer(FloatSerde):
    """Serialize a float as 4 bytes."""


class FloatDeserializer(FloatSerde):
    """Deserialize a float from 4 bytes."""


class DoubleSerializer(DoubleSerde):
    """Serialize a float as 8 bytes."""


class DoubleDeserializer(DoubleSerde):
    """Deserialize a float from 8 bytes."""


class BooleanSerializer(BooleanSerde):
    """Serialize a bool as one byte."""


class BooleanDeserializer(BooleanSerde):
    """Deserialize a bool from one byte."""


class BytesSerializer(BytesSerde):
    """Serialize bytes, unchanged."""


class BytesDeserializer(BytesSerde):
    """Deserialize bytes, unchanged."""


class ByteBufferSerializer(BytesSerde):
    """Serialize bytes, unchanged."""


class ByteBufferDeserializer(BytesSerde):
    """Deserialize bytes, unchanged."""


class ByteArraySerializer(BytesSerde):
    """Serialize bytes, unchanged."""


class ByteArrayDeserializer(BytesSerde):
    """Deserialize bytes, unchanged."""


class UUIDSerializer(UUIDSerde):
    """Serialize a UUID as its 36 characters."""


class UUIDDeserializer(UUIDSerde):
    """Deserialize a UUID from its 36 characters."""


class VoidSerializer(VoidSerde):
    """Serialize None; any other value is an error."""


class VoidDeserializer(VoidSerde):
    """Deserialize None; any other value is an error."""


class ListSerializer(ListSerde):
    """Serialize a list of values of one type."""


class ListDeserializer(ListSerde):
    """Deserialize a list of values of one type."""


class JsonSerializer(JsonSerde):
    """Serialize what JSON can express, as UTF-8."""


class JsonDeserializer(JsonSerde):
    """Deserialize JSON."""


SERDES: Final[Mapping[str, tuple[type[Serde], type[Serde]]]] = {
    "String": (StringSerializer, StringDeserializer),
    "Integer": (IntegerSerializer, IntegerDeserializer),
    "Long": (LongSerializer, LongDeserializer),
    "Short": (ShortSerializer, ShortDeserializer),
    "Float": (FloatSerializer, FloatDeserializer),
    "Double": (DoubleSerializer, DoubleDeserializer),
    "Boolean": (BooleanSerializer, BooleanDeserializer),
    "Bytes": (BytesSerializer, BytesDeserializer),
    "ByteBuffer": (ByteBufferSerializer, ByteBufferDeserializer),
    "ByteArray": (ByteArraySerializer, ByteArrayDeserializer),
    "UUID": (UUIDSerializer, UUIDDeserializer),
    "Void": (VoidSerializer, VoidDeserializer),
    "List": (ListSerializer, ListDeserializer),
    "Json": (JsonSerializer, JsonDeserializer),
}
"""The classes that configs name: "long", "LongSerializer", `org.apache.kafka.common.serialization.LongSerializer` or
`Serdes$LongSerde`.
"""


def serde_named(name: str, *, deserializes: bool = False) -> Serde:
    """Return the serde of a short name or of a Java class. Raises KeyError for any other name."""
    short = name.strip().rpartition(".")[2].rpartition("$")[2]
    for ending in ("Serializer", "Deserializer", "Serde"):
        short = short.removesuffix(ending)
    return {pairs.lower(): pair for pairs, pair in SERDES.items()}[short.lower()][deserializes]()


def returns_bytes_unchanged(deserializer: object) -> bool:
    """Return whether a deserializer returns its input, so that it need not be called for each record."""
    return isinstance(deserializer, BytesSerde) and type(deserializer).__module__ == __name__
