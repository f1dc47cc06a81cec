"""Consumer records: decoding, behaviour as a named tuple, headers and garbage collection."""

import copy
import gc
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import ConsumerRecord, ShareConsumerRecord, TopicPartition
from ottla.errors import CorruptMessageError
from ottla.records.batch import read_header

NOW = 1_700_000_000_000

values = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3)
rows = st.lists(st.tuples(st.integers(NOW, NOW + 100_000), values, values, headers), min_size=1, max_size=90)


def build(hot: SimpleNamespace, rows: Sequence[Any], **options: Any) -> bytes:
    builder = hot.builder.BatchBuilder(bytearray(90_000), base_offset=5)
    for row in rows:
        assert builder.append(*row)
    return bytes(builder.close(leader_epoch=3, **options))


def decode(hot: SimpleNamespace, batch: bytes, from_offset: int = 0) -> list[Any]:
    decoded: list[Any] = hot.consumer_record.decode_consumer_records(batch, 0, read_header(batch), from_offset, "t", 1)
    return decoded


@pytest.fixture
def record(hot: SimpleNamespace) -> Any:
    return decode(hot, build(hot, [(NOW, b"k", b"v", [("h", b"1"), ("h", None)])]))[0]


def test_decoded_consumer_records_equal_the_records_of_the_batch(both: tuple[SimpleNamespace, SimpleNamespace]) -> None:
    @given(rows, st.integers(0, 100), st.none() | st.integers(NOW, NOW + 9))
    def check(rows: list[Any], skipped: int, append_time: int | None) -> None:
        for hot in both:
            batch = build(hot, rows, append_time_ms=append_time)
            expected = [
                ("t", 1, 3, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
                for r in hot.decoder.decode_records(batch, 0, read_header(batch), 5 + skipped)
            ]
            assert [tuple(record) for record in decode(hot, batch, 5 + skipped)] == expected
            assert decode(hot, batch, 5 + skipped) == expected

    check()


def test_consumer_record_behaves_like_a_named_tuple(hot: SimpleNamespace, record: Any) -> None:
    cls = hot.consumer_record.ConsumerRecord
    fields = ("t", 1, 3, 5, NOW, 0, b"k", b"v", [("h", b"1"), ("h", None)])
    assert tuple(getattr(record, name) for name in cls._fields) == tuple(record) == fields
    topic, partition, *_, headers = record
    assert (topic, partition, headers is record.headers, len(record)) == ("t", 1, True, 9)
    assert (record[3], record[:2], record[-2]) == (5, ("t", 1), b"v")
    assert record == fields == record == cls(*fields) == cls._make(fields)
    assert record not in (cls(*fields[:-1], []), list(fields), None)
    later = record._replace(offset=6, headers=[])
    assert [record < later, later > record, record <= fields, record >= fields, later <= record] == [True] * 4 + [False]
    assert later._asdict() == {**record._asdict(), "offset": 6, "headers": []}
    assert (record.serialized_key_size, record.serialized_value_size) == (1, 1)
    assert record._replace(key=None, value="text").serialized_key_size == -1
    assert record.topic_partition == TopicPartition("t", 1)
    assert repr(record).startswith("ConsumerRecord(topic='t', partition=1, leader_epoch=3, offset=5, ")
    with pytest.raises(ValueError, match="unexpected field names: \\['offsets'\\]"):
        record._replace(offsets=1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)
    with pytest.raises(AttributeError):
        record.value = b"other"
    match record:
        case cls(topic="t", offset=offset):
            assert offset == 5
    match record:
        case [_, number, *_]:
            assert number == 1


@pytest.mark.parametrize("kind", [ConsumerRecord, ShareConsumerRecord])
def test_consumer_record_round_trip_by_pickle_and_copy(kind: type[ConsumerRecord]) -> None:
    record = kind("t", 1, 3, 5, NOW, 0, None, {"deserialized": 1}, [("h", b"1")])
    if isinstance(record, ShareConsumerRecord):
        record.delivery_count = 2
    for twin in (pickle.loads(pickle.dumps(record)), copy.copy(record), copy.deepcopy(record)):
        assert type(twin) is kind
        assert (twin, repr(twin)) == (record, repr(record))


def test_headers_of_a_record_are_the_same_list_each_time(hot: SimpleNamespace, record: Any) -> None:
    record.headers.append(("added", b""))
    assert record.headers[2] == ("added", b"")
    (bare,) = decode(hot, build(hot, [(NOW, None, b"v")]))
    assert bare.headers == []
    assert bare.headers is bare.headers


def test_headers_read_by_several_threads_are_the_same_list(hot: SimpleNamespace) -> None:
    decoded = decode(hot, build(hot, [(NOW + n, b"k", None, [("h", b"1")] * 3) for n in range(300)]))
    start = threading.Barrier(8)

    def read(_: int) -> list[int]:
        start.wait(10)
        return [id(record.with_data(None, None).headers and record.headers) for record in decoded]

    with ThreadPoolExecutor(8) as threads:
        first, *others = threads.map(read, range(8))
    assert all(ids == first for ids in others)


def test_record_is_not_tracked_by_garbage_collection_until_it_has_headers(hot: SimpleNamespace) -> None:
    (record,) = decode(hot, build(hot, [(NOW, b"k", b"v")]))
    compiled = not hot.consumer_record.__file__.endswith(".py")
    assert gc.is_tracked(record) is not compiled
    record.headers.append(("itself", record))
    assert gc.is_tracked(record)
    assert gc.is_tracked(record.with_data("k", "v"))
    del record
    gc.collect()
    assert not [o for o in gc.get_objects() if isinstance(o, hot.consumer_record.ConsumerRecord) and o.offset == 5]


@pytest.mark.parametrize("damage", ["size", "key", "headers", "rest", "count"])
def test_damaged_records_are_rejected(hot: SimpleNamespace, damage: str) -> None:
    batch = bytearray(build(hot, [(NOW, b"key", b"value", [("h", b"1")])]))
    changes = {"size": (61, 1), "key": (65, 99), "headers": (75, 1), "rest": (61, 60)}
    if damage == "count":
        batch[57:61] = (2).to_bytes(4, "big")
    else:
        at, value = changes[damage]
        batch[at] = value
    with pytest.raises(CorruptMessageError):
        decode(hot, bytes(batch))
