"""Offsets of copied records in the format of Kafka Connect."""

from __future__ import annotations

from ottla.mirror.source_offsets import next_offsets, offset_key, offset_value
from ottla.model import TopicPartition

VISITS = TopicPartition("visits", 0)


def test_record_has_the_format_of_kafka_connect() -> None:
    assert offset_key("A", VISITS) == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"visits"}]'
    assert offset_value(41) == b'{"offset":41}'


def test_copying_resumes_after_the_last_record() -> None:
    orders = TopicPartition("orders", 2)
    records = [
        (offset_key("A", VISITS), offset_value(9)),
        (offset_key("A", orders), offset_value(5)),
        (offset_key("A", VISITS), offset_value(41)),
    ]
    assert next_offsets("A", records) == {VISITS: 42, orders: 6}


def test_other_records_are_ignored_and_tombstones_remove_offsets() -> None:
    records = [
        (offset_key("B", VISITS), offset_value(1)),
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b'{"offset":0}'),
        (b"no json", offset_value(1)),
        (None, offset_value(1)),
        (b"[1]", None),
        (offset_key("A", VISITS), offset_value(1)),
        (offset_key("A", VISITS), None),
    ]
    assert next_offsets("A", records) == {}
