"""Serializers and deserializers of keys and values, like Kafka's `Serializer` and `Deserializer`.

The ones for Kafka's standard types are in `ottla.serializers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

from ottla.config.options import loaded
from ottla.errors import ConfigurationError, SerializationError
from ottla.serializers import SERDES, returns_bytes_unchanged, serde_named

Headers = list[tuple[str, bytes | None]]


@runtime_checkable
class Serializer(Protocol):
    """Converts keys or values to bytes. A callable `value -> bytes` can be used instead.

    `serialize` may also have the parameters (topic, headers, value); it may then add headers to the list. The methods
    `configure(configs, is_key)` and `close()` are called as in Java, if they exist.
    """

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Return the bytes of a key or value."""
        ...


@runtime_checkable
class Deserializer(Protocol):
    """Converts bytes to keys or values. A callable `bytes -> value` can be used instead.

    `deserialize` may also have the parameters (topic, headers, data). `configure` and `close` are called as for a
    Serializer.
    """

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        """Return the key or value."""
        ...


class Converter:
    """The serializer or deserializer of a client's option. It is called with topic, value and headers."""

    __slots__ = ("_call", "_close", "accepts_headers", "name", "option")

    def __init__(self, option: str, target: Any, method: str) -> None:
        self.option: str = option
        self.name: str = getattr(target, "__name__", type(target).__name__)
        function = getattr(target, method, None)
        self.accepts_headers: bool = function is not None and _accepts_headers(function)
        self._call: Callable[..., Any] = function if function is not None else lambda topic, value: target(value)
        self._close: Callable[[], Any] | None = getattr(target, "close", None) if function is not None else None

    def __call__(self, topic: str, value: Any, headers: Headers | None = None) -> Any:
        """Convert a value. If that fails, raise SerializationError, which names the option, the serializer or
        deserializer, the topic and the type of the value.
        """
        try:
            if self.accepts_headers:
                return self._call(topic, [] if headers is None else headers, value)
            return self._call(topic, value)
        except Exception as error:  # user code: any exception is reported with option, topic and type
            raise SerializationError(
                f"{self.option} {self.name} cannot convert a value of type {type(value).__name__} "
                f"of topic {topic}: {error}"
            ) from error

    def close(self) -> None:
        """Close the serializer or deserializer, if it has a close method. A plain callable is not closed."""
        if self._close is not None:
            self._close()


HEADERS_PARAMETERS: Final = 3
"""Minimum number of required parameters of a method that also receives the headers: topic, headers and value."""


def _accepts_headers(method: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return False
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(needed) >= HEADERS_PARAMETERS


def find(option: Any, what: str, configs: Mapping[str, Any] | None = None) -> Converter | None:
    """Return the converter for an option such as key_serializer; None if the option is None, or a deserializer that is
    known to return its input unchanged.

    `what` is the name of the option, which also says whether it is for keys, and whether it is a deserializer. The
    option is a callable, a serializer or deserializer, a class of one, a short name ("string", "long"), the name of a
    Java class, or the dotted name of a Python object. `configs` are the configs that were passed to the client; the
    object's `configure` gets them. Raises ConfigurationError if the name is unknown.
    """
    if option is None:
        return None
    method = "deserialize" if "deserializer" in what else "serialize"
    target = _named(option, what) if isinstance(option, str) else option
    if isinstance(target, type) and hasattr(target, method):
        target = target()
    if method == "deserialize" and returns_bytes_unchanged(target):
        return None  # without one, poll() returns bytes; a call for each takes half of its time
    if hasattr(target, method) and hasattr(target, "configure"):
        target.configure(configs or {}, what.startswith("key"))
    return Converter(what, target, method)


def _named(name: str, what: str) -> Any:
    try:
        return serde_named(name, deserializes="deserializer" in what)
    except KeyError:
        pass
    try:
        return loaded(name)
    except ValueError as error:
        raise ConfigurationError(
            f"{what}: {name!r} is unknown; expected one of {', '.join(SERDES)} ({error})"
        ) from None


def to_bytes(value: Any, what: str) -> bytes | None:
    """Convert a key or value to bytes without a serializer. A str is encoded as UTF-8; None, bytes, bytearray and
    memoryview are allowed too. Raise SerializationError for other types.
    """
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise SerializationError(
        f"{what} has the type {type(value).__name__}; without a {what}_serializer only bytes, str and None can be sent"
    )


def checked_headers(headers: Iterable[Any]) -> Headers:
    """Return headers as pairs of a str and bytes or None; bytearray and memoryview are converted to bytes. Raises
    SerializationError for other headers.
    """
    checked: Headers = []
    for header in headers:
        try:
            name, value = header
        except (TypeError, ValueError):
            raise SerializationError(f"a header must be a pair of name and value, not {header!r}") from None
        if not isinstance(name, str) or not (value is None or isinstance(value, (bytes, bytearray, memoryview))):
            raise SerializationError(f"header {name!r}: expected str and bytes (or None), not {value!r}")
        checked.append((name, value if value is None else bytes(value)))
    return checked
