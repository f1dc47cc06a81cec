"""ListOffsets in all versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, produce

from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST, LATEST = -2, -1
UNSUPPORTED_VERSION = 35


async def list_offset(
    client: BrokerClient, time: int, version: int, *, replica_id: int = -1, max_offsets: int = 10, **more: Any
) -> Any:
    requested = ListOffsetsPartition(partition_index=0, timestamp=time)
    if version == 0:
        requested.max_num_offsets = max_offsets
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[requested])], **more
    )
    return (await client.request(request, version)).topics[0].partitions[0]


async def fill(client: BrokerClient, **options: Any) -> None:
    await create(client, **options)
    for i in range(9):
        # the highest timestamp is not that of the last record
        time = 1_700_000_000_000 + (i * 1000 if i < 6 else i)
        assert (await produce(client, batch(b"x" * 100, timestamp=time))).error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_earliest_latest_and_timestamp_lookups_in_every_version(tmp_path: Path, version: int) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client)
        epoch = client.context.image.topics["t"].partitions[0].leader_epoch if version >= 4 else -1
        for time, offset, actual in (
            (EARLIEST, 0, -1),
            (LATEST, 9, -1),
            (1_700_000_002_500, 3, 1_700_000_003_000),
            (1_700_000_009_000, -1, -1),
        ):
            response = await list_offset(client, time, version)
            assert (response.error_code, response.offset, response.timestamp) == (0, offset, actual)
            assert response.leader_epoch == (epoch if offset >= 0 else -1)

    with_broker(test, tmp_path)


@pytest.mark.parametrize(("time", "since", "offset"), [(-3, 7, 5), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1), (-7, 12, -1)])
def test_special_timestamps_are_supported_since_their_version(
    tmp_path: Path, time: int, since: int, offset: int
) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client)
        for version in range(12):
            response = await list_offset(client, time, version)
            assert response.error_code == (0 if version >= since else UNSUPPORTED_VERSION), version
            assert version < since or response.offset == offset

    with_broker(test, tmp_path)


def test_version_0_lists_base_offsets_of_segments(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client, segment_bytes="400")
        (log,) = (partition.log for partition in client.context.partitions)
        starts = [s.base_offset for s in log.segments]
        assert len(starts) > 2
        assert (await list_offset(client, LATEST, 0)).old_style_offsets == [9, *reversed(starts)]
        assert (await list_offset(client, LATEST, 0, max_offsets=1)).old_style_offsets == [9]
        assert (await list_offset(client, EARLIEST, 0)).old_style_offsets == [0]
        for i, segment in enumerate(log.segments):
            os.utime(segment.path(".log"), (1000 + i, 1000 + i))
        assert (await list_offset(client, 1_001_500, 0)).old_style_offsets == [starts[1], 0]
        assert (await list_offset(client, 1_001_500, 0, max_offsets=1)).old_style_offsets == [starts[1]]
        assert (await list_offset(client, 999_000, 0)).old_style_offsets == []

    with_broker(test, tmp_path)


def test_duplicate_partition_is_an_invalid_request(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client)
        duplicates = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in (EARLIEST, LATEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=duplicates)])
        response = await client.request(request, 5)
        assert [p.error_code for p in response.topics[0].partitions] == [42, 42]

    with_broker(test, tmp_path)


def test_timestamp_lookup_in_message_format_0_is_unsupported(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        await fill(client, message_format_version="0.9.0")
        assert (await list_offset(client, 1_700_000_000_000, 1)).error_code == 43
        assert (await list_offset(client, LATEST, 1)).offset == 9

    with_broker(test, tmp_path)
