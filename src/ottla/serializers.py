"""Serializers and deserializers for the types of Kafka's `Serdes` and for JSON, with the names of Kafka's Java classes.

KafkaProducer(key_serializer=StringSerializer(), value_serializer=LongSerializer())

Every serde both serializes and deserializes. Its subclasses `<Type>Serializer` and `<Type>Deserializer` only add
Kafka's names.
`None` is a null value (a tombstone) for all types.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.errors import ConfigurationError


class Serde:
    """Base class of all serdes. None is serialized as null. Except in JsonSerde, other values must be instances of
    `types`, and a bool is only valid if `types` contains bool.
    """

    types: tuple[type, ...] = ()
    expected = ""
    """The description of valid values in error messages."""
    size: int | None = None
    """The size in bytes of every serialized value; None if it may vary."""

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Configure the serde with the client's configs. A client calls it before the other methods."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a value; None for None. Raises TypeError for a value of another type, and ValueError for
        one that cannot be encoded.
        """
        if value is None:
            return None
        if not isinstance(value, self.types) or (isinstance(value, bool) and bool not in self.types):
            raise TypeError(f"expected {self.expected}, not {type(value).__name__}")
        return self._write(topic, value)

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the value of these bytes; None for None. Raises ValueError if the bytes are invalid."""
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
    """A serde for numbers of a fixed size, in big-endian byte order."""

    layout: struct.Struct
    size: int | None

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
    """A serde for ints of 16 bits."""

    types: tuple[type, ...] = (int,)
    expected = "an int of 16 bits"
    layout: struct.Struct = struct.Struct(">h")


class IntegerSerde(_NumberSerde):
    """A serde for ints of 32 bits."""

    types: tuple[type, ...] = (int,)
    expected = "an int of 32 bits"
    layout: struct.Struct = struct.Struct(">i")


class LongSerde(_NumberSerde):
    """A serde for ints of 64 bits."""

    types: tuple[type, ...] = (int,)
    expected = "an int of 64 bits"
    layout: struct.Struct = struct.Struct(">q")


class FloatSerde(_NumberSerde):
    """A serde for floats of 32 bits."""

    types: tuple[type, ...] = (float, int)
    expected = "a float of 32 bits"
    layout: struct.Struct = struct.Struct(">f")


class DoubleSerde(_NumberSerde):
    """A serde for floats of 64 bits."""

    types: tuple[type, ...] = (float, int)
    expected = "a float"
    layout: struct.Struct = struct.Struct(">d")


class BooleanSerde(Serde):
    """A serde for bools."""

    types: tuple[type, ...] = (bool,)
    expected = "a bool"
    size: int | None = 1

    def _write(self, topic: str, value: Any) -> bytes:
        return b"\1" if value else b"\0"

    def _read(self, topic: str, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise ValueError(f"expected the byte 0 or 1, got {data[0]}")
        return data == b"\1"


class StringSerde(Serde):
    """A serde for str. The encoding is that of the config `serializer.encoding` or `deserializer.encoding`, which may
    have the prefix `key.` or `value.`. The default is `encoding`.
    """

    types: tuple[type, ...] = (str,)
    expected = "a str"

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding: str = encoding

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Set the encoding from the configs. The config for keys or values takes precedence over the common one of the
        same name. Raises ConfigurationError if Python has no such encoding.
        """
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
                f"{option}: {encoding!r} is not an encoding of Python; use a name such as utf-8"
            ) from None
        self.encoding = encoding

    def _write(self, topic: str, value: Any) -> bytes:
        return str(value).encode(self.encoding)

    def _read(self, topic: str, data: bytes) -> Any:
        return str(data, self.encoding)


class UUIDSerde(StringSerde):
    """A serde for UUIDs, which are serialized as strings of 36 characters."""

    types: tuple[type, ...] = (uuid.UUID,)
    expected = "a uuid.UUID"

    def _read(self, topic: str, data: bytes) -> uuid.UUID:
        return uuid.UUID(super()._read(topic, data))


class BytesSerde(Serde):
    """A serde for bytes, which are not changed."""

    types: tuple[type, ...] = (bytes, bytearray, memoryview)
    expected = "bytes"

    def _write(self, topic: str, value: bytes | bytearray | memoryview) -> bytes:
        return bytes(value)

    def _read(self, topic: str, data: bytes) -> bytes:
        return data


class VoidSerde(Serde):
    """A serde that only allows None."""

    expected = "None"

    def _read(self, topic: str, data: bytes) -> Any:
        raise ValueError("expected no value (None)")


