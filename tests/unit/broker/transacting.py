"""A transactional producer and a read_committed consumer without sockets, for tests that script every request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from tests.unit.broker.asking import SECONDS, Asker, batch
from tests.unit.broker.produce_and_fetch import create, fetch_request

from ottla.broker.server.broker_node import BrokerNode
from ottla.clock import ManualClock
from ottla.config.broker import BrokerConfig
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


class Transactor:
    """One instance of a producer with a transactional id, of the classic (`newer=False`) or the newer transactions."""

    def __init__(self, client: Asker, transactional_id: str = "tx", *, newer: bool = False) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.newer = newer
        self.producer_id, self.epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, *, come_back: bool = False) -> int:
        """InitProducerId, repeated while the last transaction is being completed."""
        who: dict[str, Any] = {"producer_id": self.producer_id, "producer_epoch": self.epoch} if come_back else {}
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS, **who
        )
        answer = await self._settled(lambda: self.client.ask(request, 5))
        if not answer.error_code:
            self._become(answer.producer_id, answer.producer_epoch)
        return answer.error_code  # type: ignore[no-any-return]

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch

    async def add(self, *partitions: TopicPartition) -> int:
        """AddPartitionsToTxn; the first error."""
        topics = [AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in partitions]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )

        async def ask() -> Any:
            answer = await self.client.ask(request, 3)
            actual = [p for t in answer.results_by_topic_v3_and_below for p in t.results_by_partition]
            return max(actual, key=lambda p: p.partition_error_code)

        return (await self._settled(ask)).partition_error_code  # type: ignore[no-any-return]

    async def write(self, tp: TopicPartition, *values: bytes, version: int | None = None) -> Any:
        """Produce one transactional batch: the partition's answer."""
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

        async def ask() -> Any:
            answer = await self.client.ask(request, version or (12 if self.newer else 11))
            return answer.responses[0].partition_responses[0]

        answer = await self._settled(ask)
        if not answer.error_code:
            self._sequences[tp] = sequence + len(values)
        return answer

    async def send(self, tp: TopicPartition, *values: bytes) -> int:
        """Write as a client of its kind does, adding the partition first where that is its duty."""
        if not self.newer and (code := await self.add(tp)):
            return code
        return (await self.write(tp, *values)).error_code  # type: ignore[no-any-return]

    async def commit_offset(self, tp: TopicPartition, offset: int, **member: Any) -> int:
        """Commit an offset of GROUP in the transaction."""
        who: dict[str, Any] = {"transactional_id": self.transactional_id, "producer_id": self.producer_id}
        who |= {"producer_epoch": self.epoch, "group_id": GROUP}
        if not self.newer:
            added = await self._settled(lambda: self.client.ask(AddOffsetsToTxnRequest(**who), 3))
            if added.error_code:
                return added.error_code  # type: ignore[no-any-return]
        expected = TxnOffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_metadata="m"
        )
        topics = [TxnOffsetCommitRequestTopic(name=tp.topic, partitions=[expected])]
        request = TxnOffsetCommitRequest(topics=topics, **who, **member)

        async def ask() -> Any:
            answer = await self.client.ask(request, 5 if self.newer else 4)
            return answer.topics[0].partitions[0]

        return (await self._settled(ask)).error_code  # type: ignore[no-any-return]

    async def end(self, commit: bool = True) -> int:
        """EndTxn."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self._settled(lambda: self.client.ask(request, 5 if self.newer else 4))
        if self.newer and not answer.error_code:
            self._become(answer.producer_id, answer.producer_epoch)
        return answer.error_code  # type: ignore[no-any-return]

    async def _settled(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The answer that is not CONCURRENT_TRANSACTIONS: clients ask again until there is one."""
        for _ in range(TRIES):
            answer = await ask()
            code = answer.partition_error_code if hasattr(answer, "partition_error_code") else answer.error_code
            if code != CONCURRENT:
                return answer
            await settle(self.client)
        raise AssertionError(f"{TRIES} times CONCURRENT_TRANSACTIONS")


async def settle(client: Asker) -> None:
    """Wait until no transaction is being completed."""
    while finishing := client.context.transactions.completer.tasks:
        await asyncio.wait(finishing.values())


async def find_coordinator(client: Asker) -> None:
    """Have `__transaction_state` and `__consumer_offsets` made."""
    for kind in (0, 1):
        answer = await client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=["k"]), 4)
        assert answer.coordinators[0].error_code == 0, answer


async def read_committed(client: Asker, tp: TopicPartition, max_bytes: int = 1 << 20) -> list[bytes]:
    """What a read_committed consumer gets: up to the last stable offset, without aborted batches and markers."""
    values: list[bytes] = []
    offset = 0
    while True:
        expected = fetch_request(offset, tp.topic, tp.partition, isolation_level=1, partition_max=max_bytes)
        (actual,) = (await client.ask(expected, 11)).responses[0].partitions
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


async def committed_offset(client: Asker, tp: TopicPartition, *, stable: bool = False) -> tuple[int, int]:
    """(error, offset) of GROUP."""
    topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])]
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    answer = await client.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    (actual,) = answer.groups[0].topics[0].partitions
    return actual.error_code, actual.committed_offset


def at_clock(
    test: Callable[[Asker, ManualClock], Coroutine[Any, Any, None]],
    data: Path,
    clock: ManualClock | None = None,
    **options: Any,
) -> None:
    """Run a test against a broker whose clock only the test moves; another call on `data` is its next start."""
    time = clock or ManualClock()
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data), "num.partitions": 2}
    configs |= {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    configs |= {k.replace("_", "."): v for k, v in options.items()}

    async def run() -> None:
        async with BrokerNode(BrokerConfig(configs), time) as node:
            await asyncio.wait_for(test(Asker(node), time), SECONDS)

    asyncio.run(run())


async def begin(client: Asker, **more: Any) -> Transactor:
    await find_coordinator(client)
    if "t" not in client.context.image.topics:
        await create(client, partitions=2)
    producer = Transactor(client, **more)
    assert await producer.init() == 0
    return producer


class NoMarkers:
    """A disk under the partitions that fails."""

    async def write(self, ending: Any, partitions: Any) -> dict[Any, Any]:
        return dict.fromkeys(partitions, KafkaStorageError())
