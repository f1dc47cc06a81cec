"""The lock timeouts of share partitions: each is checked when its first record times out."""

from __future__ import annotations

import asyncio
from uuid import UUID

from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
from ottla.coordinator.share_partition.share_state_records import ShareKey


def test_lock_timeout_uses_the_earliest_deadline() -> None:
    async def test() -> None:
        config, clock, image = BrokerConfig({}), ManualClock(), ClusterImage("c")
        states = ShareCoordinator(config, clock, lambda: image)
        timeouts = states._lock_timeouts
        slow, fast = ShareKey("slow", UUID(int=1), 0), ShareKey("fast", UUID(int=1), 0)
        states.schedule_lock_timeout(slow, 60.0)
        states.schedule_lock_timeout(fast, 20.0)
        states.schedule_lock_timeout(fast, 15.0)
        for _ in range(1000):
            states.schedule_lock_timeout(slow, 61.0)
        assert timeouts._timer
        assert timeouts._timer.when() < asyncio.get_running_loop().time() + 16
        assert len(timeouts._due) == 3
        clock.advance(15_000)
        timeouts.expire()
        assert timeouts._timer.when() > asyncio.get_running_loop().time() + 4
        clock.advance(45_000)
        timeouts.expire()
        assert not timeouts._timer
        assert not timeouts._scheduled

    asyncio.run(test())
