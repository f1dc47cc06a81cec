"""Three replicas with random faults by a seed: acknowledged records are not lost, and all replicas are equal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.unit.broker.broker_client import batch
from tests.unit.replication.simulated_brokers import TP, Brokers, content
from tests.unit.replication.virtual_loop import run

from ottla import page_cache
from ottla.errors import KafkaError
from ottla.records.decoder import records

STEPS = 15


class Writer:
    """Writes with acks=all, and records the acknowledged records."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.acked: dict[int, bytes] = {}
        self.stopped = False
        self._number = 0
        self._seen: dict[int, int] = {}

    async def run(self) -> None:
        while not self.stopped:
            await asyncio.sleep(self.brokers.random.uniform(0, 0.4))
            for broker in list(self.brokers.live.values()):
                await self._write(broker)

    async def _write(self, broker: object) -> None:
        partition = broker.partitions.get_leader(TP)  # type: ignore[attr-defined]
        if partition is None:
            return  # an old leader that has not yet received the new image is written to as well
        epoch, high_watermark = partition.image.leader_epoch, partition.high_watermark
        assert high_watermark >= self._seen.get(epoch, 0), "the high watermark went back within a leadership"
        self._seen[epoch] = high_watermark
        self._number += 1
        value = b"%d" % self._number * self.brokers.random.randint(1, 60)
        try:
            appended = partition.append(memoryview(batch(value, timestamp=1)))
            wait = partition.when_committed(appended.last_offset + 1)
            if wait is not None:
                await asyncio.wait_for(wait, 1.5)
        except (KafkaError, TimeoutError):
            return
        self.acked[appended.base_offset] = value


async def inject_faults(brokers: Brokers) -> None:
    rng = brokers.random
    for _ in range(STEPS):
        await asyncio.sleep(rng.uniform(0, 3))
        fault = rng.choice(["kill", "kill", "restart", "restart", "disconnect", "heal", "elect", "checkpoint"])
        if fault == "kill" and len(brokers.live) > 1:
            brokers.kill(rng.choice(sorted(brokers.live)))
        elif fault == "restart":
            for i in set(brokers.ids) - set(brokers.live):
                await brokers.restart(i)
        elif fault == "disconnect" and not brokers.disconnected:
            brokers.disconnected.add(rng.choice(brokers.ids))
            if brokers.state.leader in brokers.disconnected:
                brokers.elect()
        elif fault == "heal":
            brokers.disconnected.clear()
        elif fault == "elect":
            brokers.elect()
        elif fault == "checkpoint":
            for broker in brokers.live.values():
                broker.log_dir.begin_checkpoint()()


@pytest.fixture(autouse=True)
def _cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from the page cache: workers that read from the disk take real time."""
    monkeypatch.setattr(page_cache, "RWF_NOWAIT", 0)


@pytest.mark.parametrize("has_slow_disks", [False, True])
@pytest.mark.parametrize("seed", [*range(4), 412])  # 412: a follower that truncates is sent the high watermark again
def test_acknowledged_records_are_not_lost_and_replicas_are_equal(
    tmp_path: Path, seed: int, has_slow_disks: bool
) -> None:
    async def simulate() -> None:
        brokers = Brokers(tmp_path, seed)
        brokers.has_slow_disks = has_slow_disks
        await brokers.start()
        writer = Writer(brokers)
        writing = asyncio.ensure_future(writer.run())
        await inject_faults(brokers)
        brokers.disconnected.clear()
        for i in set(brokers.ids) - set(brokers.live):
            await brokers.restart(i)
        writer.stopped = True
        await writing
        await brokers.settle()
        contents = {content(b.partition) for b in brokers.live.values() if b.partition is not None}
        assert len(contents) == 1
        leader = brokers.leader
        assert leader is not None
        assert leader.partition is not None
        stored = {r.offset: r.value for _, data in leader.partition.log.batches_from(0) for r in records(data)}
        assert writer.acked
        lost = {offset: value for offset, value in writer.acked.items() if stored.get(offset) != value}
        assert not lost, f"seed {seed}"
        brokers.close()

    run(simulate())
