"""ListOffsets through dispatch, in all its versions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, batch, with_broker
from tests.unit.broker.produce_and_fetch import create, produce

from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

EARLIEST, LATEST = -2, -1
UNSUPPORTED_VERSION = 35


async def ask(client: Asker, time: int, version: int, *, replica_id: int = -1, most: int = 10, **more: Any) -> Any:
    want = ListOffsetsPartition(partition_index=0, timestamp=time)
    if version == 0:
        want.max_num_offsets = most
    request = ListOffsetsRequest(replica_id=replica_id, topics=[ListOffsetsTopic(name="t", partitions=[want])], **more)
    return (await client.ask(request, version)).topics[0].partitions[0]


async def fill(client: Asker, **options: Any) -> None:
    await create(client, **options)
    for i in range(9):
        # the highest time is not the last one
        time = 1_700_000_000_000 + (i * 1000 if i < 6 else i)
        assert (await produce(client, batch(b"x" * 100, timestamp=time))).error_code == 0


@pytest.mark.parametrize("version", range(1, 12))
def test_begin_end_and_times_in_every_version(tmp_path: Path, version: int) -> None:
    async def test(client: Asker) -> None:
        await fill(client)
        epoch = client.context.image.topics["t"].partitions[0].leader_epoch if version >= 4 else -1
        for time, offset, actual in (
            (EARLIEST, 0, -1),
            (LATEST, 9, -1),
            (1_700_000_002_500, 3, 1_700_000_003_000),
            (1_700_000_009_000, -1, -1),
        ):
            answer = await ask(client, time, version)
            assert (answer.error_code, answer.offset, answer.timestamp) == (0, offset, actual)
            assert answer.leader_epoch == (epoch if offset >= 0 else -1)

    with_broker(test, tmp_path)


@pytest.mark.parametrize(("time", "since", "offset"), [(-3, 7, 5), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1), (-7, 12, -1)])
def test_names_of_offsets_are_known_since_their_version(tmp_path: Path, time: int, since: int, offset: int) -> None:
    async def test(client: Asker) -> None:
        await fill(client)
        for version in range(12):
            answer = await ask(client, time, version)
            assert answer.error_code == (0 if version >= since else UNSUPPORTED_VERSION), version
            assert version < since or answer.offset == offset

    with_broker(test, tmp_path)


def test_version_0_lists_the_begins_of_segments(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await fill(client, segment_bytes="400")
        (log,) = (partition.log for partition in client.context.partitions)
        starts = [s.base_offset for s in log.segments]
        assert len(starts) > 2
        assert (await ask(client, LATEST, 0)).old_style_offsets == [9, *reversed(starts)]
        assert (await ask(client, LATEST, 0, most=1)).old_style_offsets == [9]
        assert (await ask(client, EARLIEST, 0)).old_style_offsets == [0]
        for i, segment in enumerate(log.segments):
            os.utime(segment.path(".log"), (1000 + i, 1000 + i))
        assert (await ask(client, 1_001_500, 0)).old_style_offsets == [starts[1], 0]
        assert (await ask(client, 1_001_500, 0, most=1)).old_style_offsets == [starts[1]]
        assert (await ask(client, 999_000, 0)).old_style_offsets == []

    with_broker(test, tmp_path)


def test_partition_that_is_asked_for_twice_is_an_invalid_request(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await fill(client)
        twice = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in (EARLIEST, LATEST)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=twice)])
        answer = await client.ask(request, 5)
        assert [p.error_code for p in answer.topics[0].partitions] == [42, 42]

    with_broker(test, tmp_path)


def test_format_0_has_no_times_to_look_for(tmp_path: Path) -> None:
    async def test(client: Asker) -> None:
        await fill(client, message_format_version="0.9.0")
        assert (await ask(client, 1_700_000_000_000, 1)).error_code == 43
        assert (await ask(client, LATEST, 1)).offset == 9

    with_broker(test, tmp_path)
