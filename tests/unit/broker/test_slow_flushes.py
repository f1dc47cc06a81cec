"""A disk that hangs in fsync: the error names it, metrics report it, and other disks and workers continue."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch, with_broker
from tests.unit.broker.monitoring.scraping import scraped
from tests.unit.broker.produce_and_fetch import create, produce, produce_request

from ottla.storage.segment import Segment

REQUEST_TIMED_OUT = 7


def test_flush_that_hangs_delays_only_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = [tmp_path / "a", tmp_path / "b"]
    released = threading.Event()
    sync = Segment.sync

    def hang(segment: Segment) -> None:
        if disks[0] in segment.path("").parents:
            assert released.wait(20)
        sync(segment)

    async def test(client: BrokerClient) -> None:
        await create(client, "t", partitions=2, flush_messages="1")
        logs = {partition.log.dir.parent: partition.topic_partition for partition in client.context.partitions}
        hanging, other = (logs[disk] for disk in disks)
        request = produce_request(batch(b"a"), partition=hanging.partition)
        request.timeout_ms = 10
        response = (await client.request(request, 9)).responses[0].partition_responses[0]
        assert response.error_code == REQUEST_TIMED_OUT
        assert response.error_message == (
            f"the records of {hanging} are not committed within timeout.ms=10: the disk of {disks[0]} has not written "
            "them yet"
        )
        # with num.io.threads=1, a flush in the broker's workers would hold up both
        assert (await produce(client, batch(b"b"), partition=other.partition)).error_code == 0
        await asyncio.get_running_loop().run_in_executor(client.node._workers, lambda: None)
        metrics = await scraped(client.node)
        labels = [{"logDirectory": str(disk)} for disk in disks]
        running = [metrics.value("ottla_log_flush_longest_running_seconds", **label) for label in labels]
        assert running[0] > 0 == running[1]
        assert [metrics.value("ottla_log_flush_time_ms_count", **label) for label in labels] == [0, 1]
        released.set()
        partition = client.context.partitions.get(hanging)
        assert partition is not None
        await partition.flush()
        assert (await scraped(client.node)).value("ottla_log_flush_time_ms_count", **labels[0]) >= 1

    try:
        monkeypatch.setattr(Segment, "sync", hang)
        with_broker(test, tmp_path, log_dirs=",".join(map(str, disks)), num_io_threads=1)
    finally:
        released.set()
