"""Arrow record batches from fetched columns: schema, headers, sizes, no copies."""

import datetime as dt
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from ottla.model import TopicPartition
from ottla.records.columns import BinaryColumn, Columns, HeadersColumn
from ottla.spark.source import arrow

TP = TopicPartition("flights", 3)
ALL = arrow.column_names(False)


def ints(values: Sequence[int], code: Literal["q", "i"]) -> memoryview:
    array = pa.array(values, pa.int64() if code == "q" else pa.int32())
    data: memoryview = memoryview(array.buffers()[1]).cast("B").cast(code)
    return data


def binary(values: Sequence[bytes | None]) -> BinaryColumn:
    return BinaryColumn.from_arrow(pa.array(values, pa.binary()))


def columns(keys: Sequence[bytes | None], first: int = 0, headers: HeadersColumn | None = None) -> Columns:
    n = len(keys)
    offsets = ints(range(first, first + n), "q")
    times = ints([1_000 + i for i in range(first, first + n)], "q")
    values = binary([b"v%d" % i for i in range(first, first + n)])
    return Columns(n, offsets, times, ints([0] * n, "i"), binary(keys), values, headers)


def test_row_has_the_columns_of_the_kafka_connector() -> None:
    (batch,) = arrow.record_batches([columns([b"k", None])], TP, ALL)
    assert batch.schema == arrow.arrow_schema(ALL)
    assert batch.to_pylist()[1] == {
        "key": None,
        "value": b"v1",
        "topic": "flights",
        "partition": 3,
        "offset": 1,
        "timestamp": dt.datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=dt.UTC),
        "timestampType": 0,
    }
    batch.validate(full=True)


def test_headers_are_a_list_or_null_without_headers() -> None:
    headers = HeadersColumn(ints([0, 2, 2], "i"), binary([b"a", b"b"]), binary([b"1", None]))
    (batch,) = arrow.record_batches([columns([b"k", b"l"], headers=headers)], TP, arrow.column_names(True))
    assert batch.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None]
    batch.validate(full=True)


def test_small_chunks_are_joined_up_to_the_target_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "TARGET_ROWS", 4)
    chunks = [columns([b"k"] * 2, first) for first in range(0, 10, 2)]
    batches = list(arrow.record_batches(chunks, TP, ALL))
    assert [b.num_rows for b in batches] == [4, 4, 2]
    assert [n for b in batches for n in b.column("offset").to_pylist()] == list(range(10))


def test_invalid_utf8_in_header_keys_is_replaced() -> None:
    headers = HeadersColumn(ints([0, 3], "i"), binary([b"a\xff", "ü".encode(), b"\xc3"]), binary([b"\xff", None, b""]))
    (batch,) = arrow.record_batches([columns([b"k"], headers=headers)], TP, arrow.column_names(True))
    batch.validate(full=True)
    assert [(h["key"], h["value"]) for h in batch.column("headers").to_pylist()[0]] == [
        ("a\ufffd", b"\xff"),
        ("ü", None),
        ("\ufffd", b""),
    ]


def test_headers_count_towards_the_target_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "TARGET_BYTES", 1000)
    large = HeadersColumn(ints([0, 1], "i"), binary([b"h"]), binary([bytes(600)]))
    chunks = [columns([b"k"], first, headers=large) for first in range(4)]
    assert [b.num_rows for b in arrow.record_batches(chunks, TP, arrow.column_names(True))] == [2, 2]


def test_empty_chunks_make_no_batch() -> None:
    assert list(arrow.record_batches([columns([])], TP, ALL)) == []


def test_values_are_wrapped_without_a_copy() -> None:
    chunk = columns([b"key"])
    (batch,) = arrow.record_batches([chunk], TP, ALL)
    assert batch.column("value").buffers()[2].address == pa.py_buffer(chunk.values.data).address


def test_only_required_columns_are_converted() -> None:
    (batch,) = arrow.record_batches([columns([b"k"], first=7)], TP, ["offset", "key"])
    assert batch.to_pylist() == [{"offset": 7, "key": b"k"}]


def test_record_batches_do_not_import_pandas() -> None:
    script = """if True:
        import sys
        from array import array
        from ottla.model import TopicPartition
        from ottla.records.columns import BinaryColumn, Columns, HeadersColumn
        from ottla.spark.source.arrow import column_names, record_batches

        one, none = memoryview(array("q", [7])), memoryview(array("i", [0, 0]))
        text = BinaryColumn(memoryview(array("i", [0, 1])), b"x", None, 0)
        empty = BinaryColumn(none, b"", None, 0)
        rows = Columns(1, one, one, memoryview(array("i", [0])), text, text, HeadersColumn(none, empty, empty))
        (batch,) = record_batches([rows], TopicPartition("flights", 3), column_names(True))
        assert "pandas" not in sys.modules
        row = [column[0].as_py() for column in batch.columns]
        assert row[:5] == [b"x", b"x", "flights", 3, 7] and row[-1] is None, row
    """
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
