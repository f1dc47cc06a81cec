"""Topics and clients of old message formats, and rejected records."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce

from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import PartitionData
from ottla.records import any_magic, legacy_message_set
from ottla.records.builder import BatchBuilder
from ottla.records.compression import GZIP, ZSTD
from ottla.records.conversion import down_converted
from ottla.records.legacy_message_set import messages
from ottla.replication.partition import Partition

UNSUPPORTED_VERSION, INVALID_TIMESTAMP, UNSUPPORTED_FOR_FORMAT, UNSUPPORTED_COMPRESSION, INVALID_RECORD = (
    35, 32, 43, 76, 87
)  # fmt: skip


async def fetch(client: BrokerClient, version: int, offset: int = 0) -> PartitionData:
    response: PartitionData = (await client.request(fetch_request(offset), version)).responses[0].partitions[0]
    return response


def partition(client: BrokerClient) -> Partition:
    return client.context.partitions.leader(client.context.image, TopicPartition("t", 0))


def rows(data: Any) -> list[tuple[int, bytes | None]]:
    return [
        (r.offset, r.value)
        for header, start, _ in any_magic.split(data)
        for r in any_magic.decode_records(data, start, header)
    ]


def compressed_batch(codec: int, *values: bytes) -> bytearray:
    builder = BatchBuilder(bytearray(1000), codec)
    for value in values:
        builder.append(time.time_ns() // 1_000_000, b"k", value)
    return bytearray(builder.close())


@pytest.mark.parametrize(("version_of_format", "magic"), [("0.9.0", 0), ("0.10.2-IV0", 1)])
@pytest.mark.parametrize("produced", [1, 2, 9])
def test_topic_of_an_old_message_format_is_stored_and_fetched_in_it(
    tmp_path: Path, version_of_format: str, magic: int, produced: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, message_format_version=version_of_format)
        for data in (batch(b"a", b"b"), compressed_batch(GZIP, b"c", b"d")):
            sent = data if produced >= 3 else bytearray(down_converted(data, min(produced - 1, 1)))
            assert (await produce(client, sent, version=produced)).error_code == 0
        stored = partition(client).log.read(0, 10_000, max_offset=4).read()
        assert {m.magic for m in messages(stored)} == {magic}
        assert [m.offset for m in messages(stored)] == [0, 1, 3]
        for version in (1, 3, 4, 12):
            actual = await fetch(client, version)
            assert rows(actual.records) == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
            assert version < 4 or bytes(actual.records or b"") == stored, "newer clients get it without conversion"
        assert rows((await fetch(client, 12, 2)).records) == [(2, b"c"), (3, b"d")]

    with_broker(test, tmp_path)


def test_topic_of_an_old_message_format_rejects_unsupported_features(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, message_format_version="0.10.0")
        idempotent = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0)
        assert (await produce(client, idempotent)).error_code == UNSUPPORTED_FOR_FORMAT
        builder = BatchBuilder(bytearray(1000))
        builder.append(time.time_ns() // 1_000_000, b"k", b"v", [("h", b"1")])
        assert (await produce(client, bytearray(builder.close()))).error_code == UNSUPPORTED_FOR_FORMAT
        assert (await produce(client, compressed_batch(ZSTD, b"a"))).error_code == UNSUPPORTED_COMPRESSION
        assert partition(client).log.log_end_offset == 0

    with_broker(test, tmp_path)


def test_message_format_of_the_broker_is_the_default_of_its_topics(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        stored = partition(client).log.read(0, 10_000, max_offset=1).read()
        assert [m.magic for m in messages(stored)] == [1]

    with_broker(test, tmp_path, log_message_format_version="0.10.1")


def test_down_conversion_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, message_downconversion_enable="false")
        await produce(client, batch(b"a"))
        assert [(await fetch(client, v)).error_code for v in (0, 3, 4)] == [UNSUPPORTED_VERSION] * 2 + [0]

    with_broker(test, tmp_path)


def test_old_consumer_skips_markers_at_the_end_of_a_segment(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client)
        await produce(client, batch(b"a"))
        marker = batch(
            b"\0\0\0\0\0\0", key=b"\0\0\0\1", producer_id=5, producer_epoch=0, transactional=True, control=True
        )
        partition(client).append(memoryview(marker), from_client=False)
        partition(client).log.roll()
        await produce(client, batch(b"b"))
        assert rows((await fetch(client, 3, 1)).records) == [(2, b"b")]

    with_broker(test, tmp_path)


def test_zstd_requires_request_versions_that_support_it(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, compression_type="zstd")
        assert (await produce(client, compressed_batch(ZSTD, b"a"), version=6)).error_code == UNSUPPORTED_COMPRESSION
        assert (await produce(client, compressed_batch(ZSTD, b"a"), version=7)).error_code == 0
        assert [(await fetch(client, v)).error_code for v in (1, 9, 10)] == [UNSUPPORTED_COMPRESSION] * 2 + [0]

    with_broker(test, tmp_path)


@pytest.mark.parametrize("config", ["message_timestamp_before_max_ms", "message_timestamp_difference_max_ms"])
def test_records_with_invalid_timestamps_are_listed_in_record_errors(tmp_path: Path, config: str) -> None:
    async def test(client: BrokerClient) -> None:
        configs: dict[str, Any] = {config: "60000"}
        await create(client, **configs)
        now = time.time_ns() // 1_000_000
        builder = BatchBuilder(bytearray(1000))
        for age in (0, 100_000, 10_000, 90_000):
            builder.append(now - age, b"k", b"v")
        data = bytearray(builder.close())
        response = await produce(client, bytearray(data))
        assert (response.error_code, response.base_offset) == (INVALID_TIMESTAMP, -1)
        assert [e.batch_index for e in response.record_errors] == [1, 3]
        assert str(now - 100_000) in response.record_errors[0].batch_index_error_message
        assert response.error_message.startswith("2 record(s)")
        assert (await produce(client, data, version=7)).error_code == INVALID_TIMESTAMP

    with_broker(test, tmp_path)


def test_records_without_a_key_in_a_compacted_topic_are_listed_in_record_errors(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await create(client, cleanup_policy="compact")
        builder = BatchBuilder(bytearray(1000))
        for key in (b"k", None, b""):
            builder.append(time.time_ns() // 1_000_000, key, b"v")
        response = await produce(client, bytearray(builder.close()))
        assert (response.error_code, [e.batch_index for e in response.record_errors]) == (INVALID_RECORD, [1])

    with_broker(test, tmp_path)


def test_compressed_message_set_with_absolute_inner_offsets_is_accepted(tmp_path: Path) -> None:
    """In message sets of magic 1 from some old clients, inner offsets do not start at 0."""

    async def test(client: BrokerClient) -> None:
        from ottla.records import compression

        await create(client)
        now = time.time_ns() // 1_000_000
        for first in (0, 70):
            inner = b"".join(legacy_message_set.encode(first + i, now, b"k", b"%d" % i, 1) for i in range(3))
            outer = legacy_message_set.encode(first + 2, now, None, bytes(compression.compress(GZIP, inner)), 1, GZIP)
            assert (await produce(client, bytearray(outer), version=2)).error_code == 0
        expected = [(i, b"%d" % (i % 3)) for i in range(6)]
        assert rows((await fetch(client, 4)).records) == expected
        assert rows((await fetch(client, 2)).records) == expected

    with_broker(test, tmp_path)
