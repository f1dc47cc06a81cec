"""The producers' fast path."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.core.futures import RecordFuture
from ottla.client.producer.partitioner import partition_for_key
from ottla.records.appender import DirectAppender, OpenBatch
from ottla.records.builder import BatchBuilder


class _Topic:
    """Queues of a topic as the fast path sees them."""

    def __init__(self, partitions: int) -> None:
        self.version = 1
        self.count = partitions
        self.queues = [_Queue() for _ in range(partitions)]


class _Queue:
    def __init__(self) -> None:
        self.open = OpenBatch(BatchBuilder(bytearray(400)), "outcome", RecordFuture)


class _Metadata:
    version = 1


@pytest.fixture
def direct() -> tuple[DirectAppender, _Topic]:
    topic = _Topic(3)
    appender = DirectAppender({"t": topic}, _Metadata(), lambda queues, size: 2)
    appender.enabled = True
    return appender, topic


def test_fast_path_chooses_the_partition_by_number_key_or_stickiness(direct: tuple[DirectAppender, _Topic]) -> None:
    appender, topic = direct
    for partition, key in ((1, None), (0, b"key"), (None, None), (None, b"key")):
        assert type(appender.append("t", b"v", key, partition, 7)) is RecordFuture
    by_key = partition_for_key(b"key", 3)
    expected = [1, 1, 1]
    expected[by_key] += 1
    assert [queue.open.builder.record_count for queue in topic.queues] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("u", b"v", None, None, None),
        (b"t", b"v", None, None, None),
        ("t", "text", None, None, None),
        ("t", None, None, None, None),
        ("t", b"v", "text", None, None),
        ("t", b"v", None, 3, None),
        ("t", b"v", None, -1, None),
        ("t", b"v", None, 1 << 70, None),
        ("t", b"v", None, None, -5),
    ],
)
def test_fast_path_refuses_what_is_not_plain(direct: tuple[DirectAppender, _Topic], arguments: Any) -> None:
    appender, topic = direct
    assert appender.append(*arguments) is None
    assert not any(queue.open.builder.record_count for queue in topic.queues)


def test_fast_path_is_closed_by_new_metadata_and_with_the_producer(direct: tuple[DirectAppender, _Topic]) -> None:
    appender, topic = direct
    topic.version = 0
    assert appender.append("t", b"v", None, None, None) is None
    topic.version = 1
    appender.enabled = False
    assert appender.append("t", b"v", None, None, None) is None


def test_fast_path_returns_the_partition_whose_batch_is_full(direct: tuple[DirectAppender, _Topic]) -> None:
    appender, topic = direct
    assert appender.append("t", bytes(300), None, None, None) is not None
    assert appender.append("t", bytes(300), None, None, None) == 2
    assert topic.queues[2].open.closed
