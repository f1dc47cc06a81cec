"""A member of a share group, which accepts most records and releases some."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

from ottla import aio
from ottla.client.admin.configs import ConfigResource, ConfigResourceType
from ottla.client.consumer.share.acknowledgements import AcknowledgeType
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import ORDERED, History
from ottla.simulation.workloads import RETRY_SECONDS, Workload

GROUP: Final = "sharers"
RELEASED_SHARE: Final = 0.1


class ShareMember(Workload):
    """A member of a share group. It checks that the acceptance of each record is confirmed only once.

    After one member's acceptance was confirmed, the record may still be delivered to another member, which fetched it
    earlier from a leader that has been replaced since. The brokers then reject the acknowledgement of that member.
    """

    def __init__(
        self, cluster: SimulatedCluster, number: int, history: History, accepted: set[tuple[int, int]]
    ) -> None:
        """Create a member. `accepted` has the partitions and offsets of the records that any member has accepted; all
        members share it.
        """
        super().__init__(cluster.world, f"sharer-{number}", cluster.bootstrap_servers, history)
        self._accepted = accepted

    async def run(self) -> None:
        await self._configure()
        consumer = aio.KafkaShareConsumer(
            **self.options, group_id=GROUP, share_acknowledgement_mode="explicit", fetch_max_wait_ms=5000
        )
        await consumer.start()
        await consumer.subscribe([ORDERED])
        while not self.is_stopping:
            try:
                await self._poll(consumer)
            except KafkaError as error:
                self.world.note(self.name, f"poll or commit failed: {error}")
                await asyncio.sleep(RETRY_SECONDS)
        await consumer.close(5000)

    async def _configure(self) -> None:
        resource = ConfigResource(ConfigResourceType.GROUP, GROUP, {"share.auto.offset.reset": "earliest"})
        while not self.is_stopping:
            try:
                async with aio.KafkaAdminClient(**self.options) as admin:
                    await admin.incremental_alter_configs([resource])
                return
            except KafkaError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _poll(self, consumer: aio.KafkaShareConsumer) -> None:
        sent: dict[TopicPartition, list[int]] = defaultdict(list)
        for tp, records in (await consumer.poll(3000)).items():
            for record in records:
                release = self.rng.random() < RELEASED_SHARE
                consumer.acknowledge(record, AcknowledgeType.RELEASE if release else AcknowledgeType.ACCEPT)
                if not release:
                    sent[tp].append(record.offset)
        if not sent:
            return
        await self.pause(0.2)
        for tp, error in (await consumer.commit(8000)).items():
            if error is not None:
                continue
            for offset in sent.get(tp, ()):
                if (tp.partition, offset) in self._accepted:
                    self.history.violations.append(f"{self.name} has accepted {tp} {offset}, which was accepted before")
                self._accepted.add((tp.partition, offset))
