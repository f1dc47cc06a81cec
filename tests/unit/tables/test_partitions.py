"""Columns that partition tables: supported and rejected types."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.unit.tables.topics import TableWorld, table_world

from ottla import Broker
from ottla.errors import ConfigurationError, InvalidConfigError
from ottla_tables.formats.table import TableIdentity
from ottla_tables.object_store import ObjectStore
from ottla_tables.partitioning import check_partition_by

FORMATS = ("iceberg", "delta", "parquet")
TYPES = "json:x string,d date,t timestamp,b boolean,p decimal(5,2),n int"
OLD = b'{"x":"a/b=c%20 \\u00e4+","d":"2026-01-02","t":"2026-01-02T03:04:05.000006Z","b":true,"p":"0.10","n":1}'


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.mark.parametrize("table_format", FORMATS)
def test_rows_move_between_partitions_of_all_types(broker: Broker, tmp_path: Path, table_format: str) -> None:
    configs: Any = {"format": table_format, "schema": TYPES, "partition_by": "x,d,t,b,p", "mode": "upsert"}
    with table_world(broker, f"parts-{table_format}", tmp_path, **configs) as world:
        world.send(OLD, key=b"moved")
        world.send(OLD, key=b"constant")
        world.send(b"{}", key=b"empty")
        world.write()
        world.send(OLD.replace(b"a/b", b"../").replace(b"true", b"false"), key=b"moved")
        world.write()
        rows = sorted((row["key"], row["x"], row["b"]) for row in read_with_other_readers(world, tmp_path))
        assert rows == [
            (b"constant", "a/b=c%20 ä+", True),
            (b"empty", None, None),
            (b"moved", "../=c%20 ä+", False),
        ]


def read_with_other_readers(world: TableWorld, directory: Path) -> list[dict[str, Any]]:
    """Read the table without Ottla's reader, and check that a filter by a partition finds its rows."""
    location = directory / world.topic.replace("-", "_")
    if "parquet" in world.topic:
        return world.rows()
    if "delta" in world.topic:
        from deltalake import DeltaTable

        return list(pa.table(DeltaTable(str(location)).to_pyarrow_dataset().to_table()).to_pylist())
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{directory / 'catalog.db'}")
    table = catalog.load_table(f"ottla.{world.topic.replace('-', '_')}")
    matching = table.scan(row_filter="d == '2026-01-02' and p == 0.10 and t >= '2026-01-02T03:04:05+00:00'").to_arrow()
    assert matching.column("d").to_pylist() == [date(2026, 1, 2)] * 2
    return list(table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("table_format", FORMATS)
def test_inferred_field_as_a_partition_column_is_rejected(broker: Broker, tmp_path: Path, table_format: str) -> None:
    configs: Any = {"format": table_format, "schema": "json", "partition_by": "partition,city"}
    message = r"city is not a column of the new table \(offset, partition, timestamp, key\); declare .* json:city"
    with table_world(broker, f"inferred-{table_format}", tmp_path, **configs) as world:
        world.send(b'{"city":"x"}')
        with pytest.raises(ConfigurationError, match=message):
            world.write()


def test_unsupported_partition_columns_are_rejected_when_they_are_configured(broker: Broker, tmp_path: Path) -> None:
    message = r"ottla.table.partition.by: x is a double, whose values are not exact in partitions; partition by a"
    configs: Any = {"format": "iceberg", "schema": "json:x double, y int", "partition_by": "y,x"}
    with pytest.raises(InvalidConfigError, match=message), table_world(broker, "inexact", tmp_path, **configs):
        raise AssertionError("the topic was created")
    columns = pa.schema([("x", pa.float32()), ("s", pa.struct([("y", pa.int32())])), ("n", pa.int32())])
    check_partition_by(columns, ["n", "day(timestamp)"])
    for column, problem in (("x", "x is a float"), ("s", "s is a struct<y: int32>; use a column with one value")):
        with pytest.raises(ConfigurationError, match=problem):
            check_partition_by(columns, ["n", column])
    with (
        table_world(broker, "bytes", tmp_path, format="delta", partition_by="key") as world,
        pytest.raises(ConfigurationError, match="key has bytes, which cannot be partition values of Delta tables"),
    ):
        world.write()


def test_delta_table_partitioned_by_bytes_is_rejected(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from ottla_tables.formats.delta import DeltaLakeTable

    owner, schema = TableIdentity("t", UUID(int=1)), pa.schema([("offset", pa.int64()), ("key", pa.binary())])
    properties: Any = {"configuration": owner.properties, "raise_if_key_not_exists": False}
    DeltaTable.create(str(tmp_path), schema, partition_by=["key"], **properties)
    with pytest.raises(ConfigurationError, match="partition.by: key has bytes"):
        DeltaLakeTable(str(tmp_path), schema, (), owner, ObjectStore({}))
    assert DeltaLakeTable(str(tmp_path), None, (), owner, ObjectStore({})).load().files == (), "it can be read"
