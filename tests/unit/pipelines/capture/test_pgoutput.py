"""Messages of PostgreSQL's logical replication, and rows as JSON."""

from __future__ import annotations

import json
import struct

import pytest

from ottla_pipelines.capture.pgoutput import (
    POSTGRES_EPOCH_MS,
    UNCHANGED,
    Begin,
    Change,
    Column,
    Commit,
    DecodingError,
    Relation,
    Truncate,
    decode,
)
from ottla_pipelines.capture.rows import as_json, has_fields, have_same_form, table_schema

TUPLE = struct.pack(">H", 3) + b"n" + b"u" + b"t" + struct.pack(">I", 3) + "aä".encode()
VALUES = [None, UNCHANGED, "aä"]
KEY = struct.pack(">H", 1) + b"t" + struct.pack(">I", 1) + b"7"
MESSAGES = {
    b"B" + struct.pack(">QqI", 1 << 33, 5_000, 7): Begin(1 << 33, POSTGRES_EPOCH_MS + 5),
    b"C" + struct.pack(">BQQq", 0, 1, 2, 3): Commit(2),
    b"R" + struct.pack(">I", 9) + b"public\0t\0d" + struct.pack(">HB", 1, 1) + b"id\0" + struct.pack(">Ii", 23, -1): (
        Relation(9, "public", "t", (Column("id", 23, -1),), frozenset({"id"}))
    ),
    b"R" + struct.pack(">I", 9) + b"public\0t\0f" + struct.pack(">HB", 1, 1) + b"id\0" + struct.pack(">Ii", 23, -1): (
        Relation(9, "public", "t", (Column("id", 23, -1),))
    ),
    b"I" + struct.pack(">I", 9) + b"N" + TUPLE: Change(9, None, VALUES, "c"),
    b"U" + struct.pack(">I", 9) + b"N" + TUPLE: Change(9, None, VALUES, "u"),
    b"U" + struct.pack(">I", 9) + b"K" + KEY + b"N" + TUPLE: Change(9, ["7"], VALUES, "u"),
    b"U" + struct.pack(">I", 9) + b"O" + TUPLE + b"N" + TUPLE: Change(9, VALUES, VALUES, "u", has_old_row=True),
    b"D" + struct.pack(">I", 9) + b"K" + KEY: Change(9, ["7"], None, "d"),
    b"T" + struct.pack(">IBII", 2, 1, 9, 10): Truncate((9, 10)),
    b"O" + struct.pack(">Q", 1) + b"origin\0": None,
}


@pytest.mark.parametrize("data", MESSAGES)
def test_message_is_decoded_and_truncated_message_raises_decoding_error(data: bytes) -> None:
    assert decode(data) == MESSAGES[data]
    if MESSAGES[data] is None:
        return
    for length in range(len(data) - (9 if data[:1] == b"C" else 4)):
        with pytest.raises(DecodingError):
            decode(data[:length])


@pytest.mark.parametrize("data", [b"", b"?", b"I" + struct.pack(">I", 9) + b"N" + struct.pack(">H", 1) + b"x"])
def test_unknown_message_raises_decoding_error(data: bytes) -> None:
    with pytest.raises(DecodingError):
        decode(data)


def test_rows_and_schema_are_encoded_as_json() -> None:
    cases = [
        ("flag", 16, -1, "t", "boolean", True),
        ("count", 20, -1, "-9223372036854775808", "bigint", -(2**63)),
        ("small", 21, -1, "5", "int", 5),
        ("half", 701, -1, "0.1", "double", 0.1),
        ("nan", 701, -1, "NaN", "double", "NaN"),
        ("down", 700, -1, "-Infinity", "float", "-Infinity"),
        ("price", 1700, (12 << 16 | 2) + 4, "1.50", "decimal(12,2)", "1.50"),
        ("free", 1700, -1, "1e5", "string", "1e5"),
        ("long", 1700, (39 << 16 | 2) + 4, "1.50", "string", "1.50"),
        ("negative", 1700, (2 << 16 | 0x7FD) + 4, "5000", "string", "5000"),
        ("day", 1082, -1, "2026-01-31", "date", "2026-01-31"),
        ("at", 1184, -1, "2026-01-31 01:02:03.5+00", "timestamp", "2026-01-31T01:02:03.5Z"),
        ("local", 1114, -1, "2026-01-31 01:02:03", "timestamp", "2026-01-31T01:02:03"),
        ("endless", 1184, -1, "infinity", "timestamp", "infinity"),
        ("old", 1114, -1, "0044-03-15 00:00:00 BC", "timestamp", "0044-03-15 00:00:00 BC"),
        ("text", 25, -1, 'ä"', "string", 'ä"'),
        ("none", 23, -1, None, "int", None),
    ]
    columns = [Column(name, oid, modifier) for name, oid, modifier, *_ in cases]
    assert json.loads(as_json(columns, [text for _, _, _, text, *_ in cases])) == {c[0]: c[5] for c in cases}
    assert table_schema(columns) == "json:" + ",".join(f"{c[0]} {c[4]}" for c in cases)


def test_key_columns_match_the_form_of_stored_keys() -> None:
    number, name = Column("id", 23, -1), Column("name", 25, -1)
    assert has_fields(b'{"id":1,"name":"x"}', [number, name])
    for key in (b'{"name":"x","id":1}', b'{"id":1}', b'{"id":"1","name":"x"}', b'{"id":1,"name":2}', b"1"):
        assert not has_fields(key, [number, name])
    ratio = [Column("ratio", 701, -1)]
    assert all(has_fields(as_json(ratio, [text]), ratio) for text in ("0.5", "NaN", "-Infinity"))
    assert not has_fields(b'{"ratio":"0.5"}', ratio)
    for key in (b"", b"no JSON", b"\xff"):
        assert not has_fields(key, ratio)
    assert have_same_form(number, Column("id", 20, -1))
    assert have_same_form(name, Column("name", 1043, 14))
    assert not have_same_form(number, Column("id", 25, -1))
    assert not have_same_form(Column("price", 1700, 655366), Column("price", 1700, 655367))
