"""Writes the functions that encode and decode one version of one message, as Python source, and compiles them.

A codec is one flat function: nested structures become nested loops, and neighbours of fixed width (with the length
that follows them, where it has a fixed width too) are read or written by one `struct` call. So it looks like what one
would write by hand for that version alone, and Produce and Fetch are read at several hundred thousand per second.
It is compiled when a version is used for the first time: a process pays for the few that it meets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.errors import MalformedMessageError, UnsupportedVersionError
from ottla.protocol import wire
from ottla.protocol.fields import FIXED, Field

if TYPE_CHECKING:
    from ottla.protocol.message import Struct

Decoder = Callable[[memoryview, int, int], tuple[Any, int]]
"""(buffer, position, end) -> (instance, next position)"""
Encoder = Callable[[Any, bytearray, "list[tuple[int, Any]] | None"], None]
"""(instance, out, cuts); with `cuts`, records are noted there with their place instead of being copied to `out`."""


def malformed(what: str) -> MalformedMessageError:
    """The error of a length or count that does not fit what is there."""
    return MalformedMessageError(f"{what}: its length or count does not fit the bytes that are left")


def is_null(what: str) -> MalformedMessageError:
    """The error of a null where none may be."""
    return MalformedMessageError(f"{what} may not be null in this version")


def left_out(what: str, version: int) -> UnsupportedVersionError:
    """The error of a value that the version has no place for."""
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
    "is_null": is_null,
    "left_out": left_out,
    "unpack_from": struct.unpack_from,
    "pack": struct.pack,
}


class Source:
    """Lines of a function in the making, with the objects that it refers to and fresh variable names."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = cls.FLEXIBLE is not None and version >= cls.FLEXIBLE
        self.names: dict[str, Any] = dict(HELPERS)
        self.lines: list[str] = []
        self.depth = 1
        self._count = 0
        self.run: list[tuple[str, str]] = []
        """Neighbours of fixed width that wait for their common struct call: (format letter, variable or expression)."""

    def add(self, line: str) -> None:
        """One more line at the present depth."""
        self.lines.append("    " * self.depth + line)

    def fresh(self, prefix: str) -> str:
        """A variable name that no other part of the function uses."""
        self._count += 1
        return f"{prefix}{self._count}"

    def share(self, prefix: str, value: Any) -> str:
        """Make an object known to the function; its name there."""
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def indented(self, head: str, body: Callable[[], None]) -> None:
        """A block: `head`, and below it what `body` adds. A run never crosses the border of a block."""
        self.add(head)
        self.depth += 1
        before = len(self.lines)
        body()
        self.flush()
        if len(self.lines) == before:
            self.add("pass")
        self.depth -= 1

    def flush(self) -> None:
        """Write the struct call for the run that waits."""
        raise AssertionError("Reader and Writer know how")

    def compile(self, head: str) -> Any:
        """The finished function."""
        self.flush()
        name = f"{self.cls.__name__} v{self.version}"
        code = compile(head + "\n" + "\n".join(self.lines) + "\n", f"<{name}>", "exec")
        exec(code, self.names)
        return self.names["codec"]


