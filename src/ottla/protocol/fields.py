"""The fields of a message: one function per type of Kafka's protocol, used as the right side of a declaration.

    class Topic(Struct):
        name: str | None = f.string("0+", nullable="10+")
        partitions: list[int] = f.array(f.int32(), "0+")

`versions` are the versions of the message that have the field: "3+", "0-12", "4". `nullable` are the versions in which
it may be None. `default` is the value of a field that was not set or not sent: zero or empty by default, None for
`records`, and for structures that are nullable or tagged. If the field has another value, encoding a version without
the field fails, unless the field is `ignorable` or the message is a response. `tag` makes it a tagged field in every
version that has it (KIP-482): it is sent only when it differs from its default, except that a nullable structure is
always sent.
"""

from __future__ import annotations

import uuid as _uuid
from functools import cache
from typing import Any, ClassVar, Final, Protocol

ZERO_UUID: Final = _uuid.UUID(int=0)
"""The zero id, which means that there is no id, or that it is unknown."""

ALWAYS: Final = "0+"

FIXED: Final = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "boolean": ("?", 1),
}
"""Types that have a letter in a struct format: that letter, and the size in bytes."""


class Field:
    """One declared field. `name` is set by the class that it is declared in."""

    __slots__ = ("default", "element", "ignorable", "kind", "name", "nullable", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        default: Any,
        nullable: str,
        ignorable: bool,
        tag: int | None,
        element: Any = None,
    ) -> None:
        self.kind = kind
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.ignorable = ignorable
        self.tag = tag
        self.element = element
        """The Struct class or the Field of an array's items, or the class of a structure; None for other types."""
        self.name = ""

    def in_version(self, version: int) -> bool:
        """Return whether this version of the message has the field."""
        return within(version, self.versions)

    def nullable_in(self, version: int) -> bool:
        """Return whether the field may be None in this version."""
        return within(version, self.nullable)


class Declared(Protocol):
    """The attributes of a `message.Struct` that the code generators read."""

    FIELDS: ClassVar[tuple[Field, ...]]
    FLEXIBLE: ClassVar[int | None]


def within(version: int, span: str) -> bool:
    """Return whether a version is in a range as declarations write it: "3+", "0-12", "4" or "none"."""
    low, high = bounds(span)
    return low <= version <= high


NEVER: Final = (1, 0)
NEWEST: Final = 1 << 15


@cache
def bounds(span: str) -> tuple[int, int]:
    """Return the first and last version of a range as declarations write it. The last one of "3+" is `NEWEST`; "none"
    is `NEVER`.
    """
    if span == "none":
        return NEVER
    if span.endswith("+"):
        return int(span[:-1]), NEWEST
    low, _, high = span.partition("-")
    return int(low), int(high or low)


def int8(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a signed byte."""
    return Field("int8", versions, default, "none", ignorable, tag)


def int16(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a signed number of 2 bytes."""
    return Field("int16", versions, default, "none", ignorable, tag)


def int32(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a signed number of 4 bytes."""
    return Field("int32", versions, default, "none", ignorable, tag)


def int64(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a signed number of 8 bytes."""
    return Field("int64", versions, default, "none", ignorable, tag)


def uint16(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare an unsigned number of 2 bytes, such as a port."""
    return Field("uint16", versions, default, "none", ignorable, tag)


def uint32(versions: str = ALWAYS, *, default: int = 0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare an unsigned number of 4 bytes."""
    return Field("uint32", versions, default, "none", ignorable, tag)


def float64(versions: str = ALWAYS, *, default: float = 0.0, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a floating point number of 8 bytes."""
    return Field("float64", versions, default, "none", ignorable, tag)


def boolean(versions: str = ALWAYS, *, default: bool = False, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare a boolean: one byte, false only if it is zero."""
    return Field("boolean", versions, default, "none", ignorable, tag)


def string(
    versions: str = ALWAYS,
    *,
    nullable: str = "none",
    default: str | None = "",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare UTF-8 text."""
    return Field("string", versions, default, nullable, ignorable, tag)


def binary(
    versions: str = ALWAYS,
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare bytes, which are copied out of the message."""
    return Field("binary", versions, default, nullable, ignorable, tag)


def records(versions: str = ALWAYS, *, nullable: str = "none", tag: int | None = None) -> Any:
    """Declare record batches: a view of the message when read, buffers or pieces of files when written."""
    return Field("records", versions, None, nullable, False, tag)


def uuid(versions: str = ALWAYS, *, ignorable: bool = False, tag: int | None = None) -> Any:
    """Declare an id of 16 bytes."""
    return Field("uuid", versions, ZERO_UUID, "none", ignorable, tag)


def array(
    element: Any,
    versions: str = ALWAYS,
    *,
    nullable: str = "none",
    default: tuple[()] | None = (),
    ignorable: bool = False,
    tag: int | None = None,
) -> Any:
    """Declare a list of structures (given by their class) or of plain values (`f.array(f.int32())`)."""
    return Field("array", versions, default, nullable, ignorable, tag, element)


def struct(
    element: Any, versions: str = ALWAYS, *, nullable: str = "none", ignorable: bool = False, tag: int | None = None
) -> Any:
    """Declare a structure; None by default if it is nullable or tagged."""
    return Field("struct", versions, None, nullable, ignorable, tag, element)
