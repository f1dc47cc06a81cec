"""Decodes a batch of Avro records field by field, all rows at once, with NumPy: several times as fast as row by row.

The decoder has a position in the value of each row. It reads a field at the positions of all rows, and makes an Arrow
array of the values. Of arrays and maps, it reads the first item of all rows, then the second one, and so on. If a value
does not match its schema, the decoder raises MalformedBatchError; fastavro then reads these values, and its error says
what is wrong.

The package pyruhvro on PyPI is an alternative, but it calls itself experimental, and does not detect values that are
too long or too short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.serdes.framing import HEADER_BYTES

EARLY: Final = "the value ends too early"
MAX_VARINT_BITS: Final = 64
GATHERED_BYTES: Final = 24
"""Average length in bytes up to which texts are copied with an index per byte. Longer texts are copied one by one."""
DECIMAL_BYTES: Final = 16
"""Size in bytes of a number with 38 digits. A decimal may have more bytes, which only repeat its sign."""
MAX_DECIMAL_BYTES: Final = 64
"""Maximum size in bytes of a decimal. Converting a number of a million bytes would take minutes."""
DECIMALS: Final = Context(prec=40)
MAX_ITEMS: Final = 1000
"""Maximum number of steps that decode array and map items of a batch. A step decodes one item of each row that has one,
and costs as much as a field, so fastavro is faster for longer arrays.
"""
FEW_ROWS: Final = 50
"""Number of rows up to which it costs more to decode an array or map item here than with fastavro."""
MIN_ITEMS_OF_FEW: Final = 10
ROWS_PER_ITEM_OF_FEW: Final = 20
"""A batch may have MIN_ITEMS_OF_FEW items that at most FEW_ROWS rows have, and one more for every ROWS_PER_ITEM_OF_FEW
rows. If it has more of them, fastavro decodes it.
"""
COMPLEX: Final = ("record", "error", "enum", "fixed", "array", "map")
Positions = Any
Step = Callable[["Batch", Positions, Positions], tuple[Any, Positions]]
"""Reads a value per row: takes the batch, the rows' positions and ends, and returns an Arrow array and the positions
after the values. The array is None if the schema allows only null.
"""


class MalformedBatchError(ValueError):
    """A value of the batch does not match its schema, or has a part that only fastavro decodes.

    `rows`: the numbers of the rows with such values; None if it may be any row.
    """

    def __init__(self, message: str, rows: Any = None) -> None:
        super().__init__(message)
        self.rows = rows

    def among(self, rows: Any) -> MalformedBatchError:
        """Return this error with row numbers of the whole batch instead of positions in `rows`, a part of it."""
        return MalformedBatchError(str(self), None if self.rows is None else rows[self.rows])


def _check(is_malformed: Any, message: str) -> None:
    if is_malformed.any():
        raise MalformedBatchError(message, np.flatnonzero(is_malformed))


class UnsupportedTypeError(ValueError):
    """Raised for a schema, or a difference between two schemas, that only fastavro supports."""


class Batch:
    """The values of a batch as bytes, and a count of the array and map items in them."""

    def __init__(self, data: Any, rows: int) -> None:
        self.data = np.frombuffer(data, np.uint8)
        self._items = self._items_of_few = 0
        self._max_items_of_few = MIN_ITEMS_OF_FEW + rows // ROWS_PER_ITEM_OF_FEW

    def count_item(self, rows: int) -> None:
        """Count an item of an array or a map that `rows` rows have. Raises MalformedBatchError if there are too many
        items, because fastavro is then faster.
        """
        self._items += 1
        self._items_of_few += rows <= FEW_ROWS
        if self._items > MAX_ITEMS or self._items_of_few > self._max_items_of_few:
            raise MalformedBatchError("long arrays are left to fastavro")

    def longs(self, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        """Read zigzag varints of up to 64 bits."""
        _check(at >= ends, EARLY)
        byte = self.data[at]
        numbers = (byte & 0x7F).astype(np.uint64)
        at = at + 1
        rows = np.flatnonzero(byte & 0x80)
        shift = 7
        while rows.size:
            positions = at[rows]
            is_early = positions >= ends[rows]
            if is_early.any():
                raise MalformedBatchError(EARLY, rows[is_early])
            byte = self.data[positions]
            if shift + 7 > MAX_VARINT_BITS and (byte > 1).any():
                raise MalformedBatchError("a number has more than 64 bits", rows[byte > 1])
            numbers[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            at[rows] = positions + 1
            rows = rows[byte >= 0x80]
            shift += 7
        return (numbers >> np.uint64(1)).view(np.int64) ^ -(numbers & np.uint64(1)).view(np.int64), at

    def numbers(self, at: Positions, ends: Positions, count: int, message: str) -> tuple[Any, Positions]:
        """Read numbers from 0 to `count` - 1. Raises MalformedBatchError with the message for other numbers."""
        numbers, at = self.longs(at, ends)
        _check((numbers < 0) | (numbers >= count), message)
        return numbers, at

    def fixed(self, at: Positions, ends: Positions, kind: str) -> tuple[Any, Positions]:
        """Read numbers of a fixed size, such as `<f8`."""
        dtype = np.dtype(kind)
        after = at + dtype.itemsize
        _check(after > ends, EARLY)
        count = len(self.data) - dtype.itemsize + 1
        windows: Any = np.ndarray((max(count, 0),), dtype, self.data, strides=(1,))
        return windows[at] if len(at) else np.empty(0, dtype), after

    def binary(self, at: Positions, lengths: Any, ends: Positions) -> tuple[Any, Positions]:
        """Read byte strings of these lengths. Return them as an Arrow array, and the positions after them."""
        after = at + lengths
        _check((lengths < 0) | (after > ends) | (after < at), EARLY)
        offsets = np.zeros(len(at) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        total = int(offsets[-1])
        if total <= GATHERED_BYTES * len(at):
            data: Any = self.data[np.repeat(at - offsets[:-1], lengths) + np.arange(total)]
        else:
            view = self.data.data
            data = b"".join([view[start:end] for start, end in zip(at.tolist(), after.tolist(), strict=True)])
        return pa.Array.from_buffers(pa.binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(data)]), after


class BatchDecoder:
    """Decodes records with a schema that fastavro has parsed.

    Args:
        schema: the schema of a record.
        named: the named types.
        type_of: returns the Arrow type of a schema; None for null.
        branch_name: returns the name of a branch of a union.

    Raises UnsupportedTypeError for a schema that only fastavro can decode.
    """

    def __init__(
        self,
        schema: Any,
        named: Mapping[str, Any],
        type_of: Callable[[Any], Any],
        branch_name: Callable[[Any], str],
    ) -> None:
        self._named = named
        self._type_of = type_of
        self._branch_name = branch_name
        if not isinstance(schema, dict) or schema["type"] != "record":
            raise UnsupportedTypeError("the value is no record")
        self._names = [field["name"] for field in schema["fields"]]
        self._steps = [self._step(field["type"]) for field in schema["fields"]]

    def decode(self, values: Any) -> dict[str, Any]:
        """Return an Arrow array for each field of the records; None for a field that is always null. `values` are the
        records in binary form, each after the header with its schema id. Raises MalformedBatchError if one does not
        match the schema, or is left to fastavro.
        """
        _, offsets, data = values.buffers()
        bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
        at, ends = bounds[:-1] + HEADER_BYTES, bounds[1:]
        batch = Batch(data if data is not None else b"", len(values))
        arrays = {}
        for name, step in zip(self._names, self._steps, strict=True):
            arrays[name], at = step(batch, at, ends)
        _check(at != ends, "the value is longer or shorter than its schema says")
        return arrays

    def _step(self, schema: Any) -> Step:
        if isinstance(schema, str) and schema not in PRIMITIVES:
            schema = self._named[schema]
        if isinstance(schema, list):
            return self._union(schema)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if not isinstance(kind, str) or kind not in (*PRIMITIVES, *COMPLEX):
            return self._step(kind)
        column = self._type_of(schema)
        if kind in ("record", "error"):
            return self._record(schema, column)
        if column is not None and pa.types.is_decimal(column):
            if kind == "fixed" and schema["size"] > DECIMAL_BYTES:
                raise UnsupportedTypeError("long decimals are left to fastavro")
            return _decimals(_sized(schema.get("size") if kind == "fixed" else None), column)
        if kind in PRIMITIVES:
            return PRIMITIVES[kind](column)
        if kind == "fixed":
            return _sized(schema["size"])
        if kind == "enum":
            return _enum(schema["symbols"])
        if kind == "array":
            return self._list(self._step(schema["items"]), column)
        if kind == "map":
            return self._map(self._step(schema["values"]), column)
        raise UnsupportedTypeError(f"{kind} has no decoder for batches")

    def _list(self, step: Step, column: Any) -> Step:
        def array(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            items, at = _items(batch, at, ends, step)
            return pa.ListArray.from_arrays(items.offsets, items.array(column.value_type), column), at

        return array

    def _map(self, step: Step, column: Any) -> Step:
        entry = pa.struct([("key", pa.string()), ("value", column.item_type)])
        read_key = _string(pa.string())

        def read_entry(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            key, at = read_key(batch, at, ends)
            value, at = step(batch, at, ends)
            return pa.StructArray.from_arrays([key, value], fields=list(entry)), at

        def mapping(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            items, at = _items(batch, at, ends, read_entry)
            entries = items.array(entry)
            keys = pa.table([arrow_array(items.rows, pa.int64()), entries.field(0)], names=["row", "key"])
            if keys.group_by(["row", "key"]).aggregate([]).num_rows != keys.num_rows:
                raise MalformedBatchError("a key is there twice, which is left to fastavro")
            return pa.MapArray.from_arrays(items.offsets, entries.field(0), entries.field(1), column), at

        return mapping

    def _record(self, schema: Mapping[str, Any], column: Any) -> Step:
        steps = [self._step(field["type"]) for field in schema["fields"]]
        fields = list(column)

        def record(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            arrays = []
            for step in steps:
                array, at = step(batch, at, ends)
                if array is not None:
                    arrays.append(array)
            return pa.StructArray.from_arrays(arrays, fields=fields), at

        return record

    def _union(self, branches: Sequence[Any]) -> Step:
        types = [self._type_of(branch) for branch in branches]
        steps = [self._step(branch) for branch in branches]
        present = [number for number, kind in enumerate(types) if kind is not None]
        fields = [pa.field(self._branch_name(branches[number]), types[number]) for number in present]

        def union(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            numbers, at = batch.numbers(at, ends, len(branches), "the union has no such branch")
            arrays = []
            for number in present:
                is_branch = numbers == number
                if is_branch.all():
                    array, at = steps[number](batch, at, ends)
                else:
                    rows = np.flatnonzero(is_branch)
                    array, at[rows] = _among(rows, steps[number], batch, at, ends)
                    array = array.take(arrow_array(np.cumsum(is_branch) - 1, pa.int64(), is_branch))
                arrays.append(array)
            if len(present) == 1:
                return arrays[0], at
            is_null = np.isin(numbers, present, invert=True)
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=arrow_array(is_null, pa.bool_())), at

        return union if present else _null_union(len(branches))


def _among(rows: Any, step: Step, batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
    try:
        return step(batch, at[rows], ends[rows])
    except MalformedBatchError as error:
        raise error.among(rows) from None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


class _Items:
    """The items of arrays or maps. Each of `parts` has the next item of each row that has one, and the array at the
    same index in `owners` has these rows.
    """

    def __init__(self, parts: list[Any], owners: list[Any], rows: int) -> None:
        self._parts = parts
        owner = np.concatenate(owners) if owners else np.empty(0, np.int64)
        self._order = np.argsort(owner, kind="stable")
        self.rows = owner[self._order]
        self.offsets = arrow_array(np.searchsorted(self.rows, np.arange(rows + 1)).astype(np.int32), pa.int32())

    def array(self, kind: Any) -> Any:
        """Return the items of all rows, one row after the other."""
        if not self._parts:
            return pa.nulls(0, kind)
        return pa.concat_arrays(self._parts).take(arrow_array(self._order, pa.int64()))


def _items(batch: Batch, at: Positions, ends: Positions, step: Step) -> tuple[_Items, Positions]:
    """Read blocks of items, up to an empty one."""
    at, blocks = at.copy(), np.arange(len(at))
    parts: list[Any] = []
    owners: list[Any] = []
    while blocks.size:
        counts, at[blocks] = _among(blocks, Batch.longs, batch, at, ends)
        sized = blocks[counts < 0]  # has its size in bytes, too
        _, at[sized] = _among(sized, Batch.longs, batch, at, ends)
        is_endless = counts == np.iinfo(np.int64).min  # which has no absolute value
        if is_endless.any():
            raise MalformedBatchError("a block has no such number of items", blocks[is_endless])
        blocks, left = blocks[counts != 0], np.abs(counts[counts != 0])
        rows = blocks
        while rows.size:
            batch.count_item(rows.size)
            part, at[rows] = _among(rows, step, batch, at, ends)
            parts.append(part)
            owners.append(rows)
            left = left - 1
            rows, left = rows[left > 0], left[left > 0]
    return _Items(parts, owners, len(at)), at


def arrow_array(numbers: Any, kind: Any, validity: Any = None) -> Any:
    """Return an Arrow array of NumPy numbers. `validity`: False for nulls. Unlike `pa.array`, it imports no pandas."""
    rows = len(numbers)
    if kind == pa.bool_():
        numbers = np.packbits(numbers, bitorder="little")
    bits = None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(np.ascontiguousarray(numbers))])


def _null(kind: Any) -> Step:
    return lambda batch, at, ends: (None, at)


def _null_union(branches: int) -> Step:
    def union(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        _, at = batch.numbers(at, ends, branches, "the union has no such branch")
        return None, at

    return union


def _boolean(kind: Any) -> Step:
    def boolean(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        numbers, at = batch.fixed(at, ends, "u1")
        return arrow_array(numbers != 0, kind), at

    return boolean


def _int(kind: Any) -> Step:
    def integer(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        numbers, at = batch.longs(at, ends)
        narrow = numbers.astype(np.int32)
        _check(narrow != numbers, "an int has more than 32 bits")
        return arrow_array(narrow, kind), at

    return integer


def _long(kind: Any) -> Step:
    def long(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        numbers, at = batch.longs(at, ends)
        return arrow_array(numbers, kind), at

    return long


def _number(dtype: str) -> Callable[[Any], Step]:
    def number_of(kind: Any) -> Step:
        def number(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
            numbers, at = batch.fixed(at, ends, dtype)
            return arrow_array(numbers, kind), at

        return number

    return number_of


def _bytes(kind: Any) -> Step:
    return _sized(None)


def _sized(size: int | None) -> Step:
    """Return a decoder of byte strings. `size` is their length; None if each one begins with its length."""

    def sized(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        lengths, at = batch.longs(at, ends) if size is None else (np.full(len(at), size, np.int64), at)
        # So that their sum has no more than 64 bits.
        _check(lengths > len(batch.data), EARLY)
        return batch.binary(at, lengths, ends)

    return sized


def _string(kind: Any) -> Step:
    read = _sized(None)

    def string(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        array, at = read(batch, at, ends)
        try:
            return array.cast(pa.string()), at
        except pa.ArrowInvalid:
            is_malformed = np.fromiter((not _is_utf8(text) for text in array.to_pylist()), bool, len(array))
            raise MalformedBatchError("malformed UTF-8", np.flatnonzero(is_malformed)) from None

    return string


def _enum(symbols: Sequence[str]) -> Step:
    names = pa.array(list(symbols), pa.string())

    def enum(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        numbers, at = batch.numbers(at, ends, len(names), "the enum has no such symbol")
        return names.take(arrow_array(numbers, pa.int64())), at

    return enum


def _decimals(read: Step, kind: Any) -> Step:
    widest = pa.decimal128(38, kind.scale)
    largest = Decimal(10**kind.precision - 1).scaleb(-kind.scale, DECIMALS)
    limits = [pa.array([limit], widest)[0] for limit in (largest.copy_negate(), largest)]

    def decimals(batch: Batch, at: Positions, ends: Positions) -> tuple[Any, Positions]:
        array, at = read(batch, at, ends)
        offsets = np.frombuffer(array.buffers()[1], np.int32)[: len(array) + 1].astype(np.int64)
        data = np.frombuffer(array.buffers()[2], np.uint8)
        lengths = np.diff(offsets)
        _check(lengths > MAX_DECIMAL_BYTES, "the decimal is too long")
        if (lengths > DECIMAL_BYTES).any():
            # All rows together: one by one, as invalid rows are read, takes 60 times as long if many are long.
            raise MalformedBatchError("long decimals are left to fastavro")
        digits = np.zeros((len(array), DECIMAL_BYTES), np.uint8)
        rows = np.flatnonzero(lengths)
        digits[rows] = np.where(data[offsets[rows]] >= 0x80, 0xFF, 0)[:, None]  # the sign
        for place in range(int(lengths.max(initial=0))):
            rows = np.flatnonzero(lengths > place)
            digits[rows, place] = data[offsets[rows + 1] - 1 - place]
        wide = pa.Array.from_buffers(widest, len(array), [None, pa.py_buffer(digits)])
        is_out = pc.or_(pc.less(wide, limits[0]), pc.greater(wide, limits[1]))
        if pc.any(is_out).as_py():
            rows = pc.indices_nonzero(is_out)
            raise MalformedBatchError("the decimal has too many digits", np.frombuffer(rows.buffers()[1], np.uint64))
        return wide.cast(kind), at

    return decimals


PRIMITIVES: Final[Mapping[str, Callable[[Any], Step]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _number("<f4"),
    "double": _number("<f8"),
    "bytes": _bytes,
    "string": _string,
}