def minimum_size(item: Any, version: int, flexible: bool) -> int:
    """The fewest bytes that a value (a Field or a Struct class) can take: what bounds the memory for an array of it."""
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
    """The decoder of one version."""

    def flush(self) -> None:
        """One unpack for the run."""
        if not self.run:
            return
        layout = struct.Struct(">" + "".join(letter for letter, _ in self.run))
        unpack = self.share("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in self.run)
        self.add(f"{targets}, = {unpack}(buf, pos)")
        self.add(f"pos += {layout.size}")
        self.run = []

    def structure(self, cls: type[Struct], target: str) -> None:
        """All fields of a structure, into a new object in the variable `target`."""
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
        """The expression of a field's default."""
        if field.kind == "array":
            return "None" if field.default is None else "[]"
        if field.kind == "uuid":
            return self.share("zero", field.default)
        if field.kind == "struct" and field.tag is None and field.nullable == "none":
            return self.share("C", field.element) + "()"
        return repr(field.default)

    def value(self, field: Field, place: str, what: str) -> None:
        """One value of any type into `place`."""
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
        """A structure within a structure; one that may be null has a byte before it, negative for null."""
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
        self.indented("if n < 0:", lambda: self.add(f"{place} = None"))
        self.indented("else:", body)

    def length(self, letter: str) -> None:
        """The length or count before a value, into `n`; below zero for null."""
        if not self.flexible:
            self.run.append((letter, "n"))
            self.flush()
            return
        self.flush()
        self.add("n = buf[pos] - 1")
        self.add("pos += 1")
        self.indented("if n > 126:", lambda: self.add("n, pos = uvarint(buf, pos - 1); n -= 1"))

    def sized(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """A value with its length or count before it."""
        self.length("h" if field.kind == "string" else "i")
        null = f"{place} = None" if nullable else f"raise is_null({what!r})"
        self.indented("if n < 0:", lambda: self.add(null))
        body = self.items if field.kind == "array" else self.content
        self.indented("else:", lambda: body(field, place, what))

    def content(self, field: Field, place: str, what: str) -> None:
        """Text or bytes of length `n`."""
        self.add("stop = pos + n")
        self.add(f"if stop > end: raise malformed({what!r})")
        made = {"string": "str(buf[pos:stop], 'utf-8')", "binary": "bytes(buf[pos:stop])", "records": "buf[pos:stop]"}
        self.add(f"{place} = {made[field.kind]}")
        self.add("pos = stop")

    def items(self, field: Field, place: str, what: str) -> None:
        """The `n` items of an array. A count is believed only as far as the bytes that are left can hold it."""
        item = field.element
        least = max(1, minimum_size(item, self.version, self.flexible))
        self.add(f"if n * {least} > end - pos: raise malformed({what!r})")
        if isinstance(item, Field) and item.kind in FIXED:
            self.add(f"{place} = list(unpack_from(f'>{{n}}{FIXED[item.kind][0]}', buf, pos))")
            self.add(f"pos += n * {least}")
            return
        found, one = self.fresh("a"), self.fresh("o")
        self.add(f"{place} = {found} = []")

        def body() -> None:
            if isinstance(item, Field):
                self.value(item, one, what)
            else:
                self.structure(item, one)
            self.flush()
            self.add(f"{found}.append({one})")

        self.indented("for _ in range(n):", body)

    def tags(self, cls: type[Struct], tagged: list[Field], target: str) -> None:
        """The tagged fields at the end of a structure; unknown ones are stepped over."""
        count, tag, stop = self.fresh("n"), self.fresh("tag"), self.fresh("stop")
        self.add(f"{count} = buf[pos]")
        self.add("pos += 1")

        def body() -> None:
            self.add(f"if {count} > 127: {count}, pos = uvarint(buf, pos - 1)")
            self.add(f"if {count} * 2 > end - pos: raise malformed({cls.__name__ + ' tags'!r})")
            self.indented(f"for _ in range({count}):", one)

        def one() -> None:
            self.add(f"{tag}, pos = uvarint(buf, pos)")
            self.add(f"{stop}, pos = uvarint(buf, pos)")
            self.add(f"{stop} += pos")
            self.add(f"if {stop} > end: raise malformed({cls.__name__ + ' tags'!r})")
            for field in tagged:
                self.indented(f"if {tag} == {field.tag}:", lambda field=field: known(field))  # type: ignore[misc]
            self.add(f"pos = {stop}")

        def known(field: Field) -> None:
            what = f"{cls.__name__}.{field.name}"
            self.value(field, f"{target}.{field.name}", what)
            self.flush()
            self.add(f"if pos != {stop}: raise malformed({what!r})")

        self.indented(f"if {count}:", body)


class Writer(Source):
    """The encoder of one version.

    A request that says what its version cannot carry is refused, since the broker would do something else. A response
    is answered in the version that the client chose: what that version does not know is left out (`lenient`).
    """

    lenient = False

    def flush(self) -> None:
        """One pack for the run."""
        if not self.run:
            return
        pack = self.share("pack", struct.Struct(">" + "".join(letter for letter, _ in self.run)).pack)
        self.add(f"out += {pack}({', '.join(expression for _, expression in self.run if expression)})")
        self.run = []

    def structure(self, cls: type[Struct], source: str) -> None:
        """All fields of the object in the variable `source`."""
        tagged = []
        for field in cls.FIELDS:
            place, what = f"{source}.{field.name}", f"{cls.__name__}.{field.name}"
            if not field.in_version(self.version):
                if not (field.ignorable or self.lenient):
                    self.add(f"if {self.differs(field, place)}: raise left_out({what!r}, {self.version})")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.value(field, place, what)
        if tagged and self.flexible:
            self.tags(tagged, source)
        elif self.flexible:
            self.run.append(("x", ""))

    def differs(self, field: Field, place: str) -> str:
        """The condition that a field does not have its default."""
        if field.kind == "array" and field.default is not None:
            return place
        if field.default is None and (field.kind != "struct" or field.tag is not None or field.nullable != "none"):
            return f"{place} is not None"
        if field.kind == "struct":
            return f"{place} != {self.share('zero', field.element())}"
        if field.kind == "uuid":
            return f"{place} != {self.share('zero', field.default)}"
        return f"{place} != {field.default!r}"

    def value(self, field: Field, place: str, what: str) -> None:
        """One value of any type from the expression `place`."""
        nullable = field.nullable_in(self.version)
        if field.kind in FIXED:
            self.run.append((FIXED[field.kind][0], place))
        elif field.kind == "uuid":
            self.run.append(("16s", f"{place}.bytes"))
        elif field.kind == "struct":
            self.nested(field, place, nullable)
        else:
            {"string": self.content, "binary": self.content, "records": self.records, "array": self.items}[field.kind](
                field, place, what, nullable
            )

    def nested(self, field: Field, place: str, nullable: bool) -> None:
        """A structure within a structure."""
        inner = self.fresh("o")
        self.flush()
        self.add(f"{inner} = {place}")
        if not nullable:
            self.structure(field.element, inner)
            return

        def body() -> None:
            self.run.append(("b", "1"))
            self.structure(field.element, inner)

        self.indented(f"if {inner} is None:", lambda: self.add(r"out += b'\xff'"))
        self.indented("else:", body)

    def length(self, letter: str, expression: str) -> None:
        """The length or count before a value."""
        if not self.flexible:
            self.run.append((letter, expression))
            self.flush()
            return
        self.flush()
        self.add(f"n = {expression} + 1")
        self.indented("if n < 128:", lambda: self.add("out.append(n)"))
        self.indented("else:", lambda: self.add("put_uvarint(out, n)"))

    def null(self, letter: str) -> None:
        """What stands for null: a length of -1."""
        self.add(r"out += b'\0'" if self.flexible else r"out += b'\xff\xff'" + (" * 2" if letter == "i" else ""))

    def optional(self, variable: str, letter: str, what: str, nullable: bool, body: Callable[[], None]) -> None:
        """`body`, or null where the variable is None."""
        self.flush()
        if nullable:
            self.indented(f"if {variable} is None:", lambda: self.null(letter))
        else:
            self.indented(f"if {variable} is None:", lambda: self.add(f"raise is_null({what!r})"))
        self.indented("else:", body)

    def content(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """Text or bytes."""
        letter, raw = ("h", self.fresh("s")) if field.kind == "string" else ("i", self.fresh("b"))

        def body() -> None:
            if field.kind == "string":
                self.add(f"{raw} = {raw}.encode()")
            self.length(letter, f"len({raw})")
            self.add(f"out += {raw}")

        if nullable:
            self.flush()
            self.add(f"{raw} = {place}")
            self.optional(raw, letter, what, nullable, body)
        else:
            # Without a branch the length joins the run before it.
            self.add(f"{raw} = {place}" + (".encode()" if field.kind == "string" else ""))
            self.length(letter, f"len({raw})")
            self.add(f"out += {raw}")

    def records(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """Record batches: copied, or noted with their place when the caller wants chunks."""
        found = self.fresh("r")
        self.flush()
        self.add(f"{found} = {place}")

        def body() -> None:
            self.add(f"size = size_of({found})")
            self.length("i", "size")
            self.indented("if cuts is not None:", lambda: self.add(f"if size: cuts.append((len(out), {found}))"))
            self.indented("else:", lambda: self.add(f"for piece in pieces_of({found}): out += content_of(piece)"))

        self.optional(found, "i", what, nullable, body)

    def items(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """An array."""
        item, found, one = field.element, self.fresh("a"), self.fresh("o")
        self.flush()
        self.add(f"{found} = {place}")

        def body() -> None:
            self.length("i", f"len({found})")
            if isinstance(item, Field) and item.kind in FIXED:
                self.add(f"out += pack(f'>{{len({found})}}{FIXED[item.kind][0]}', *{found})")
            elif isinstance(item, Field):
                self.indented(f"for {one} in {found}:", lambda: self.value(item, one, what))
            else:
                self.indented(f"for {one} in {found}:", lambda: self.structure(item, one))

        self.optional(found, "i", what, nullable, body)

    def tags(self, tagged: list[Field], source: str) -> None:
        """The tagged fields that differ from their defaults, in the order of their tags."""
        count, outer = self.fresh("n"), self.fresh("out")
        tagged = sorted(tagged, key=lambda f: f.tag or 0)
        conditions = [self.differs(field, f"{source}.{field.name}") for field in tagged]
        self.flush()
        self.add(f"{count} = " + " + ".join(f"(1 if {condition} else 0)" for condition in conditions))
        self.add(f"put_uvarint(out, {count})")

        def one(field: Field) -> None:
            self.add(f"{outer} = out")
            self.add("out = bytearray()")
            self.value(field, f"{source}.{field.name}", field.name)
            self.flush()
            self.add(f"put_uvarint({outer}, {field.tag})")
            self.add(f"put_uvarint({outer}, len(out))")
            self.add(f"{outer} += out")
            self.add(f"out = {outer}")

        def body() -> None:
            for field, condition in zip(tagged, conditions, strict=True):
                self.indented(f"if {condition}:", lambda field=field: one(field))  # type: ignore[misc]

        self.indented(f"if {count}:", body)


def make_decoder(cls: type[Struct], version: int) -> Decoder:
    """The function that reads this version of a message."""
    source = Reader(cls, version)
    source.structure(cls, "o")
    source.flush()
    source.add("return o, pos")
    decoder: Decoder = source.compile("def codec(buf, pos, end):")
    return decoder


def make_encoder(cls: type[Struct], version: int) -> Encoder:
    """The function that writes this version of a message."""
    source = Writer(cls, version)
    source.lenient = "Response" in {base.__name__ for base in cls.__mro__}
    source.structure(cls, "o")
    source.flush()
    source.add("return")
    encoder: Encoder = source.compile("def codec(o, out, cuts):")
    return encoder


class _New:
    """Stands in a signature for a list or structure that every instance gets for itself."""

    def __repr__(self) -> str:
        return "<new>"


NEW = _New()


def make_init(cls: type[Struct]) -> Callable[..., None]:
    """`__init__` with one keyword per field."""
    names: dict[str, Any] = {"NEW": NEW}
    parameters, body = [], []
    for field in cls.FIELDS:
        fresh = _fresh_default(field, names)
        if fresh:
            parameters.append(f"{field.name}=NEW")
            body.append(f"    self.{field.name} = {fresh} if {field.name} is NEW else {field.name}")
        else:
            names[f"_{field.name}"] = None if field.default == () else field.default
            parameters.append(f"{field.name}=_{field.name}")
            body.append(f"    self.{field.name} = {field.name}")
    star = ", *, " if parameters else ""
    source = f"def __init__(self{star}{', '.join(parameters)}):\n" + "\n".join(body or ["    pass"])
    exec(compile(source, f"<{cls.__name__}>", "exec"), names)
    init: Callable[..., None] = names["__init__"]
    return init


def _fresh_default(field: Field, names: dict[str, Any]) -> str:
    """The expression of a default that must not be shared between instances; nothing for a plain value."""
    if field.kind == "array" and field.default is not None:
        return "[]"
    if field.kind == "struct" and field.tag is None and field.nullable == "none":
        names[f"new_{field.name}"] = field.element
        return f"new_{field.name}()"
    return ""
