"""Generates decoders; see `codegen`."""

from __future__ import annotations

import struct
from typing import Any

from ottla.protocol.codegen import MAX_STRING_BYTES, Decoder, SlicedDecoder, Source
from ottla.protocol.fields import FIXED, Declared, Field

MAX_TAGS = 1000
"""The maximum number of tagged fields of one structure; Kafka has a handful."""


def minimum_size(item: Any, version: int, flexible: bool) -> int:
    """Return the minimum encoded size in bytes of a value of `item`, a Field or a Struct class.

    The count of an array is checked against it before memory is allocated for the items.
    """
    if isinstance(item, Field):
        if item.kind in FIXED:
            return FIXED[item.kind][1]
        if item.kind == "uuid":
            return 16
        if item.kind == "struct":
            return 1 if item.nullable_in(version) else minimum_size(item.element, version, flexible)
        return 1 if flexible else 2 if item.kind == "string" else 4
    present = [f for f in item.FIELDS if f.in_version(version) and f.tag is None]
    return sum(minimum_size(f, version, flexible) for f in present) + (1 if flexible else 0)


class Reader(Source):
    """Generates the decoder of one version. A method that "reads" something adds the lines that do so."""

    def flush(self) -> None:
        """Add one struct call that unpacks all values of the pending run, if there are any."""
        if not self.run:
            return
        layout = struct.Struct(">" + "".join(letter for letter, _ in self.run))
        unpack = self.share("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in self.run)
        self.add(f"{targets}, = {unpack}(buf, pos)")
        self.add(f"pos += {layout.size}")
        self.run = []

    def structure(self, cls: type[Declared], target: str) -> None:
        """Read a structure into a new object in the variable `target`."""
        self.add(f"{target} = new({self.share('C', cls)})")
        tagged = []
        for field in cls.FIELDS:
            place = f"{target}.{field.name}"
            if not field.in_version(self.version):
                self.add(f"{place} = {self.default(field)}")
            elif field.tag is not None:
                self.add(f"{place} = {self.default(field)}")
                tagged.append(field)
            else:
                self.value(field, place, f"{cls.__name__}.{field.name}")
        if self.flexible:
            self.flush()
            self.tags(cls, tagged, target)

    def default(self, field: Field) -> str:
        """Return the expression of a field's default."""
        if field.kind == "array":
            return "None" if field.default is None else "[]"
        if field.kind == "uuid":
            return self.share("zero", field.default)
        if field.kind == "struct" and field.tag is None and field.nullable == "none":
            return self.share("C", field.element) + "()"
        return repr(field.default)

    def value(self, field: Field, place: str, what: str) -> None:
        """Read one value of any type into `place`."""
        nullable = field.nullable_in(self.version)
        if field.kind in FIXED:
            self.run.append((FIXED[field.kind][0], place))
        elif field.kind == "uuid":
            self.flush()
            self.add(f"if pos + 16 > end: raise malformed({what!r})")
            self.add(f"{place} = read_uuid(bytes(buf[pos:pos + 16]))")
            self.add("pos += 16")
        elif field.kind == "struct":
            self.nested(field, place, nullable)
        else:
            self.sized(field, place, what, nullable)

    def nested(self, field: Field, place: str, nullable: bool) -> None:
        """Read a nested structure. If it may be null, a byte precedes it: below 0 for null (below 1 in a tag)."""
        inner = self.fresh("o")

        def body() -> None:
            self.structure(field.element, inner)
            self.flush()
            self.add(f"{place} = {inner}")

        if not nullable:
            self.flush()
            body()
            return
        self.run.append(("b", "n"))
        self.flush()
        self.indented("if n < 0:" if field.tag is None else "if n < 1:", lambda: self.add(f"{place} = None"))
        self.indented("else:", body)

    def length(self, letter: str) -> None:
        """Read the length or count before a value into `n`; it is below zero for null."""
        if not self.flexible:
            self.run.append((letter, "n"))
            self.flush()
            return
        self.flush()
        self.add("n = buf[pos] - 1")
        self.add("pos += 1")
        self.indented("if n > 126:", lambda: self.add("n, pos = uvarint(buf, pos - 1); n -= 1"))

    def sized(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """Read a value with its length or count before it."""
        self.length("h" if field.kind == "string" else "i")
        null = f"{place} = None" if nullable else f"raise is_null({what!r})"
        self.indented("if n < 0:", lambda: self.add(null))
        body = self.items if field.kind == "array" else self.content
        self.indented("else:", lambda: body(field, place, what))

    def content(self, field: Field, place: str, what: str) -> None:
        """Read text or bytes of length `n`."""
        if field.kind == "string" and self.flexible:
            self.add(f"if n > {MAX_STRING_BYTES}: raise string_too_long({what!r})")
        self.add("stop = pos + n")
        self.add(f"if stop > end: raise malformed({what!r})")
        made = {"string": "str(buf[pos:stop], 'utf-8')", "binary": "bytes(buf[pos:stop])", "records": "buf[pos:stop]"}
        self.add(f"{place} = {made[field.kind]}")
        self.add("pos = stop")

    def items(self, field: Field, place: str, what: str) -> None:
        """Read the `n` items of an array. The count must fit into the remaining bytes."""
        item = field.element
        least = max(1, minimum_size(item, self.version, self.flexible))
        self.add(f"if n * {least} > end - pos: raise malformed({what!r})")
        if self.sliced:
            self.add("left -= n")
            self.add(f"if left < 0: raise too_many_items({what!r})")
        if isinstance(item, Field) and item.kind in FIXED:
            self.add(f"{place} = list(unpack_from(f'>{{n}}{FIXED[item.kind][0]}', buf, pos))")
            self.add(f"pos += n * {least}")
            return
        array, one = self.fresh("a"), self.fresh("o")
        self.add(f"{place} = {array} = []")

        def body() -> None:
            self.count_item()
            if isinstance(item, Field):
                self.value(item, one, what)
            else:
                self.structure(item, one)
            self.flush()
            self.add(f"{array}.append({one})")

        self.indented("for _ in range(n):", body)

    def tags(self, cls: type[Declared], tagged: list[Field], target: str) -> None:
        """Read the tagged fields at the end of a structure; skip unknown ones."""
        count, tag, stop = self.fresh("n"), self.fresh("tag"), self.fresh("stop")
        self.add(f"{count} = buf[pos]")
        self.add("pos += 1")

        def body() -> None:
            self.add(f"if {count} > 127: {count}, pos = uvarint(buf, pos - 1)")
            self.add(f"if {count} * 2 > end - pos: raise malformed({cls.__name__ + ' tags'!r})")
            self.add(f"if {count} > {MAX_TAGS}: raise malformed({cls.__name__ + ' tags'!r})")
            self.indented(f"for _ in range({count}):", one)

        def one() -> None:
            self.add(f"{tag}, pos = uvarint(buf, pos)")
            self.add(f"{stop}, pos = uvarint(buf, pos)")
            self.add(f"{stop} += pos")
            self.add(f"if {stop} > end: raise malformed({cls.__name__ + ' tags'!r})")
            for field in tagged:
                self.indented(f"if {tag} == {field.tag}:", lambda field=field: declared(field))  # type: ignore[misc]
            self.add(f"pos = {stop}")

        def declared(field: Field) -> None:
            what = f"{cls.__name__}.{field.name}"
            self.value(field, f"{target}.{field.name}", what)
            self.flush()
            self.add(f"if pos != {stop}: raise malformed({what!r})")

        self.indented(f"if {count}:", body)


def make_decoder(cls: type[Declared], version: int) -> Decoder:
    """Return the function that decodes this version of a message."""
    decoder: Decoder = _source(Reader(cls, version)).compile("def codec(buf, pos, end):")
    return decoder


def make_sliced_decoder(cls: type[Declared], version: int) -> SlicedDecoder:
    """Return the generator function that decodes this version of a message, and limits the items of all arrays."""
    decoder: SlicedDecoder = _source(Reader(cls, version, sliced=True)).compile("def codec(buf, pos, end, left):")
    return decoder


def _source(source: Reader) -> Reader:
    source.structure(source.cls, "o")
    source.flush()
    source.add("return o, pos")
    return source
