"""Golden batches written by Apache Kafka's classes: we decode them, and encode the same bytes if uncompressed."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from ottla.records import legacy_message_set
from ottla.records.batch import read_header, split, verify
from ottla.records.builder import BatchBuilder
from ottla.records.compression import LZ4
from ottla.records.conversion import down_converted
from ottla.records.decoder import records
from ottla.storage.producer_state import ABORT, COMMIT, Marker, marker_record, read_marker

GOLDEN = {k: b64decode(v) for k, v in json.loads((Path(__file__).parent / "golden/records.json").read_text()).items()}

ROWS = [
    (1_700_000_000_000, b"key-0", b"value-0", []),
    (1_700_000_000_005, None, b"no key", []),
    (1_699_999_999_990, b"tombstone", None, []),
    (1_700_000_000_010, b"", b"", [("h1", b"one"), ("hé", None), ("h1", b"")]),
    (1_700_000_001_000, b"long", b"".join(b"line %d " % (i % 7) for i in range(40)), []),
]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_kafka_are_decoded(codec: Any) -> None:
    data = GOLDEN[f"plain_{codec}"]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records(data)] == ROWS
    assert [r.offset for r in records(data)] == [42, 43, 44, 45, 46]
    assert read_header(data).leader_epoch == 7


def build(**options: Any) -> Any:
    builder = BatchBuilder(bytearray(2000), base_offset=options.pop("base_offset", 0))
    for row in ROWS:
        assert builder.append(*row)
    return bytes(builder.close(**options))


def test_encoded_batches_equal_those_of_kafka() -> None:
    assert build(base_offset=42, leader_epoch=7) == GOLDEN["plain_none"]
    assert build(leader_epoch=0, append_time_ms=1_700_000_009_999) == GOLDEN["log_append_time"]
    assert (
        build(
            base_offset=100,
            leader_epoch=5,
            producer_id=4711,
            producer_epoch=3,
            base_sequence=2_147_483_645,
            transactional=True,
        )
        == GOLDEN["transactional"]
    )


@pytest.mark.parametrize(("name", "offset", "kind"), [("commit_marker", 50, COMMIT), ("abort_marker", 51, ABORT)])
def test_transaction_markers_equal_those_of_kafka(name: Any, offset: Any, kind: Any) -> None:
    data = GOLDEN[name]
    (header, start, _), (record,) = next(iter(split(data))), list(records(data))
    verify(data, start, header)
    assert header.is_control
    assert read_marker(record) == Marker(kind, 12)
    builder = BatchBuilder(bytearray(200), base_offset=offset)
    builder.append(1_700_000_000_000, *marker_record(kind, 12))
    ours = builder.close(4711, 3, -1, transactional=True, control=True, leader_epoch=9)
    assert ours == data


OLD: list[tuple[Any, ...]] = [(*row[:3], []) for row in ROWS[:3]]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_legacy_message_sets_of_kafka_are_decoded(magic: Any, codec: Any) -> None:
    actual = list(legacy_message_set.records(GOLDEN[f"v{magic}_{codec}"]))
    assert [r.offset for r in actual] == [42, 43, 44]
    assert [(r.timestamp if magic else -1, r.key, r.value) for r in actual] == [
        (t if magic else -1, k, v) for t, k, v, _ in OLD
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_down_converted_messages_equal_those_of_kafka(magic: Any) -> None:
    builder = BatchBuilder(bytearray(500), base_offset=42)
    for row in OLD:
        builder.append(*row)
    assert down_converted(builder.close(), magic) == GOLDEN[f"v{magic}_none"]


def test_lz4_header_checksum_of_format_0_equals_that_of_kafka() -> None:
    builder = BatchBuilder(bytearray(500), LZ4, base_offset=42)
    for row in OLD:
        builder.append(*row)
    ours = next(legacy_message_set.messages(down_converted(builder.close(), 0)))
    javas = next(legacy_message_set.messages(GOLDEN["v0_lz4"]))
    assert ours.value is not None
    assert javas.value is not None
    assert ours.value[:7] == javas.value[:7]
