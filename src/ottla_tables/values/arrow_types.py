"""Arrow types of columns: how they grow with newer schemas, and how arrays become arrays of the columns' types."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

WIDER: Final = frozenset({(pa.int32(), pa.int64()), (pa.float32(), pa.float64())})
"""The pairs of a type of numbers and the wider type that a column may change to. Decimals may change, too."""


def grown_schema(old: Any, new: Any) -> Any:
    """Return the schema of a table after it has evolved from `old` to `new`.

    It has the columns of both. A column of both has the type that `grown` returns.
    """
    columns = grown(pa.struct(list(old)), pa.struct(list(new)))
    own = {field.name: field for field in (*new, *old)}
    return pa.schema([own[field.name].with_type(field.type) for field in columns])


def grown(old: Any, new: Any, *, widens: bool = True) -> Any:
    """Return the type of a column after values of type `new` are added: `old`, with the struct fields that only `new`
    has.

    `widens`: whether the type of a number is replaced by the new one if that is wider, such as long instead of int.
    """
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        own = {field.name: field.type for field in old}
        fields = [*own, *(field.name for field in new if field.name not in own)]
        added = {field.name: field.type for field in new}
        return pa.struct([(name, _grown_field(own.get(name), added.get(name), widens)) for name in fields])
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, grown(old.item_type, new.item_type, widens=widens))
    if _is_list(old) and _is_list(new):
        return pa.list_(grown(old.value_type, new.value_type, widens=widens))
    return new if widens and _is_wider(new, old) else old


def _grown_field(old: Any, new: Any, widens: bool) -> Any:
    if old is None or new is None:
        return new if old is None else old
    return grown(old, new, widens=widens)


def _is_wider(kind: Any, other: Any) -> bool:
    """Return whether a column may change from the type `other` to `kind`. These are promotions that Iceberg allows."""
    if pa.types.is_decimal128(kind) and pa.types.is_decimal128(other):
        return bool(kind.scale == other.scale and kind.precision > other.precision)
    return (other, kind) in WIDER


def lacks(own: Any, other: Any, *, widens: bool = True) -> bool:
    """Return whether the type `own` has to grow for values of the type `other`: because its structs lack fields of that
    type or, with `widens`, because its numbers are narrower.
    """
    if pa.types.is_struct(own) and pa.types.is_struct(other):
        types = {field.name: field.type for field in own}
        return any(field.name not in types or lacks(types[field.name], field.type, widens=widens) for field in other)
    if pa.types.is_map(own) and pa.types.is_map(other):
        return lacks(own.item_type, other.item_type, widens=widens)
    if _is_list(own) and _is_list(other):
        return lacks(own.value_type, other.value_type, widens=widens)
    return widens and _is_wider(other, own)


def column_type(kind: Any) -> Any:
    """Return the type of a column for values of type `kind`.

    Timestamps are in microseconds, as in all tables that Ottla writes. Large lists become lists, and fields within
    structures and lists are nullable.
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, column_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, column_type(kind.item_type))
    if _is_list(kind):
        return pa.list_(column_type(kind.value_type))
    return kind


def conformed(array: Any, kind: Any) -> Any:
    """Return an array converted to a column's type. Fields of structs are matched by name; missing ones are null.

    Nanoseconds are cut off. Raises ArrowInvalid if a value cannot be converted.
    """
    own = array.type
    if own == kind:
        return array
    if pa.types.is_struct(own) and pa.types.is_struct(kind):
        arrays = [
            conformed(array.field(index), field.type)
            if (index := own.get_field_index(field.name)) >= 0
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(own) and pa.types.is_map(kind):
        keys, items = conformed(array.keys, kind.key_type), conformed(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, kind)
    if _is_list(own) and _is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), conformed(array.values, kind.value_type), kind)
    if pa.types.is_string(own) and pa.types.is_timestamp(kind):
        array = pc.replace_substring_regex(array, r"(\.\d{6})\d+", r"\1")
    if kind == pa.float32() and own == pa.float64():
        return _exact_floats(array)
    is_time = pa.types.is_timestamp(own) and pa.types.is_timestamp(kind)
    try:
        # Finer units than microseconds are cut off, but a number that does not fit is an error.
        return array.cast(kind, safe=not (is_time and own.unit == "ns"))
    except pa.ArrowNotImplementedError as error:
        raise pa.ArrowInvalid(str(error)) from error


def _exact_floats(array: Any) -> Any:
    """Convert 64-bit floats to 32 bits. Raises ArrowInvalid if a value cannot be represented exactly."""
    floats = array.cast(pa.float32())
    is_same = pc.or_(pc.equal(floats.cast(pa.float64()), array), pc.is_nan(array))
    if not pc.all(is_same, min_count=0).as_py():
        raise pa.ArrowInvalid("the double is not a float")
    return floats


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _offsets(array: Any) -> Any:
    """Return the offsets of a list or map array, with null as the offset of each list or map that is null."""
    offsets = array.offsets.cast(pa.int32())
    if not array.null_count:
        return offsets
    is_null = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pc.if_else(is_null, pa.scalar(None, pa.int32()), offsets)
