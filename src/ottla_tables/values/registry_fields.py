"""A column per field of values whose schemas are in a schema registry.

The columns come from the latest schema of the subject `TOPIC-value`. The values of a batch are grouped by the schema
ids before them; each group is decoded at once, and resolved into the latest schema. A schema id that is new makes the
converter look for a newer latest schema, so a new field has its column before its first value.

A value without a schema id, of an unknown schema, or that does not match its schema, is a dead letter. If the registry
does not respond, the conversion of the batch fails.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.serdes import RegisteredSchema, Schema, SchemaRegistryClient, SchemaRegistryError
from ottla.serdes.framing import HEADER_BYTES, schema_id_of
from ottla_tables.columns import RECORD
from ottla_tables.errors import TableError
from ottla_tables.values.arrow_types import column_type, conformed, grown
from ottla_tables.values.column_names import column_of
from ottla_tables.values.json_fields import RECORD_COLUMNS
from ottla_tables.values.rows import DEAD_LETTER, InvalidRowsError, Rows, by_halves, dead_letters
from ottla_tables.values.value_schema import VALUE, Decode, ValueSchema

SUBJECT_NOT_FOUND: Final = (404, 40401, 40402)
SCHEMA_NOT_FOUND: Final = (404, 40403)
MAX_DECODERS: Final = 1000
"""Maximum number of schema ids whose decoders are remembered."""

OpenSchema = Callable[[SchemaRegistryClient, Schema], ValueSchema]


def open_schema(registry: SchemaRegistryClient, schema: Schema) -> ValueSchema:
    """Return the columns of a schema and its decoders. Raises ValueError or RecursionError if the schema is invalid
    or cannot have columns, SchemaRegistryError if its references cannot be loaded, and ModuleNotFoundError if a package
    is missing.
    """
    if schema.schema_type == "PROTOBUF":
        from ottla_tables.values.protobuf_values import ProtobufValues

        return ProtobufValues(registry, schema)
    if schema.schema_type == "JSON":
        from ottla_tables.values.json_schema_values import JsonSchemaValues

        return JsonSchemaValues(registry, schema)
    from ottla_tables.values.avro_values import AvroValues

    return AvroValues(registry, schema)


class RegistryConverter:
    """Converts records to rows with a column per field of the latest schema.

    Args:
        registry: the client of the schema registry.
        topic: the topic, whose name is in the subject.
        table: the schema of the table so far, whose columns keep their types.
        widens: whether columns of numbers may get wider types nevertheless.
    """

    def __init__(self, registry: SchemaRegistryClient, topic: str, table: Any, *, widens: bool = True) -> None:
        self._registry = registry
        self._widens = widens
        self._subject = f"{topic}-value"
        self._own = [field for field in RECORD if field.name in RECORD_COLUMNS]
        names = {field.name for field in self._own}
        self._columns = {field.name: field.type for field in table if field.name not in names}
        self._latest: RegisteredSchema | None = None
        self._values: ValueSchema | None = None
        self._decoders: OrderedDict[int, Decode | str] = OrderedDict()
        """Decoders by schema id; for an id whose values are dead letters, the reason."""
        self._missing: dict[int, str] = {}
        """Schema ids that the registry did not have when this batch was converted, with the reasons. They are looked up
        again for the next batch, because a replica of the registry may not have the newest schemas yet.
        """
        self.schema: Any = self._schema()
        self._refresh()

    def _schema(self) -> Any:
        return pa.schema([*self._own, *(pa.field(name, kind) for name, kind in self._columns.items())])

    def convert(self, records: Any) -> Rows:
        """Return rows with the fields of the values. Raises SchemaRegistryError if a request to the registry fails,
        except that a value with an unknown schema is a dead letter. Raises TableError if there is no usable latest
        schema.
        """
        self._missing.clear()
        parts = [
            Rows(self._empty(), dead_letters(part, decoder))
            if isinstance(decoder, str)
            else by_halves(part, partial(self._rows, decoder), self.schema)
            for decoder, part in self._groups(list(_by_schema(records)))
        ]
        if len(parts) == 1:
            return parts[0]
        dead = [part.dead for part in parts if part.dead is not None]
        batch = _concatenated([part.batch for part in parts], self.schema)
        return Rows(batch, _concatenated(dead, DEAD_LETTER) if dead else None)

    def _groups(self, parts: list[tuple[int | None, Any]]) -> list[tuple[Decode | str | None, Any]]:
        """Return records with their decoders, which all resolve into the same latest schema."""
        while True:
            values = self._values
            groups = [(self._decoder(schema_id), part) for schema_id, part in parts]
            if self._values is values:
                return groups

    def _decoder(self, schema_id: int | None) -> Decode | str | None:
        """Return the decoder of a schema; None for tombstones; for values that become dead letters, the reason."""
        if schema_id is None:
            return None
        if schema_id == NO_ID:
            return "the value does not begin with a zero byte and a schema id"
        if schema_id in self._missing:
            return self._missing[schema_id]
        if schema_id not in self._decoders:
            try:
                writer = self._registry.schema(schema_id)
            except SchemaRegistryError as error:
                if error.error_code not in SCHEMA_NOT_FOUND:
                    raise
                self._missing[schema_id] = f"the schema registry has no schema {schema_id}: {error}"
                return self._missing[schema_id]
            self._decoders[schema_id] = self._open_decoder(schema_id, writer)
            if len(self._decoders) > MAX_DECODERS:
                self._decoders.popitem(last=False)
        return self._decoders[schema_id]

    def _open_decoder(self, schema_id: int, writer: Schema) -> Decode | str:
        self._refresh()
        if self._values is None:
            raise TableError(f"the schema registry has no subject {self._subject}, which the columns come from")
        try:
            return self._values.decoder(writer)
        except (ValueError, RecursionError) as error:
            return f"schema {schema_id}: {error}"

    def _refresh(self) -> None:
        """Load the latest schema, if there is one. If it has changed, add its columns. Raises TableError if it cannot
        be used.
        """
        try:
            latest = self._registry.latest(self._subject)
        except SchemaRegistryError as error:
            if error.error_code not in SUBJECT_NOT_FOUND:
                raise
            return  # without records, the table has no fields yet
        if self._latest is not None and latest.schema == self._latest.schema:
            return
        try:
            self._values = open_schema(self._registry, latest.schema)
        except (ValueError, RecursionError) as error:
            raise TableError(f"{self._subject}, version {latest.version}: {error}") from error
        self._latest = latest
        self._decoders.clear()
        for field in self._values.fields:
            kind, name = column_type(field.type), _column(field.name)
            own = self._columns.get(name)
            self._columns[name] = kind if own is None else grown(own, kind, widens=self._widens)
        self.schema = self._schema()

    def _rows(self, decode: Decode | None, records: Any) -> Any:
        """Return the rows of records that `decode` decodes (None: tombstones). Raises ArrowInvalid or InvalidRowsError
        if a value cannot be converted to a row.
        """
        arrays = {field.name: records.column(field.name) for field in self._own}
        if decode is not None and records.num_rows:
            assert self._values is not None, "there is a decoder"
            try:
                columns = decode(records.column("value"))
            except (MemoryError, InvalidRowsError, pa.ArrowInvalid):
                raise
            except Exception as error:  # decoders raise errors of many classes for malformed values
                raise pa.ArrowInvalid(f"{type(error).__name__}: {error}") from error
            for field, column in zip(self._values.fields, columns, strict=True):
                name = _column(field.name)
                arrays[name] = _named(name, column, self._columns[name])
        rows = records.num_rows
        filled = [arrays[f.name] if f.name in arrays else pa.nulls(rows, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(filled, schema=self.schema)

    def _empty(self) -> Any:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in self.schema], schema=self.schema)


NO_ID: Final = -1


def _by_schema(records: Any) -> Iterator[tuple[int | None, Any]]:
    """Yield the records of each schema id: None for tombstones, NO_ID for values without one."""
    values = records.column("value")
    # binary_slice without an end fails for values that are shorter than the beginning.
    heads = pc.binary_slice(values, 0, HEADER_BYTES).dictionary_encode()
    ids = [NO_ID if (number := schema_id_of(head)) is None else number for head in heads.dictionary.to_pylist()]
    by_id = pc.take(pa.array(ids, pa.int64()), heads.indices)
    distinct = by_id.unique().to_pylist()
    if len(distinct) < 2:
        yield distinct[0] if distinct else None, records
        return
    for schema_id in distinct:
        yield schema_id, records.filter(by_id.is_null() if schema_id is None else pc.equal(by_id, schema_id))


def _column(field: str) -> str:
    # A value that is no record has this column.
    return field if field == VALUE else column_of(field)


def _named(name: str, column: Any, kind: Any) -> Any:
    try:
        return conformed(column, kind)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"{name}: {error}") from error


def _concatenated(batches: list[Any], schema: Any) -> Any:
    """Return batches as one, in the order of the offsets."""
    table = pa.Table.from_batches(batches, schema).combine_chunks().sort_by("offset")
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
