"""Requests of any size do not block the event loop for long, and do not leak memory."""

from __future__ import annotations

import asyncio
import gc
import os
import time
import tracemalloc
import uuid
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.large_requests import array_paths, large

from ottla.broker.apis import SUPPORTED_APIS, ApiEntry
from ottla.cluster.image.cluster_image import PartitionImage, TopicImage
from ottla.errors import KafkaError
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.messages.metadata import MetadataRequest

ITEMS = int(os.environ.get("OTTLA_LARGE_ITEMS", "1000"))
"""Length of the long array, unless the API has a lower limit."""
STALL_SECONDS = 0.1
"""The largest Fetch, of 40,000 partitions, takes half of it on an idle core, and more on a slow or shared one."""
MEASUREMENTS = 8
LEFT_BYTES = 10 * 1024 * 1024
WAIT_SECONDS = 10
NEVER = frozenset({"SaslHandshake", "SaslAuthenticate", "ApiVersions"})
"""APIs without arrays."""
ADVICE = "let the API's row in broker/apis.py name the array in `parts`, or lower its `max_items`"


class Heartbeat:
    """Measures the longest time for which the event loop was blocked."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Heartbeat:
        gc.disable()  # its pauses depend on the objects of earlier tests
        self._task = asyncio.create_task(self._beat())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.sleep(0)
        assert self._task is not None
        self._task.cancel()
        gc.enable()

    async def _beat(self) -> None:
        last = time.thread_time()  # CPU time of this thread, without other processes of the machine
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - last)
            last = now


async def send(client: BrokerClient, frame: bytearray) -> None:
    """Send a request, and wait for the response, which is not decoded, since that is the client's work."""
    try:
        response = client.dispatch(frame)
        if isinstance(response, Awaitable):
            await asyncio.wait_for(response, WAIT_SECONDS)
    except (CloseConnectionError, KafkaError, TimeoutError):
        pass


async def stall(client: BrokerClient, frame: bytearray) -> float:
    """Return for how long a request blocks the event loop: the minimum of several measurements, since other load on
    a shared core slows down each instruction. One measurement below the limit is enough.
    """
    longest = []
    for _ in range(MEASUREMENTS):
        async with Heartbeat() as heartbeat:
            await send(client, frame)
        longest.append(heartbeat.longest)
        if heartbeat.longest <= STALL_SECONDS:
            break
    return min(longest)


def cases(row: ApiEntry) -> list[tuple[int, tuple[str, ...]]]:
    """Return each array with the first and the last version that has it: the handler is the same for those between."""
    versions: dict[tuple[str, ...], list[int]] = {}
    for version in row.versions(in_cluster=False):
        for path in array_paths(row.api.request, version):
            versions.setdefault(path, []).append(version)
    return [(version, path) for path, of_path in versions.items() for version in sorted({of_path[0], of_path[-1]})]


ROWS = [row for row in SUPPORTED_APIS if row.name not in NEVER and cases(row)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_request_with_many_items_does_not_stall_others(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        slow = []
        items = min(ITEMS, row.max_items)
        for version, path in cases(row):
            for distinct in (True, False):
                few, frame = (
                    client.frame(large(row.api.request, version, path, n, distinct=distinct), version)
                    for n in (20, items)
                )
                await send(client, few)  # imports, and compiles the codecs
                if (longest := await stall(client, frame)) > STALL_SECONDS:
                    slow.append(f"v{version} {'.'.join(path)} distinct={distinct}: {1000 * longest:.0f} ms")
        assert not slow, ADVICE

    with_broker(test, tmp_path, seconds=300, auto_create_topics_enable="false")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_largest_request_does_not_stall_others_or_leak_memory(row: ApiEntry, tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        version = row.versions(in_cluster=False)[-1]
        slow = []
        for path in (path for v, path in cases(row) if v == version):
            # the maximum number of items, without and with nested items
            items = [row.max_items - 100, row.max_items // 4]
            frames = [client.frame(large(row.api.request, version, path, n, distinct=True), version) for n in items]
            await send(client, client.frame(large(row.api.request, version, path, 20, distinct=True), version))
            for frame in frames:
                if (longest := await stall(client, frame)) > STALL_SECONDS:
                    slow.append(f"{'.'.join(path)}: {1000 * longest:.0f} ms for {len(frame)} bytes")
        gc.collect()
        tracemalloc.start()  # slow, so only the last array is measured
        await send(client, frames[-1])
        gc.collect()
        left = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert left < LEFT_BYTES, f"{'.'.join(path)}: {left} bytes are left of {len(frames[-1])}"
        assert not slow, ADVICE

    with_broker(test, tmp_path, seconds=600, auto_create_topics_enable="false")


def test_metadata_of_many_partitions_does_not_stall_others(tmp_path: Path) -> None:
    async def test(client: BrokerClient) -> None:
        image = client.context.image
        partition = PartitionImage(0, 0, (0,), (0,))
        topics = {f"t{n}": TopicImage(f"t{n}", uuid.UUID(int=n + 1), (partition,) * (1 + n % 50)) for n in range(1000)}
        client.context.metadata_cache.image = image.with_topics(topics)
        frame = client.frame(MetadataRequest(topics=None), 9)
        await send(client, frame)
        async with Heartbeat() as heartbeat:
            response = await client.request(MetadataRequest(topics=[]), 9)
            assert not response.topics
            await send(client, frame)
        assert heartbeat.longest < STALL_SECONDS
        client.context.metadata_cache.image = image

    with_broker(test, tmp_path)
