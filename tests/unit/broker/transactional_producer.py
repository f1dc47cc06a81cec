"""A transactional producer and a read_committed consumer, for tests that send every request themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.unit.broker.broker_client import SECONDS, BrokerClient, batch
from tests.unit.broker.produce_and_fetch import create, fetch_request

from ottla.broker.server.broker_node import BrokerNode
from ottla.clock import ManualClock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.errors import (
    KafkaStorageError,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.records.batch import split
from ottla.records.decoder import records
from ottla.storage.producer_state import ABORT, read_marker

CONCURRENT = 51
TIMEOUT_MS = 10_000
TRIES = 10
GROUP = "g"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class TransactionalProducer:
    """An instance of a producer with a transactional id, of transaction version 2 (KIP-890) if `newer`."""

    def __init__(self, client: BrokerClient, transactional_id: str = "tx", *, newer: bool = False) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.newer = newer
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, *, bump_epoch: bool = False) -> int:
        """Send InitProducerId, with the current producer id and epoch if `bump_epoch`, and return the error code."""
        identity: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch} if bump_epoch else {}
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS, **identity
        )
        response = await self._retry_while_concurrent(lambda: self.client.request(request, 5))
        if not response.error_code:
            self._set_producer(response.producer_id, response.producer_epoch)
        return response.error_code  # type: ignore[no-any-return]

    def _set_producer(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *partitions: TopicPartition) -> int:
        """Send AddPartitionsToTxn, and return the highest error code."""
        topics = [AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in partitions]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )

        async def attempt() -> Any:
            response = await self.client.request(request, 3)
            actual = [p for t in response.results_by_topic_v3_and_below for p in t.results_by_partition]
            return max(actual, key=lambda p: p.partition_error_code)

        return (await self._retry_while_concurrent(attempt)).partition_error_code  # type: ignore[no-any-return]

    async def write(self, tp: TopicPartition, *values: bytes, version: int | None = None) -> Any:
        """Produce one transactional batch, and return the response of the partition."""
        sequence = self._sequences.get(tp, 0)
        data = batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            transactional=True,
            timestamp=self.client.context.clock.now_ms(),
        )
        partitions = [PartitionProduceData(index=tp.partition, records=data)]
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=tp.topic, partition_data=partitions)],
        )

        async def attempt() -> Any:
            response = await self.client.request(request, version or (12 if self.newer else 11))
            return response.responses[0].partition_responses[0]

        response = await self._retry_while_concurrent(attempt)
        if not response.error_code:
            self._sequences[tp] = sequence + len(values)
        return response

    async def send(self, tp: TopicPartition, *values: bytes) -> int:
        """Produce as a client of this version does, which adds the partition first unless `newer`."""
        if not self.newer and (code := await self.add(tp)):
            return code
        return (await self.write(tp, *values)).error_code  # type: ignore[no-any-return]

    async def commit_offset(self, tp: TopicPartition, offset: int, **member: Any) -> int:
        """Commit an offset of GROUP in the transaction."""
        identity: dict[str, Any] = {"transactional_id": self.transactional_id, "producer_id": self.producer_id}
        identity |= {"producer_epoch": self.epoch, "group_id": GROUP}
        if not self.newer:
            added = await self._retry_while_concurrent(
                lambda: self.client.request(AddOffsetsToTxnRequest(**identity), 3)
            )
            if added.error_code:
                return added.error_code  # type: ignore[no-any-return]
        partition = TxnOffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_metadata="m"
        )
        topics = [TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[partition])]
        request = TxnOffsetCommitRequest(topics=topics, **identity, **member)

        async def attempt() -> Any:
            response = await self.client.request(request, 5 if self.newer else 4)
            return response.topics[0].partitions[0]

        return (await self._retry_while_concurrent(attempt)).error_code  # type: ignore[no-any-return]

    async def end(self, commit: bool = True) -> int:
        """Send EndTxn, and return the error code."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = await self._retry_while_concurrent(lambda: self.client.request(request, 5 if self.newer else 4))
        if self.newer and not response.error_code:
            self._set_producer(response.producer_id, response.producer_epoch)
        return response.error_code  # type: ignore[no-any-return]

    async def _retry_while_concurrent(self, attempt: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Repeat a request, as clients do, while its error is CONCURRENT_TRANSACTIONS."""
        for _ in range(TRIES):
            response = await attempt()
            code = response.partition_error_code if hasattr(response, "partition_error_code") else response.error_code
            if code != CONCURRENT:
                return response
            await wait_until_completed(self.client)
        raise AssertionError(f"{TRIES} times CONCURRENT_TRANSACTIONS")


async def wait_until_completed(client: BrokerClient) -> None:
    """Wait until no transaction is being completed."""
    while completing := client.context.transactions.completer.tasks:
        await asyncio.wait(completing.values())


async def find_coordinator(client: BrokerClient) -> None:
    """Have `__transaction_state` and `__consumer_offsets` created."""
    for kind in (0, 1):
        response = await client.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"]), 4)
        assert response.coordinators[0].error_code == 0, response


async def read_committed(client: BrokerClient, tp: TopicPartition, max_bytes: int = 1 << 20) -> list[bytes]:
    """Return what a read_committed consumer reads: up to the last stable offset, without aborted batches."""
    values: list[bytes] = []
    offset = 0
    while True:
        request = fetch_request(offset, tp.topic, tp.partition, isolation_level=1, partition_max=max_bytes)
        (actual,) = (await client.request(request, 11)).responses[0].partitions
        assert actual.error_code == 0, actual
        data = bytes(actual.records or b"")
        if not data:
            assert offset == actual.last_stable_offset
            return values
        aborted = [(a.first_offset, a.producer_id) for a in actual.aborted_transactions or []]
        values += _committed(data, sorted(aborted, reverse=True))
        offset = max(header.next_offset for header, _, _ in split(data))


def _committed(data: bytes, aborted: list[tuple[int, int]]) -> list[bytes]:
    skipped: set[int] = set()
    values: list[bytes] = []
    for header, start, end in split(data):
        while aborted and aborted[-1][0] <= header.last_offset:
            skipped.add(aborted.pop()[1])
        if header.is_control:
            marker = read_marker(next(iter(records(data[start:end]))))
            if marker is not None and marker.type == ABORT:
                skipped.discard(header.producer_id)
        elif header.producer_id not in skipped or not header.is_transactional:
            values += [bytes(record.value or b"") for record in records(data[start:end])]
    return values


async def committed_offset(client: BrokerClient, tp: TopicPartition, *, stable: bool = False) -> tuple[int, int]:
    """Return the error code and the committed offset of GROUP."""
    topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    response = await client.request(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    (actual,) = response.groups[0].topics[0].partitions
    return actual.error_code, actual.committed_offset


def with_manual_clock(
    test: Callable[[BrokerClient, ManualClock], Coroutine[Any, Any, None]],
    data: Path,
    clock: ManualClock | None = None,
    **options: Any,
) -> None:
    """Run a test against a broker whose clock only the test advances; another call with `data` restarts it."""
    time = clock or ManualClock()
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), "num.partitions": 2}
    configs |= {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    configs |= {k.replace("_", "."): v for k, v in options.items()}

    async def run() -> None:
        async with BrokerNode(BrokerConfig(configs), time) as node:
            await asyncio.wait_for(test(BrokerClient(node), time), SECONDS)

    asyncio.run(run())


async def initialized_producer(client: BrokerClient, **more: Any) -> TransactionalProducer:
    await find_coordinator(client)
    if "t" not in client.context.image.topics:
        await create(client, partitions=2)
    producer = TransactionalProducer(client, **more)
    assert await producer.init() == 0
    return producer


class FailingMarkers:
    """Marker writes that fail with a storage error."""

    async def write(self, ending: Any, partitions: Any) -> dict[Any, Any]:
        return dict.fromkeys(partitions, KafkaStorageError())
