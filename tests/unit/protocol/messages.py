"""Hypothesis strategies for all declared messages, for property tests of the codecs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ottla.protocol.apis import APIS
from ottla.protocol.fields import Field
from ottla.protocol.message import Message, Struct
from ottla.protocol.messages import consumer_protocol, group_records

ALL: list[type[Message]] = [
    *(api.request for api in APIS),
    *(api.response for api in APIS),
    *(
        value
        for module in (consumer_protocol, group_records)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value.VERSIONS
    ),
]

TEXT = st.text(st.characters(codec="utf-8"), max_size=20) | st.just("x" * 200)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "float64": st.floats(allow_nan=False),
    "boolean": st.booleans(),
    "string": TEXT,
    "binary": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "uuid": st.uuids(),
}


def value_of(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.kind == "array":
        item = field.element
        one = value_of(item, version) if isinstance(item, Field) else struct_of(item, version)
        strategy: st.SearchStrategy[Any] = st.lists(one, max_size=2)
    elif field.kind == "struct":
        strategy = struct_of(field.element, version)
    else:
        strategy = PLAIN[field.kind]
    is_optional = field.nullable_in(version) or (field.kind == "struct" and field.tag is not None)
    return st.none() | strategy if is_optional else strategy


def struct_of(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for instances of a structure with any values in the fields of a version."""
    fields = {field.name: value_of(field, version) for field in cls.FIELDS if field.in_version(version)}
    return st.builds(lambda **values: cls(**values), **fields)


@st.composite
def any_message(draw: st.DrawFn) -> tuple[Message, int]:
    """Draw a message and a version to encode it in."""
    cls = draw(st.sampled_from(ALL))
    version = draw(st.sampled_from(list(cls.VERSIONS)))
    return draw(struct_of(cls, version)), version
