"""The rebalance of preferred leaders: imbalanced partitions and the first run."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from ottla.cluster.controller import preferred_leader_rebalance
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.controller.preferred_leader_rebalance import PreferredLeaderRebalance, imbalanced_partitions
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from ottla.model import TopicPartition


def image(*leaders: int, isr: tuple[int, ...] = (0, 1), alive: tuple[int, ...] = (0, 1)) -> ClusterImage:
    """Return a topic whose partitions all prefer broker 0 and have these leaders."""
    partitions = tuple(PartitionImage(leader, 0, (0, 1), isr) for leader in leaders)
    return ClusterImage(
        "c",
        brokers=MappingProxyType({n: BrokerImage(n, ()) for n in alive}),
        topics=MappingProxyType({"t": TopicImage("t", UUID(int=1), partitions)}),
    )


def test_imbalanced_partitions_are_those_whose_preferred_leader_is_in_sync() -> None:
    assert imbalanced_partitions(image(0, 1, 1), 10) == [TopicPartition("t", 1), TopicPartition("t", 2)]
    assert imbalanced_partitions(image(*[0] * 9, 1), 10) == [], "a tenth is allowed"
    assert imbalanced_partitions(image(1, isr=(1,)), 10) == []
    assert imbalanced_partitions(image(1, alive=(1,)), 10) == []


def test_rebalance_of_a_new_controller_starts_before_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preferred_leader_rebalance, "INITIAL_DELAY_SECONDS", 0.0)

    class Controller:
        image = image(1)

        def __init__(self) -> None:
            self.elected = asyncio.Event()
            self.elections: tuple[Any, ...] = ()

        async def elect(self, *elections: Any) -> None:
            self.elections = elections
            self.elected.set()

    async def test() -> None:
        controller: Any = Controller()
        balance = PreferredLeaderRebalance(controller, interval_seconds=3600, percentage=10)
        balance.start()
        await asyncio.wait_for(controller.elected.wait(), 30)
        balance.close()
        assert controller.elections == (Reason.PREFERRED, [TopicPartition("t", 0)])

    asyncio.run(test())
