"""The producer's fast path: appending records without the general send path."""

from __future__ import annotations

import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.producer.partitioner import partition_for_key
from ottla.model import ProducerRecord
from ottla.records.decoder import records


@pytest.fixture
def direct(hot: SimpleNamespace) -> tuple[Any, Any]:
    """The fast path, compiled or not, and a topic of three partitions."""
    a = hot.appender
    open_batches = [a.OpenBatch(hot.builder.BatchBuilder(bytearray(400)), "outcome") for _ in range(3)]
    topic = a.TopicAppender(3, [a.PartitionAppender(batch) for batch in open_batches])

    def choose(appenders: Any) -> None:
        appenders.sticky_partition = 2 if appenders.sticky_partition < 0 else appenders.sticky_partition - 1
        appenders.sticky_left = 100

    appender = a.DirectAppender({"t": topic}, choose)
    topic.version = appender.version = 1
    appender.enabled = True
    return appender, topic


def test_fast_path_chooses_the_partition_by_number_key_or_sticky_partition(direct: tuple[Any, Any]) -> None:
    appender, topic = direct
    for partition, key in ((1, None), (0, b"key"), (None, None), (None, b"key")):
        future = appender.append("t", b"v", key, partition, 7)
        assert (future.outcome, future.timestamp, future.value_size) == ("outcome", 7, 1)
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
def test_fast_path_rejects_records_that_need_the_general_path(direct: tuple[Any, Any], arguments: Any) -> None:
    appender, topic = direct
    assert appender.append(*arguments) is None
    assert not any(queue.open.builder.record_count for queue in topic.queues)


def test_fast_path_is_disabled_by_new_metadata_and_by_closing_the_producer(direct: tuple[Any, Any]) -> None:
    appender, topic = direct
    topic.version = 0
    assert appender.append("t", b"v", None, None, None) is None
    topic.version = 1
    appender.enabled = False
    assert appender.append("t", b"v", None, None, None) is None


def test_fast_path_returns_the_partition_whose_batch_is_full(direct: tuple[Any, Any]) -> None:
    appender, topic = direct
    assert appender.append("t", bytes(300), None, None, None) is not None
    assert appender.append("t", bytes(300), None, 2, None) == 2
    assert topic.queues[2].open.closed


def test_sticky_partition_changes_after_its_bytes_are_used(direct: tuple[Any, Any]) -> None:
    appender, topic = direct
    assert [appender.sticky(topic, 40) for _ in range(7)] == [2, 2, 2, 1, 1, 1, 0]


def test_send_falls_back_to_the_general_path(hot: SimpleNamespace, direct: tuple[Any, Any]) -> None:
    class Sender(hot.appender.DirectSender):  # type: ignore[name-defined, misc]
        def _send(self, record: ProducerRecord, callback: Any) -> Any:
            return record, callback

    sender = Sender(direct[0])
    assert type(sender.send("t", b"v", b"k")) is hot.appender.RecordFuture
    assert sender.send("t", b"v", headers=[("h", b"")]) == (ProducerRecord("t", b"v", headers=[("h", b"")]), None)
    assert sender.send("u", "v", partition=3, timestamp_ms=4) == (ProducerRecord("u", "v", None, None, 3, 4), None)
    record = ProducerRecord("t", b"v")
    assert sender.send(record, print) == (record, print)
    assert sender.send("t", bytes(500), partition=1) == (ProducerRecord("t", bytes(500), partition=1), None)
    assert sender.send("t", bytes(500)) == (ProducerRecord("t", bytes(500), partition=2), None)


def test_fast_path_appends_each_record_once_while_batches_are_replaced(hot: SimpleNamespace) -> None:
    def open_batch() -> Any:
        return hot.appender.OpenBatch(hot.builder.BatchBuilder(bytearray(300)), "outcome")

    opened = [open_batch() for _ in range(3)]
    topic = hot.appender.TopicAppender(3, [hot.appender.PartitionAppender(batch) for batch in opened])
    direct = hot.appender.DirectAppender({"t": topic}, print)
    topic.version = direct.version = 1
    direct.enabled = True
    appended: list[int] = []
    start = threading.Barrier(9)

    def append(thread: int) -> None:
        start.wait(10)
        futures = [direct.append("t", b"%d" % n, None, n % 3, None) for n in range(thread, thread + 400)]
        appended.append(sum(type(future) is hot.appender.RecordFuture for future in futures))

    threads = [threading.Thread(target=append, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    start.wait(10)
    while any(thread.is_alive() for thread in threads):
        for queue in topic.queues[:3]:
            batch = open_batch()
            opened.append(batch)
            queue.open.close()
            queue.open = batch
        if len(topic.queues) < 5000:
            topic.queues.append(hot.appender.PartitionAppender(opened[0]))
    assert len(appended) == 8
    assert sum(batch.builder.record_count for batch in opened) == sum(appended) > 0


def test_concurrent_appends_to_one_batch_lose_no_records(hot: SimpleNamespace) -> None:
    each = 1000 if hot.appender.__file__.endswith(".py") else 8_000
    builder = hot.builder.BatchBuilder(bytearray(8 * each * 24))
    batch = hot.appender.OpenBatch(builder, "outcome")
    start = threading.Barrier(8)

    def append(thread: int) -> None:
        start.wait(10)
        value = b"%d" % thread
        for _ in range(each):
            batch.append(1, None, value, None)

    threads = [threading.Thread(target=append, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    batch.close()
    assert Counter(record.value for record in records(builder.close())) == {b"%d" % n: each for n in range(8)}
