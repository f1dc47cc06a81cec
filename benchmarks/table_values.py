"""Rate at which records become rows of a table, by ottla.table.schema, without reading and writing files.

python -m benchmarks.table_values
"""

from __future__ import annotations

import io
import json
import time
from typing import Any, Final

import pyarrow as pa
from fastavro import parse_schema, schemaless_writer
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from ottla.serdes import RegisteredSchema, Schema, SchemaRegistryClient
from ottla.serdes.framing import header
from ottla_registry.schemas.protobuf import ProtobufSchema
from ottla_tables.columns import RECORD
from ottla_tables.values.json_fields import JsonConverter
from ottla_tables.values.registry_fields import RegistryConverter
from ottla_tables.values.rows import RowConverter

ROWS: Final = 30_000
"""As many as the writer converts at once."""
RUNS: Final = 5
AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "price", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
PARSED: Final = parse_schema(json.loads(AVRO))
NEWER: Final = AVRO.replace('"fields": [', '"fields": [{"name": "added", "type": "int", "default": 0}, ')
PROTOBUF: Final = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; double price = 3; google.protobuf.Timestamp at = 4; optional string note = 5;
}
"""
TYPES: Final = {"id": "integer", "customer": "string", "price": "number", "at": "integer", "note": "string"}
JSON: Final = json.dumps({"type": "object", "properties": {name: {"type": kind} for name, kind in TYPES.items()}})


class OneSchema(SchemaRegistryClient):
    """A schema registry with the writer's schema as id 1, and the latest schema."""

    def __init__(self, schema_type: str, writer: str, latest: str) -> None:
        super().__init__("http://127.0.0.1:1")
        self._writer, self._latest = Schema(writer, schema_type), Schema(latest, schema_type)

    def schema(self, schema_id: int, subject: str = "") -> Schema:
        """Return the writer's schema."""
        return self._writer

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema."""
        return RegisteredSchema(subject, 1, 1, self._latest)


def order(number: int) -> dict[str, Any]:
    """Return an order."""
    note = "hello" if number % 2 else None
    customer = f"customer-{number % 1000}"
    return {"id": number, "customer": customer, "price": number / 2, "at": 1_700_000_000_000 + number, "note": note}


def avro(number: int) -> bytes:
    """Return an order in Avro."""
    buffer = io.BytesIO()
    schemaless_writer(buffer, PARSED, order(number))
    return buffer.getvalue()


def message_class() -> Any:
    """Return the class of orders in Protobuf."""
    pool = DescriptorPool()
    for file in ProtobufSchema(PROTOBUF).files:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Order"))


def protobuf(order_class: Any, number: int) -> bytes:
    """Return an order in Protobuf, after the indexes of its message type."""
    fields = order(number)
    at = fields.pop("at")
    message = order_class(**fields)
    message.at.FromMilliseconds(at)
    content: bytes = message.SerializeToString()
    return b"\0" + content


def rows_per_second(converter: RowConverter, values: list[bytes]) -> float:
    """Return the rows per second of CPU, the best of a few runs."""
    numbers = range(len(values))
    columns: list[Any] = [numbers, [0] * ROWS, [0] * ROWS, [b"key"] * ROWS, values, [None] * ROWS]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, RECORD, strict=True)]
    records = pa.RecordBatch.from_arrays(arrays, schema=RECORD)
    seconds = []
    for _ in range(RUNS):
        began = time.process_time()
        rows = converter.convert(records)
        seconds.append(time.process_time() - began)
        assert rows.dead is None
        assert rows.batch.num_rows == ROWS
    return ROWS / min(seconds)


def main() -> None:
    """Print a line per schema type."""
    documents = [json.dumps(order(number)).encode() for number in range(ROWS)]
    encoded = [header(1) + avro(number) for number in range(ROWS)]
    order_class = message_class()
    messages = [header(1) + protobuf(order_class, number) for number in range(ROWS)]
    framed = [header(1) + text for text in documents]
    for name, registry, values in (
        ("Avro", OneSchema("AVRO", AVRO, AVRO), encoded),
        ("Avro, older schema", OneSchema("AVRO", AVRO, NEWER), encoded),
        ("Protobuf", OneSchema("PROTOBUF", PROTOBUF, PROTOBUF), messages),
        ("JSON Schema", OneSchema("JSON", JSON, JSON), framed),
    ):
        speed = rows_per_second(RegistryConverter(registry, "t", []), values)
        print(f"{name:20} {speed:12,.0f} rows/s")
    print(f"{'json':20} {rows_per_second(JsonConverter(None, RECORD), documents):12,.0f} rows/s")


if __name__ == "__main__":
    main()
