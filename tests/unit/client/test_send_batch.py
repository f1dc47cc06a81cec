"""send_batch: columns of records, their partitions, order and errors."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any

import pytest
from tests.unit.client.producing import failure, producer
from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaProducer, TopicPartition, aio
from ottla.client.producer.columnar import column
from ottla.client.producer.partitioner import partition_for_key
from ottla.errors import IllegalStateError, MessageTooLargeError, TopicAuthorizationFailedError
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.columns import Columns, HeadersColumn
from ottla.records.decoder import Record, records


def stored(broker: ScriptedBroker, topic: str = "t", partition: int = 0) -> list[Record]:
    return [r for batch in broker.topics[topic][partition] for r in records(batch)]


def arrow(items: list[Any], kind: str) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.array(items, getattr(pa, kind)())


@pytest.mark.parametrize("make", [list, lambda items: arrow(items, "binary")])
def test_rows_are_partitioned_like_single_records(broker: ScriptedBroker, make: Any) -> None:
    broker.add_topic("many", 3)
    keys = [b"key-%d" % i for i in range(100)]
    values: list[bytes | None] = [b"value-%d" % i for i in range(99)] + [None]
    with producer(broker, batch_size=500) as p:
        sent = p.send_batch("many", make(values), make(keys), timestamps_ms=7).get(10)
    assert sum(part.records for part in sent) == 100
    for partition in range(3):
        rows = [i for i in range(100) if partition_for_key(keys[i], 3) == partition]
        result = stored(broker, "many", partition)
        assert [(r.key, r.value, r.timestamp) for r in result] == [(keys[i], values[i], 7) for i in rows]
        ranges = [part for part in sent if part.topic_partition == TopicPartition("many", partition)]
        assert [o for r in ranges for o in range(r.base_offset, r.base_offset + r.records)] == list(range(len(rows)))


@pytest.mark.parametrize("make", [list, lambda items: arrow(items, "binary")])
def test_partitioner_of_the_application_chooses_the_partition_of_each_row(broker: ScriptedBroker, make: Any) -> None:
    broker.add_topic("many", 3)
    new_batches: list[int] = []

    class ByValue:
        def partition(self, topic: Any, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any) -> int:
            return 2 if key is None else int(value_bytes)

        def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
            new_batches.append(previous)

    with producer(broker, partitioner=ByValue) as p:
        p.send_batch("many", make([b"1", b"0", b"1", b"0"]), make([b"k", b"k", b"k", None])).get(10)
    assert [[r.value for r in stored(broker, "many", n)] for n in range(3)] == [[b"0"], [b"1", b"1"], [b"0"]]
    assert new_batches == [1, 0, 2]


def test_named_partitioners_choose_the_partitions_of_rows(broker: ScriptedBroker) -> None:
    broker.add_topic("many", 50)

    def partitions(**options: Any) -> set[int]:
        with producer(broker, **options) as p:
            sent = p.send_batch("many", [b"v"] * 50, [b"%d" % i for i in range(50)]).get(10)
        return {part.topic_partition.partition for part in sent}

    assert len(partitions(partitioner="roundrobin")) == 50
    assert len(partitions(partitioner="random")) > 10
    assert len(partitions(partitioner="sticky")) == 1
    assert len(partitions(partitioner_ignore_keys=True)) == 1


def series(library: str, items: list[Any]) -> Any:
    return pytest.importorskip(library).Series(items)


@pytest.mark.parametrize(
    "make",
    [
        list,
        lambda items: arrow(items, "string"),
        lambda items: arrow(items, "large_string"),
        lambda items: pytest.importorskip("pyarrow").chunked_array([items[:1], items[1:]]),
        lambda items: series("pandas", items),
        lambda items: series("polars", items),
    ],
    ids=["list", "string", "large_string", "chunked", "pandas", "polars"],
)
def test_column_accepts_text_and_nulls_of_any_library(make: Any) -> None:
    result = column(make(["a", None, "ü"]))
    assert [result.get(i) for i in range(3)] == [b"a", None, "ü".encode()]
    assert result.null_count == 1


@pytest.mark.parametrize("make", [list, lambda items: arrow(items, "int64"), lambda items: series("pandas", items)])
def test_column_of_numbers_raises_type_error(make: Any) -> None:
    with pytest.raises(TypeError, match=r"must be bytes|wanted|expected"):
        column(make([1, 2]))


@pytest.mark.parametrize(("memory", "batches"), [(32 << 20, range(4, 7)), (400_000, range(40, 60))])
def test_send_batch_makes_large_batches_within_the_buffer_memory(
    broker: ScriptedBroker, memory: int, batches: range
) -> None:
    with producer(broker, batch_size=16_384, buffer_memory=memory) as p:
        p.send_batch("t", [b"%01000d" % i for i in range(1000)]).get(30)
    assert [int(r.value or b"") for r in stored(broker)] == list(range(1000))
    assert len(broker.topics["t"][0]) in batches


def test_rows_may_lack_keys_and_differ_in_timestamp(broker: ScriptedBroker) -> None:
    with producer(broker) as p:
        p.send_batch("t", [b"a", b"b"], timestamps_ms=[5, 6]).get(10)
        p.send_batch("t", [b"c", b"d"], [None, b"k"], timestamps_ms=arrow([8, 9], "int64"), partition=0).get(10)
    assert [(r.key, r.value, r.timestamp) for r in stored(broker)] == [
        (None, b"a", 5),
        (None, b"b", 6),
        (None, b"c", 8),
        (b"k", b"d", 9),
    ]


def test_slice_of_an_arrow_array_is_sent(broker: ScriptedBroker) -> None:
    values = arrow([b"%d" % i for i in range(20)], "binary")
    with producer(broker) as p:
        p.send_batch("t", values[5:10], partition=0).get(10)
    assert [r.value for r in stored(broker)] == [b"%d" % i for i in range(5, 10)]


def test_send_and_send_batch_keep_their_order(broker: ScriptedBroker) -> None:
    with producer(broker, linger_ms=60_000) as p:
        p.send("t", b"1")
        p.send_batch("t", [b"2", b"3"])
        p.send("t", b"4")
        p.flush(10)
    assert [r.value for r in stored(broker)] == [b"1", b"2", b"3", b"4"]


def test_record_larger_than_a_batch_gets_its_own(broker: ScriptedBroker) -> None:
    with producer(broker, batch_size=200) as p:
        p.send_batch("t", [b"s", bytes(5000), b"s"]).get(10)
    assert [len(r.value or b"") for r in stored(broker)] == [1, 5000, 1]


def test_send_batch_rejects_rows_that_cannot_be_sent(broker: ScriptedBroker) -> None:
    with producer(broker, max_request_size=1000) as p:
        with pytest.raises(MessageTooLargeError):
            p.send_batch("t", [bytes(5000)])
        with pytest.raises(MessageTooLargeError):
            p.send_batch("t", [b"fits", bytes(5000)])
        with pytest.raises(ValueError, match="1 keys for 2 values"):
            p.send_batch("t", [b"a", b"b"], [b"k"])
        with pytest.raises(TypeError, match="bytes, str or None"):
            p.send_batch("t", [1, 2])
        with pytest.raises(ValueError, match="partition -1 is not valid"):
            p.send_batch("t", [b"v"], partition=-1)
        assert p.send_batch("t", []).get(0) == []


def test_produce_error_is_raised_by_the_future(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(29))
    with producer(broker) as p, pytest.raises(TopicAuthorizationFailedError):
        p.send_batch("t", [b"v"]).get(10)


def test_split_batch_returns_the_offsets_of_its_parts(broker: ScriptedBroker) -> None:
    broker.on(ProduceRequest, lambda _: failure(10))
    with producer(broker) as p:
        sent = p.send_batch("t", [b"%d" % i for i in range(5)]).get(10)
    assert [(part.base_offset, part.records) for part in sent] == [(0, 3), (3, 2)]


def test_asyncio_producer_has_send_batch(broker: ScriptedBroker) -> None:
    async def test() -> None:
        async with aio.KafkaProducer(bootstrap_servers=broker.address) as p:
            future = await p.send_batch("t", [b"a", b"b"])
            await p.flush(10)
            assert future.done()

    asyncio.run(test())
    assert len(stored(broker)) == 2


def test_batch_future_of_the_asyncio_producer_is_awaited_and_does_not_block_the_event_loop(
    broker: ScriptedBroker,
) -> None:
    async def test() -> None:
        async with aio.KafkaProducer(bootstrap_servers=broker.address, max_request_size=200, batch_size=100) as p:
            future = await p.send_batch("t", [b"%050d" % n for n in range(9)])
            with pytest.raises(IllegalStateError, match="use `await future`"):
                future.get(10)
            sent = await future
            assert sum(part.records for part in sent) == 9
            assert len(sent) > 1
            assert future.get() == sent == await future
            broker.on(ProduceRequest, lambda _: failure(29))
            with pytest.raises(TopicAuthorizationFailedError):
                await (await p.send_batch("t", [b"v"]))
            later = await p.send_batch("t", [b"v"])
            (part,) = await asyncio.to_thread(later.get, 10)  # another thread may wait
            assert part.records == 1

    asyncio.run(asyncio.wait_for(test(), 20))


def test_batch_future_of_the_synchronous_producer_can_be_awaited(broker: ScriptedBroker) -> None:
    async def test() -> None:
        with producer(broker) as p:
            (sent,) = await p.send_batch("t", [b"a", b"b"])
            assert sent.records == 2
            assert p.send_batch("t", [b"a"]).get(10)[0].base_offset == 2

    asyncio.run(test())


def test_column_of_a_list_has_the_layout_of_arrow() -> None:
    result = column([b"ab", None, b""])
    assert [result.get(i) for i in range(3)] == [b"ab", None, b""]
    assert result.null_count == 1
    assert isinstance(result.offsets.obj, array)


def test_send_batch_of_a_closed_producer_raises_runtime_error(broker: ScriptedBroker) -> None:
    p = KafkaProducer(bootstrap_servers=broker.address)
    p.close()
    with pytest.raises(RuntimeError, match="closed"):
        p.send_batch("t", [b"v"])


def polled_columns(headers: HeadersColumn | None = None) -> Columns:
    """Return columns of two records, like `poll_batch`."""
    times = memoryview(array("q", [7, 8]))
    kinds = memoryview(array("i", [0, 0]))
    return Columns(2, times, times, kinds, column([b"k", None]), column([None, b"v"]), headers)


def test_columns_of_a_consumer_are_sent_with_keys_and_timestamps(broker: ScriptedBroker) -> None:
    broker.add_topic("t", 2)
    with producer(broker) as p:
        (sent,) = p.send_batch("t", polled_columns(), partition=1).get(10)
    assert sent.records == 2
    assert [(r.key, r.value, r.timestamp) for r in stored(broker, "t", 1)] == [(b"k", None, 7), (None, b"v", 8)]


def test_columns_with_headers_are_rejected(broker: ScriptedBroker) -> None:
    headers = HeadersColumn(memoryview(array("i", [0, 1, 1])), column([b"h"]), column([b"1"]))
    with producer(broker) as p, pytest.raises(ValueError, match="no headers"):
        p.send_batch("t", polled_columns(headers), partition=0)
