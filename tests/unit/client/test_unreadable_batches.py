"""Batches that cannot be decoded: no consumer moves past a record that it has not returned."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.client.scripted import ScriptedBroker

from ottla import KafkaConsumer, TopicPartition, aio
from ottla.client.consumer.fetch.completed_fetch import CompletedFetch
from ottla.client.consumer.fetch.ranges import read_range
from ottla.client.consumer.subscription import PartitionState
from ottla.errors import CorruptBatchError, CorruptMessageError
from ottla.records import compression
from ottla.records.batch import ATTRIBUTES_POSITION, HEADER_BYTES, LOG_OVERHEAD, assign, reseal
from ottla.records.builder import BatchBuilder
from ottla.records.conversion import down_converted

TP = TopicPartition("t", 0)
COUNT_POSITION = 57
ROWS = 10
BOUND = 100_000


def batch(first: int, codec: int = compression.NONE, value: bytes = b"value") -> bytearray:
    builder = BatchBuilder(bytearray(1_000_000), codec)
    for i in range(ROWS):
        assert builder.append(1000 + first + i, None, value)
    data = bytearray(builder.close())
    assign(data, 0, first, 0)
    return data


def resized(data: bytearray) -> bytearray:
    data[8:LOG_OVERHEAD] = (len(data) - LOG_OVERHEAD).to_bytes(4, "big")
    reseal(data, 0, len(data))
    return data


def garbage(first: int) -> bytearray:
    data = batch(first)
    data[HEADER_BYTES:] = bytes((i * 31 + 7) % 256 for i in range(len(data) - HEADER_BYTES))
    return resized(data)


def with_count(count: int) -> Callable[[int], bytearray]:
    def make(first: int) -> bytearray:
        data = batch(first)
        struct.pack_into(">i", data, COUNT_POSITION, count)
        return resized(data)

    return make


def cut(codec: int) -> Callable[[int], bytearray]:
    return lambda first: resized(batch(first, codec)[:-3])


def unknown_codec(first: int) -> bytearray:
    data = batch(first)
    struct.pack_into(">h", data, ATTRIBUTES_POSITION, 5)
    return resized(data)


UNREADABLE: dict[str, Callable[[int], bytearray]] = {
    "garbage": garbage,
    "count too high": with_count(ROWS + 1),
    "count too low": with_count(ROWS - 1),
    "unknown codec": unknown_codec,
    "too large": lambda first: batch(first, compression.ZSTD, bytes(20_000)),
    **{f"cut {codec.name}": cut(codec.id) for codec in compression.CODECS[1:]},
}
READERS = ("poll", "poll_batch", "iteration", "getmany", "aio columns")


class Reader:
    """Reads offsets with one of several APIs, one call per step."""

    def __init__(self, api: str, broker: ScriptedBroker) -> None:
        options: dict[str, Any] = {
            "bootstrap_servers": broker.address,
            "auto_offset_reset": "earliest",
            "fetch_max_wait_ms": 50,
            "retry_backoff_ms": 10,
            "max_decompressed_batch_bytes": BOUND,
        }
        self.api = api
        self.runner = asyncio.Runner()
        if api in ("getmany", "aio columns"):
            self.async_consumer = self.runner.run(self._started(options))
            self.consumer = None
        else:
            self.consumer = KafkaConsumer(**options)
            self.consumer.assign([TP])

    @staticmethod
    async def _started(options: dict[str, Any]) -> aio.KafkaConsumer:
        consumer = aio.KafkaConsumer(**options)
        await consumer.start()
        consumer.assign([TP])
        return consumer

    def offsets(self) -> list[int]:
        if self.consumer is None:
            if self.api == "getmany":
                result = self.runner.run(self.async_consumer.getmany(timeout_ms=300))
                return [record.offset for records in result.values() for record in records]
            columns = self.runner.run(self.async_consumer.poll_batch(timeout_ms=300))
            return [offset for c in columns.values() for offset in c.offsets]
        if self.api == "poll":
            return [record.offset for records in self.consumer.poll(300).values() for record in records]
        if self.api == "poll_batch":
            return [offset for c in self.consumer.poll_batch(300).values() for offset in c.offsets]
        return [next(self.consumer).offset]

    def position(self) -> int:
        return (
            self.runner.run(self.async_consumer.position(TP)) if self.consumer is None else self.consumer.position(TP)
        )

    def seek(self, offset: int) -> None:
        if self.consumer is None:
            self.async_consumer.seek(TP, offset)
        else:
            self.consumer.seek(TP, offset)

    def close(self) -> None:
        if self.consumer is None:
            self.runner.run(self.async_consumer.stop())
        else:
            self.consumer.close()
        self.runner.close()


@pytest.fixture
def open_reader(broker: ScriptedBroker) -> Iterator[Callable[[str], Reader]]:
    readers: list[Reader] = []

    def make(api: str) -> Reader:
        readers.append(Reader(api, broker))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


def read_up_to(reader: Reader, end: int) -> list[int]:
    result: list[int] = []
    while not result or result[-1] < end - 1:
        result += reader.offsets()
    return result


@pytest.mark.option("max.decompressed.batch.bytes")
@pytest.mark.parametrize("api", READERS)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_batch_is_raised_by_each_call_until_the_consumer_seeks(
    broker: ScriptedBroker, open_reader: Callable[[str], Reader], kind: str, api: str
) -> None:
    batches = broker.topics["t"][0]
    batches += [bytes(batch(0)), bytes(UNREADABLE[kind](10)), bytes(batch(20))]
    reader = open_reader(api)
    assert read_up_to(reader, 10) == list(range(10))
    for _ in range(3):
        with pytest.raises(CorruptBatchError, match="t-0, offset 10") as raised:
            reader.offsets()
        assert (raised.value.topic_partition, raised.value.offset, raised.value.next_offset) == (TP, 10, 20)
        assert ("max.decompressed.batch.bytes=100000" in raised.value.message) == (kind == "too large")
        assert reader.position() == 10
    reader.seek(raised.value.next_offset)
    assert read_up_to(reader, 30) == list(range(20, 30))


def fetched(data: bytes, position: int = 0) -> CompletedFetch:
    return CompletedFetch(
        PartitionState(TP), memoryview(data), position, limit=1 << 20, check_crc=True, aborted=None,
        max_decompressed_bytes=BOUND,
    )  # fmt: skip


def test_records_before_garbage_in_a_fetch_are_returned() -> None:
    zeros = bytearray(batch(10))
    zeros[8:LOG_OVERHEAD] = bytes(4)
    result = fetched(bytes(batch(0) + zeros))
    assert [r.offset for r in result.next_records(100, None, None)] == list(range(10))
    assert result.end_offset == result.position == 10  # the offset of the next fetch
    with pytest.raises(CorruptMessageError):
        fetched(bytes(zeros), 10)


def test_messages_of_old_formats_before_a_malformed_one_are_returned() -> None:
    good = down_converted(bytes(batch(0)), 1)
    bad = bytearray(down_converted(bytes(batch(10)), 1))
    bad[-1] ^= 1
    result = fetched(good + bad)
    assert [r.offset for r in result.next_records(100, None, None)] == list(range(19))
    assert result.end_offset == 19
    with pytest.raises(CorruptMessageError):
        fetched(bytes(bad[-len(bad) // 10 :]), 19)


def test_old_message_that_decompresses_beyond_the_limit_is_not_skipped() -> None:
    large = down_converted(bytes(batch(10, compression.GZIP, bytes(20_000))), 1)
    with pytest.raises(compression.DecompressedTooLargeError):
        fetched(large, 10)
    result = fetched(down_converted(bytes(batch(0)), 1) + large)
    assert result.end_offset == 10


@pytest.mark.parametrize("kind", UNREADABLE)
def test_range_with_an_unreadable_batch_is_not_read_past_it(broker: ScriptedBroker, kind: str) -> None:
    broker.topics["t"][0] += [bytes(batch(0)), bytes(UNREADABLE[kind](10)), bytes(batch(20))]
    result: list[int] = []
    with pytest.raises(CorruptBatchError, match="t-0, offset 10"):
        for columns in read_range(broker.address, TP, 0, 30, {"max.decompressed.batch.bytes": BOUND}):
            result += columns.offsets
    assert result == list(range(10))
