"""Generates encoders; see `codegen`."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ottla.protocol.codegen import MAX_STRING_BYTES, Encoder, SlicedEncoder, Source
from ottla.protocol.fields import FIXED, Declared, Field


class EncoderWriter(Source):
    """Generates the encoder of one version. A method that "writes" something adds the lines that do so.

    Encoding fails if a field is set that the version does not have, unless the field is ignorable: the receiver would
    not do what the field requests. Responses leave such fields out (`lenient`), because the client chooses the version.
    """

    lenient = False

    def flush(self) -> None:
        """Add one struct call that packs all values of the pending run, if there are any."""
        if not self.run:
            return
        pack = self.share("pack", struct.Struct(">" + "".join(letter for letter, _ in self.run)).pack)
        self.add(f"out += {pack}({', '.join(expression for _, expression in self.run if expression)})")
        self.run = []

    def structure(self, cls: type[Declared], source: str) -> None:
        """Write the object in the variable `source`."""
        tagged = []
        for field in cls.FIELDS:
            place, what = f"{source}.{field.name}", f"{cls.__name__}.{field.name}"
            if not field.in_version(self.version):
                if not (field.ignorable or self.lenient):
                    self.add(f"if {self.differs(field, place)}: raise unsupported_field({what!r}, {self.version})")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.value(field, place, what)
        if tagged and self.flexible:
            self.tags(tagged, source)
        elif self.flexible:
            self.run.append(("x", ""))

    def differs(self, field: Field, place: str) -> str:
        """Return the source of the condition that a field differs from its default; "True" for a nullable structure in
        a tag.
        """
        if field.kind == "array" and field.default is not None:
            return f"{place} is None or {place}" if field.nullable_in(self.version) else place
        if field.kind == "struct" and field.tag is not None and field.nullable_in(self.version):
            return "True"  # to Kafka, a missing tag is an empty structure, so null has to be written
        if field.default is None and (field.kind != "struct" or field.tag is not None or field.nullable != "none"):
            return f"{place} is not None"
        if field.kind == "struct":
            return f"{place} != {self.share('zero', field.element())}"
        if field.kind == "uuid":
            return f"{place} != {self.share('zero', field.default)}"
        return f"{place} != {field.default!r}"

    def value(self, field: Field, place: str, what: str) -> None:
        """Write one value of any type from the expression `place`."""
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
        """Write a nested structure."""
        inner = self.fresh("o")
        self.flush()
        self.add(f"{inner} = {place}")
        if not nullable:
            self.structure(field.element, inner)
            return

        def body() -> None:
            self.run.append(("b", "1"))
            self.structure(field.element, inner)

        null = r"out += b'\xff'" if field.tag is None else r"out += b'\0'"
        self.indented(f"if {inner} is None:", lambda: self.add(null))
        self.indented("else:", body)

    def length(self, letter: str, expression: str) -> None:
        """Write the length or count before a value."""
        if not self.flexible:
            self.run.append((letter, expression))
            self.flush()
            return
        self.flush()
        self.add(f"n = {expression} + 1")
        self.indented("if n < 128:", lambda: self.add("out.append(n)"))
        self.indented("else:", lambda: self.add("put_uvarint(out, n)"))

    def null(self, letter: str) -> None:
        """Write null: a length of -1, or the byte 0 in flexible versions."""
        self.add(r"out += b'\0'" if self.flexible else r"out += b'\xff\xff'" + (" * 2" if letter == "i" else ""))

    def optional(self, variable: str, letter: str, what: str, nullable: bool, body: Callable[[], None]) -> None:
        """Write a value with `body`. If the variable is None, write null, or raise an error if the field is not
        nullable.
        """
        self.flush()
        if nullable:
            self.indented(f"if {variable} is None:", lambda: self.null(letter))
        else:
            self.indented(f"if {variable} is None:", lambda: self.add(f"raise is_null({what!r})"))
        self.indented("else:", body)

    def content(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """Write text or bytes."""
        letter, raw = ("h", self.fresh("s")) if field.kind == "string" else ("i", self.fresh("b"))

        def body() -> None:
            if field.kind == "string":
                self.add(f"{raw} = {raw}.encode()")
                if self.lenient and field.name == "error_message":
                    self.add(f"if len({raw}) > {MAX_STRING_BYTES}: {raw} = fitting({raw})")
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
        """Write record batches: copy them, or note their position if the caller requests chunks."""
        name = self.fresh("r")
        self.flush()
        self.add(f"{name} = {place}")

        def body() -> None:
            self.add(f"size = size_of({name})")
            self.length("i", "size")
            self.indented("if cuts is not None:", lambda: self.add(f"if size: cuts.append((len(out), {name}))"))
            self.indented("else:", lambda: self.add(f"for piece in pieces_of({name}): out += content_of(piece)"))

        self.optional(name, "i", what, nullable, body)

    def items(self, field: Field, place: str, what: str, nullable: bool) -> None:
        """Write an array."""
        item, array, one = field.element, self.fresh("a"), self.fresh("o")
        self.flush()
        self.add(f"{array} = {place}")

        def body() -> None:
            self.length("i", f"len({array})")
            if isinstance(item, Field) and item.kind in FIXED:
                self.add(f"out += pack(f'>{{len({array})}}{FIXED[item.kind][0]}', *{array})")
            elif isinstance(item, Field):
                self.indented(f"for {one} in {array}:", lambda: self.counted(lambda: self.value(item, one, what)))
            else:
                self.indented(f"for {one} in {array}:", lambda: self.counted(lambda: self.structure(item, one)))

        self.optional(array, "i", what, nullable, body)

    def counted(self, body: Callable[[], None]) -> None:
        """Write one item in a loop."""
        self.count_item()
        body()

    def tags(self, tagged: list[Field], source: str) -> None:
        """Write the tagged fields for which the condition of `differs` is true, in the order of their tags."""
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


def make_encoder(cls: type[Declared], version: int) -> Encoder:
    """Return the function that encodes this version of a message."""
    encoder: Encoder = _source(EncoderWriter(cls, version)).compile("def codec(o, out, cuts):")
    return encoder


def make_sliced_encoder(cls: type[Declared], version: int) -> SlicedEncoder:
    """Return the generator function that encodes this version of a message."""
    encoder: SlicedEncoder = _source(EncoderWriter(cls, version, sliced=True)).compile("def codec(o, out, cuts):")
    return encoder


def _source(source: EncoderWriter) -> EncoderWriter:
    source.lenient = "Response" in {base.__name__ for base in source.cls.__mro__}
    source.structure(source.cls, "o")
    source.flush()
    source.add("return")
    return source
