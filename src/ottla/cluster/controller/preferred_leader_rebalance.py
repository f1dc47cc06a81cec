"""Moves leadership back to preferred replicas, if `auto.leader.rebalance.enable` is set.

After failures, a few brokers may lead most partitions. Soon after its election, and then every
`leader.imbalance.check.interval.seconds`, the controller checks each broker: of the partitions for which it is the
preferred leader, what percentage has another leader? If this exceeds `leader.imbalance.per.broker.percentage`, it
elects the preferred leaders.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla.cluster.controller import reassignment_rules
from ottla.cluster.controller.controller import Controller
from ottla.cluster.controller.leader_election import Reason
from ottla.cluster.image.cluster_image import ClusterImage, PartitionImage
from ottla.errors import KafkaError
from ottla.model import TopicPartition

log = logging.getLogger("ottla.controller")

PERCENT: Final = 100
INITIAL_DELAY_SECONDS: Final = 5.0
"""Delay in seconds of the first check after the election of the controller, as in Kafka; less if the interval is less.
"""


class PreferredLeaderRebalance:
    """Elects preferred leaders from time to time, while this broker is the controller. Not thread-safe: event loop
    only.
    """

    def __init__(self, controller: Controller, interval_seconds: float, percentage: int) -> None:
        self._controller = controller
        self._interval_seconds = interval_seconds
        self._percentage = percentage
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        await asyncio.sleep(min(INITIAL_DELAY_SECONDS, self._interval_seconds))
        while True:
            try:
                strayed = imbalanced_partitions(self._controller.image, self._percentage)
                if strayed:
                    await self._controller.elect(Reason.PREFERRED, strayed)
            except KafkaError as error:
                log.warning(
                    "Cannot elect all preferred leaders; trying again in %g s if this broker is still the controller: "
                    "%s",
                    self._interval_seconds,
                    error,
                )
            except Exception:
                log.exception(
                    "Cannot elect all preferred leaders; trying again in %g s if this broker is still the controller",
                    self._interval_seconds,
                )
            await asyncio.sleep(self._interval_seconds)


def imbalanced_partitions(image: ClusterImage, percentage: int) -> list[TopicPartition]:
    """Return the partitions whose preferred leaders should be elected.

    They belong to live brokers for which more than `percentage` % of the partitions that they should lead have another
    leader. Partitions that are being reassigned, or whose preferred leader is not in sync, are left out.
    """
    preferred: dict[int, list[tuple[TopicPartition, PartitionImage]]] = {}
    for name, topic in image.topics.items():
        for index, p in enumerate(topic.partitions):
            preferred.setdefault(p.replicas[0], []).append((TopicPartition(name, index), p))
    imbalanced: list[TopicPartition] = []
    for broker, partitions in preferred.items():
        strayed = [(tp, p) for tp, p in partitions if p.leader != broker]
        if broker in image.brokers and PERCENT * len(strayed) > percentage * len(partitions):
            imbalanced += [tp for tp, p in strayed if broker in p.isr and not reassignment_rules.is_reassigning(p)]
    return imbalanced
