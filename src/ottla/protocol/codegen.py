"""The base of the generators of codecs, the functions that encode or decode one version of one message.

A codec is one flat function, generated as Python source: arrays become loops (those of numbers a `struct` call), and
neighbouring numbers (often with a length after them) are read or written by one `struct` call, as in code written by
hand for that version. It is compiled when the version is used for the first time: a process pays only for the few that
it uses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any

from ottla.errors import MalformedMessageError, UnsupportedVersionError
from ottla.protocol import wire
from ottla.protocol.fields import Declared

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""A function that decodes a message: called with (buffer, position, end), it returns (instance, next position)."""
SlicedDecoder = Callable[[memoryview, int, int, int], Generator[None, None, tuple[Any, int]]]
"""Like a `Decoder`, but a generator function that yields after every SLICE_ITEMS items, so that the caller can let
other tasks run.

Its last argument is the maximum number of items in all arrays of the message together.
"""
SlicedEncoder = Callable[[Any, bytearray, "list[tuple[int, Any]] | None"], Generator[None, None, None]]
"""Like an `Encoder`, but a generator function that yields as a `SlicedDecoder` does."""
Encoder = Callable[[Any, bytearray, "list[tuple[int, Any]] | None"], None]
"""A function that encodes a message: called with (instance, out, cuts), it appends to `out`.

If `cuts` is not None, the contents of `records` fields are not copied to `out`. Instead, (position in `out`, records)
is appended to `cuts` for each field that is not empty.
"""


SLICE_ITEMS = 256
"""Number of array items after which a sliced codec yields. Items of arrays of numbers are not counted. The items
usually take less than a millisecond to process.
"""
MAX_STRING_BYTES = 32767
"""Maximum size of a string in bytes, as in Kafka. Decoders check it, because the varint lengths of flexible versions
can be larger.
"""


def string_too_long(what: str) -> MalformedMessageError:
    """Return the error for a string beyond Kafka's limit."""
    return MalformedMessageError(f"{what} has more than {MAX_STRING_BYTES} bytes")


def too_many_items(what: str) -> MalformedMessageError:
    """Return the error for a message with more items than its receiver accepts."""
    return MalformedMessageError(f"{what}: the message has more items than are accepted")


def fitting(raw: bytes) -> bytes:
    """Return UTF-8 text truncated to MAX_STRING_BYTES, without an incomplete character at its end."""
    return raw[:MAX_STRING_BYTES].decode(errors="ignore").encode()


def malformed(what: str) -> MalformedMessageError:
    """Return the error for a wrong length or count."""
    return MalformedMessageError(f"{what}: its length or count does not fit the bytes that are left")


def is_null(what: str) -> MalformedMessageError:
    """Return the error for a null in a field that is not nullable."""
    return MalformedMessageError(f"{what} may not be null in this version")


def unsupported_field(what: str, version: int) -> UnsupportedVersionError:
    """Return the error for a value that the version has no field for."""
    return UnsupportedVersionError(f"{what} is set, but version {version} of the message has no such field")


HELPERS: dict[str, Any] = {
    "new": object.__new__,
    "uvarint": wire.read_uvarint,
    "put_uvarint": wire.write_uvarint,
    "read_uuid": wire.read_uuid,
    "size_of": wire.size_of,
    "pieces_of": wire.pieces_of,
    "content_of": wire.content_of,
    "malformed": malformed,
    "string_too_long": string_too_long,
    "too_many_items": too_many_items,
    "fitting": fitting,
    "is_null": is_null,
    "unsupported_field": unsupported_field,
    "unpack_from": struct.unpack_from,
    "pack": struct.pack,
}


class Source:
    """The source of a function that is being generated: its lines, and the objects that it refers to."""

    def __init__(self, cls: type[Declared], version: int, *, sliced: bool = False) -> None:
        """`sliced`: make a generator that yields every `SLICE_ITEMS` items, so that other tasks get their turn."""
        self.cls = cls
        self.version = version
        self.sliced = sliced
        self.flexible = cls.FLEXIBLE is not None and version >= cls.FLEXIBLE
        self.names: dict[str, Any] = dict(HELPERS)
        self.lines: list[str] = []
        self.depth = 1
        self._count = 0
        self.run: list[tuple[str, str]] = []
        """Consecutive values of fixed width that share the pending struct call: (format letter, variable or
        expression).
        """

    def add(self, line: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        """Return a variable name that no other part of the function uses."""
        self._count += 1
        return f"{prefix}{self._count}"

    def share(self, prefix: str, value: Any) -> str:
        """Add an object to the function's globals, and return its name there."""
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def indented(self, head: str, body: Callable[[], None]) -> None:
        """Add a block: `head`, and indented below it the lines that `body` adds.

        The struct call for the block's last run is written before the block ends.
        """
        self.add(head)
        self.depth += 1
        before = len(self.lines)
        body()
        self.flush()
        if len(self.lines) == before:
            self.add("pass")
        self.depth -= 1

    def count_item(self) -> None:
        """In a loop over items, add the lines that yield every `SLICE_ITEMS` items (if sliced)."""
        if self.sliced:
            self.add("k += 1")
            self.indented(f"if k >= {SLICE_ITEMS}:", lambda: self.add("k = 0; yield"))

    def flush(self) -> None:
        """Add the struct call for the pending run. Subclasses implement this."""
        raise AssertionError("Reader and Writer know how")

    def compile(self, head: str) -> Any:
        """Compile the source and return the function."""
        self.flush()
        name = f"{self.cls.__name__} v{self.version}"
        if self.sliced:
            head += "\n    k = 0\n    if 0: yield"  # also without arrays it is a generator
        code = compile(head + "\n" + "\n".join(self.lines) + "\n", f"<{name}>", "exec")
        exec(code, self.names)
        return self.names["codec"]
