"""Probes: requests that brokers must reject, such as those of producers, leaders and controllers that were replaced.

In a real cluster, such requests come from processes that were paused, or over slow connections, at moments that rarely
occur in a run. The probes send them on purpose. A success is a violation; no response or an error is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ottla import errors
from ottla.cluster.store import znodes
from ottla.model import TopicPartition
from ottla.protocol.messages.alter_partition import AlterPartitionData, AlterPartitionRequest, AlterPartitionTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.simulation.clients.raw_client import GROUP, ProducerId, RawClient, batch_of, raise_for
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import ORDERED, History
from ottla.simulation.workloads import GROUP as READERS
from ottla.simulation.workloads import Member, Workload

PROBES: Final = "probes"
"""The topic that probes write to; it has one partition."""
PAUSE_SECONDS: Final = 1.5
FAR: Final = 1000
"""A number above all leader and coordinator epochs of a run."""


class PreparedTransaction(NamedTuple):
    """A transactional id with two producer epochs, of which the second has fenced the first."""

    id: str
    fenced: ProducerId
    current: ProducerId


class Prober(Workload):
    """Sends the probes one after the other until the clients are stopped."""

    def __init__(self, cluster: SimulatedCluster, history: History, members: Sequence[Member]) -> None:
        super().__init__(cluster.world, "prober", cluster.bootstrap_servers, history)
        self._cluster = cluster
        self._members = members
        self._client = RawClient(self.name, cluster.bootstrap_servers)
        self._broker: RawClient | None = None
        """A client with the cluster's secret, which brokers take for another broker; None before its first use."""
        self._count = 0

    async def run(self) -> None:
        probes: list[Callable[[], Awaitable[None]]] = [
            self._old_leader_epoch,
            self._old_controller,
            self._old_generation,
            self._fenced_transaction,
            self._old_producer_epoch,
            self._unverified_batch,
            self._old_coordinator,
            self._old_leader_changes_isr,
        ]
        while not self.is_stopping:
            self._count += 1
            try:
                await probes[self._count % len(probes)]()
            except errors.KafkaError:
                pass  # no answer, or the cluster is changing
            await self.rest(PAUSE_SECONDS)
        self._client.close()
        if self._broker is not None:
            self._broker.close()

    def _expect(self, what: str, code: int) -> None:
        if code == errors.NONE:
            self.world.note(self.name, f"{what} was answered with {code}")
            self.history.violations.append(f"{what} was accepted")

    def _as_broker(self) -> RawClient:
        if self._broker is None:
            node = self.world.metadata.node(znodes.CLUSTER_SECRET)
            assert node is not None
            self._broker = RawClient(self.name, self._cluster.bootstrap_servers, znodes.secret_of(node.value))
        return self._broker

    def _batch(self, producer: ProducerId, sequence: int, *, transactional: bool = False) -> memoryview:
        now_ms = 1_800_000_000_000 + int(self.now() * 1000)
        return batch_of([b"probe"], producer, sequence, now_ms, transactional=transactional)

    async def _old_leader_epoch(self) -> None:
        """Fetch with an earlier and a later leader epoch than the leader's."""
        leader = await self._client.leader(PROBES, 0)
        context = self._cluster.brokers[leader.broker].context
        partition = None if context is None else context.partitions.get(TopicPartition(PROBES, 0))
        current = -1 if partition is None else partition.image.leader_epoch
        # another broker may know of a newer epoch than the leader itself
        for epoch in (min(leader.epoch, current) - 1, leader.epoch + FAR):
            if epoch < 0:
                continue
            start = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000)
            topics = [FetchTopic(topic=PROBES, partitions=[start])]
            response = await self._client.send(leader.broker, FetchRequest(max_wait_ms=0, topics=topics), 11)
            raise_for(response.error_code)
            code = response.responses[0].partitions[0].error_code
            self._expect(f"a fetch with leader epoch {epoch} from the leader of epoch {current}", code)

    async def _old_controller(self) -> None:
        """Send UpdateMetadata and LeaderAndIsr with the previous controller epoch."""
        broker = self.rng.choice(self._cluster.brokers)
        if broker.context is None:
            return
        epoch = broker.context.image.controller_epoch - 1
        client = self._as_broker()
        metadata = await client.send(
            broker.id, UpdateMetadataRequest(controller_id=broker.id, controller_epoch=epoch), 6
        )
        self._expect(f"UpdateMetadata of controller epoch {epoch}", metadata.error_code)
        leaders = await client.send(broker.id, LeaderAndIsrRequest(controller_id=broker.id, controller_epoch=epoch), 5)
        self._expect(f"LeaderAndIsr of controller epoch {epoch}", leaders.error_code)

    async def _old_generation(self) -> None:
        """Commit an offset as a member of the group, with an earlier generation or member epoch."""
        if not self._members:
            return
        member = self.rng.choice(self._members)
        if not member.identities:
            return
        member_id, last = member.identities[-1]
        generation = last - 1
        if generation < 0:
            return
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=READERS,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=ORDERED, partitions=[partition])],
        )
        broker = await self._client.coordinator(READERS, GROUP)
        response = await self._client.send(broker, request, 8 if member.is_classic else 9)
        code = response.topics[0].partitions[0].error_code
        self._expect(f"a commit of {member.name} in generation {generation}, which is {last} now", code)

    async def _prepare_transaction(self) -> PreparedTransaction:
        name = f"probe-{self._count}"
        return PreparedTransaction(name, await self._client.init_producer(name), await self._client.init_producer(name))

    async def _add_partition(self, transactional_id: str, producer: ProducerId) -> int:
        return await self._client.add_partitions(transactional_id, producer, PROBES, [0])

    async def _write(self, producer: ProducerId, sequence: int, transactional_id: str | None = None) -> int:
        leader = await self._client.leader(PROBES, 0)
        batch = self._batch(producer, sequence, transactional=transactional_id is not None)
        return (await self._client.produce(leader.broker, PROBES, 0, batch, transactional_id)).error_code

    async def _fenced_transaction(self) -> None:
        """Write and commit as a transactional producer that another one with its transactional id has fenced."""
        name, fenced, current = await self._prepare_transaction()
        self._expect("AddPartitionsToTxn of a fenced producer", await self._add_partition(name, fenced))
        raise_for(await self._add_partition(name, current))
        raise_for(await self._write(current, 0, name))
        self._expect("a batch of a fenced producer", await self._write(fenced, 0, name))
        self._expect("EndTxn of a fenced producer", await self._client.end_transaction(name, fenced))
        raise_for(await self._client.end_transaction(name, current))

    async def _old_producer_epoch(self) -> None:
        """Write with an earlier epoch of an idempotent producer, and with the current one and a gap in its sequence."""
        producer = await self._client.init_producer()
        raise_for(await self._write(producer._replace(epoch=1), 0))
        self._expect("a batch of an old producer epoch", await self._write(producer, 0))
        self._expect("a batch after a gap in the sequence", await self._write(producer._replace(epoch=1), 5))

    async def _unverified_batch(self) -> None:
        """Write a transactional batch to a partition that is not in the transaction. If it were accepted, it would
        never get a marker.
        """
        name, _, current = await self._prepare_transaction()
        self._expect("a batch outside of any transaction", await self._write(current, 0, name))

    async def _old_coordinator(self) -> None:
        """Write a transaction marker as a coordinator that was replaced: with a lower coordinator epoch than before."""
        name, _, current = await self._prepare_transaction()
        raise_for(await self._add_partition(name, current))
        raise_for(await self._write(current, 0, name))
        raise_for(await self._client.end_transaction(name, current))
        raise_for(await self._mark(current, FAR))
        self._expect("a marker of an old coordinator", await self._mark(current, FAR - 1))

    async def _mark(self, producer: ProducerId, coordinator_epoch: int) -> int:
        leader = await self._client.leader(PROBES, 0)
        marker = WritableTxnMarker(
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=PROBES, partition_indexes=[0])],
            coordinator_epoch=coordinator_epoch,
        )
        response = await self._as_broker().send(leader.broker, WriteTxnMarkersRequest(markers=[marker]), 1)
        return response.markers[0].topics[0].partitions[0].error_code

    async def _old_leader_changes_isr(self) -> None:
        """Send AlterPartition with the previous leader epoch, like a leader that was replaced."""
        state = self.world.partition_states.states.get((PROBES, 0))
        controller = next((broker for broker in self._cluster.brokers if broker.is_controller), None)
        if state is None or controller is None or state.leader_epoch < 1 or state.leader < 0:
            return
        node = self.world.metadata.node(znodes.partition_state(PROBES, 0))
        if node is None:
            return
        data = AlterPartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch - 1,
            new_isr=[state.leader],
            partition_epoch=node.version,
        )
        topics = [AlterPartitionTopic(topic_name=PROBES, partitions=[data])]
        request = AlterPartitionRequest(broker_id=state.leader, topics=topics)
        response = await self._as_broker().send(controller.id, request, 1)
        raise_for(response.error_code)
        code = response.topics[0].partitions[0].error_code
        self._expect(f"an ISR of leader epoch {state.leader_epoch - 1}", code)