class JsonSerde(Serde):
    """A serde for JSON values in UTF-8. None is a tombstone, not JSON's null."""

    types: tuple[type, ...] = (object,)

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the value as JSON; None for None (a tombstone)."""
        return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def _read(self, topic: str, data: bytes) -> Any:
        return json.loads(data)


_ALL_OF_ONE_SIZE: Final = 0
_EACH_WITH_ITS_SIZE: Final = 1
_NO_VALUE: Final = -1
_INT: Final = struct.Struct(">i")
LIST_INNER: Final = "default.list.{}.serde.inner"


class ListSerde(Serde):
    """A serde for lists whose elements have one type, such as `ListSerde("integer")`. The default type is that of the
    config default.list.value.serde.inner, or for keys default.list.key.serde.inner.

    The format is that of Kafka's `ListSerializer`: numbers and UUIDs are stored consecutively, after the positions of
    null elements; elements of other types are stored with their sizes.
    """

    types: tuple[type, ...] = (list, tuple)
    expected = "a list"

    def __init__(self, inner: Any = None) -> None:
        self.inner: Any = serde_named(inner) if isinstance(inner, str) else inner

    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Set the serde of the elements from the configs if none was passed, and configure it. Raises
        ConfigurationError if it was not passed and the config is missing, and KeyError if the config names an unknown
        type.
        """
        option = LIST_INNER.format("key" if is_key else "value")
        if self.inner is None:
            inner = configs.get(option)
            if inner is None:
                raise ConfigurationError(f"{option} is required for lists: set it to the serde of their elements")
            self.inner = serde_named(inner) if isinstance(inner, str) else inner() if isinstance(inner, type) else inner
        if hasattr(self.inner, "configure"):
            self.inner.configure(configs, is_key)

    def close(self) -> None:
        """Close the serde of the elements."""
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
    """Return `count`, a number of elements or of positions. Raises ValueError if it is negative, or if `data` is too
    short: each of them takes 4 bytes or more.
    """
    if not 0 <= count <= len(data) // 4:
        raise ValueError("the list is truncated")
    return count


# Classes with the names of Kafka's classes


class StringSerializer(StringSerde):
    """Serializes a str, as UTF-8 unless configured otherwise."""


class StringDeserializer(StringSerde):
    """Deserializes a str, as UTF-8 unless configured otherwise."""


class IntegerSerializer(IntegerSerde):
    """Serializes an int as 4 bytes."""


class IntegerDeserializer(IntegerSerde):
    """Deserializes an int from 4 bytes."""


class LongSerializer(LongSerde):
    """Serializes an int as 8 bytes."""


class LongDeserializer(LongSerde):
    """Deserializes an int from 8 bytes."""


class ShortSerializer(ShortSerde):
    """Serializes an int as 2 bytes."""


class ShortDeserializer(ShortSerde):
    """Deserializes an int from 2 bytes."""


class FloatSerializer(FloatSerde):
    """Serializes a float as 4 bytes."""


class FloatDeserializer(FloatSerde):
    """Deserializes a float from 4 bytes."""


class DoubleSerializer(DoubleSerde):
    """Serializes a float as 8 bytes."""


class DoubleDeserializer(DoubleSerde):
    """Deserializes a float from 8 bytes."""


class BooleanSerializer(BooleanSerde):
    """Serializes a bool as one byte."""


class BooleanDeserializer(BooleanSerde):
    """Deserializes a bool from one byte."""


class BytesSerializer(BytesSerde):
    """Serializes bytes without changing them."""


class BytesDeserializer(BytesSerde):
    """Deserializes bytes without changing them."""


class ByteBufferSerializer(BytesSerde):
    """Serializes bytes without changing them."""


class ByteBufferDeserializer(BytesSerde):
    """Deserializes bytes without changing them."""


class ByteArraySerializer(BytesSerde):
    """Serializes bytes without changing them."""


class ByteArrayDeserializer(BytesSerde):
    """Deserializes bytes without changing them."""


class UUIDSerializer(UUIDSerde):
    """Serializes a UUID as a string of 36 characters."""


class UUIDDeserializer(UUIDSerde):
    """Deserializes a UUID from a string of 36 characters."""


class VoidSerializer(VoidSerde):
    """Serializes None. Any other value is an error."""


class VoidDeserializer(VoidSerde):
    """Deserializes null. Any other value is an error."""


class ListSerializer(ListSerde):
    """Serializes a list whose elements have one type."""


class ListDeserializer(ListSerde):
    """Deserializes a list whose elements have one type."""


class JsonSerializer(JsonSerde):
    """Serializes a value as JSON in UTF-8."""


class JsonDeserializer(JsonSerde):
    """Deserializes JSON in UTF-8."""


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
"""The serializer and deserializer of each type. Configs may name a type ("long"), a class ("LongSerializer"), or a Java
class (`org.apache.kafka.common.serialization.LongSerializer`, `Serdes$LongSerde`). The case of a type does not matter.
"""


def serde_named(name: str, *, deserializes: bool = False) -> Serde:
    """Return a new serializer, or with `deserializes` a deserializer, by the name of its type, class or Java class.
    Raises KeyError if the name is unknown.
    """
    short = name.strip().rpartition(".")[2].rpartition("$")[2]
    for ending in ("Serializer", "Deserializer", "Serde"):
        short = short.removesuffix(ending)
    return {pairs.lower(): pair for pairs, pair in SERDES.items()}[short.lower()][deserializes]()


def returns_bytes_unchanged(deserializer: object) -> bool:
    """Return whether a deserializer is known to return its input unchanged, so that it need not be called."""
    return isinstance(deserializer, BytesSerde) and type(deserializer).__module__ == __name__
