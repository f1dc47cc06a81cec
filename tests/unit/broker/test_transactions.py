"""Transactions: commit, abort, fencing, timeouts, restarts, offsets, and admin requests."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, batch
from tests.unit.broker.produce_and_fetch import create, fetch_request, produce
from tests.unit.broker.transactional_producer import (
    CONCURRENT,
    T0,
    T1,
    TIMEOUT_MS,
    FailingMarkers,
    TransactionalProducer,
    committed_offset,
    find_coordinator,
    initialized_producer,
    read_committed,
    wait_until_completed,
    with_manual_clock,
)

from ottla.backoff import ExponentialBackoff
from ottla.broker import transaction_verification
from ottla.clock import ManualClock
from ottla.coordinator.transaction import transaction_completion
from ottla.coordinator.transaction.transaction import Transaction, TransactionState
from ottla.errors import (
    InvalidProducerEpochError,
    KafkaError,
    KafkaStorageError,
    MessageTooLargeError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    TransactionCoordinatorFencedError,
)
from ottla.model import TRANSACTION_STATE, ProducerIdAndEpoch, TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.storage.log import Log

CAPABILITIES = transaction_verification.ClientCapabilities(
    joins=True, abortable=True, retriable_error=NotEnoughReplicasError
)
both_versions = pytest.mark.parametrize("newer", [False, True], ids=["classic", "newer"])


@both_versions
def test_records_are_read_once_they_are_committed(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        for _ in range(2):
            before = await read_committed(client, T0)
            assert await producer.send(T0, b"a", b"b") == 0
            assert await producer.send(T1, b"c") == 0
            assert await read_committed(client, T0) == before
            assert await producer.end() == 0
            await wait_until_completed(client)
            assert await read_committed(client, T0) == [*before, b"a", b"b"]
        assert await read_committed(client, T1) == [b"c", b"c"]
        assert (producer.epoch > 0) is newer

    with_manual_clock(test, tmp_path)


@both_versions
def test_aborted_records_are_never_read(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        for value, commit in ((b"a", False), (b"b", True), (b"c", False)):
            assert await producer.send(T0, value) == 0
            assert await producer.end(commit) == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"b"]

    with_manual_clock(test, tmp_path)


@both_versions
def test_new_instance_of_a_producer_fences_the_previous_one(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        zombie = await initialized_producer(client, newer=newer)
        assert await zombie.send(T0, b"zombie") == 0
        new_instance = await initialized_producer(client, newer=newer)
        assert (new_instance.producer_id, new_instance.epoch > zombie.epoch + 1) == (zombie.producer_id, True)
        assert (await zombie.write(T0, b"zombie")).error_code == 47
        assert (await zombie.write(T1, b"zombie")).error_code == 47
        assert await zombie.end() == 90
        assert await zombie.init(bump_epoch=True) == 90
        if not newer:
            assert await zombie.add(T1) == 90
        assert await new_instance.send(T0, b"successor") == 0
        assert await new_instance.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"successor"]

    with_manual_clock(test, tmp_path)


@both_versions
def test_timed_out_transaction_is_aborted(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        def state() -> TransactionState:
            return client.context.transactions.by_id["tx"].state

        producer = await initialized_producer(client, newer=newer)
        assert await producer.send(T0, b"late") == 0
        clock.advance(TIMEOUT_MS)
        client.context.transactions.abort_timed_out()
        assert state() is TransactionState.ONGOING
        clock.advance(1)
        client.context.transactions.abort_timed_out()
        await wait_until_completed(client)
        assert state() is TransactionState.COMPLETE_ABORT
        assert (await producer.write(T0, b"late")).error_code == 47
        assert await producer.end() == (48 if newer else 90)
        assert await producer.init(bump_epoch=True) == 0
        assert await producer.send(T0, b"again") == 0
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"again"]

    with_manual_clock(test, tmp_path)


@both_versions
def test_open_transaction_continues_after_a_restart(tmp_path: Path, newer: bool) -> None:
    async def first(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        assert await producer.send(T0, b"a") == 0
        state.update(producer_id=producer.producer_id, epoch=producer.epoch, _sequences=producer._sequences)

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        producer = TransactionalProducer(client, newer=newer)
        for name, value in state.items():
            setattr(producer, name, value)
        assert await read_committed(client, T0) == []
        assert await producer.send(T0, b"b") == 0
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"a", b"b"]

    state: dict[str, Any] = {}
    with_manual_clock(first, tmp_path)
    with_manual_clock(second, tmp_path)


@both_versions
@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_is_completed_after_a_restart(tmp_path: Path, newer: bool, commit: bool) -> None:
    async def first(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        assert await producer.send(T0, b"a") == 0
        assert await producer.commit_offset(T1, 5) == 0
        client.context.transactions.completer._markers = FailingMarkers()
        assert await producer.end(commit) == 0
        assert await read_committed(client, T0) == []
        again = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=TIMEOUT_MS)
        assert (await client.request(again, 5)).error_code == CONCURRENT

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        await wait_until_completed(client)
        assert await read_committed(client, T0) == ([b"a"] if commit else [])
        assert await committed_offset(client, T1, stable=True) == (0, 5 if commit else -1)
        assert client.context.transactions.by_id["tx"].state == f"Complete{'Commit' if commit else 'Abort'}"

    with_manual_clock(first, tmp_path)
    with_manual_clock(second, tmp_path)


def test_markers_are_retried_until_they_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        runtime = client.context.transactions
        real, left = runtime.completer._markers, [1, 2, 3]

        class FlakyMarkers:
            async def write(self, ending: Any, partitions: Any) -> Any:
                if not left:
                    return await real.write(ending, partitions)
                left.pop()
                return dict.fromkeys(partitions, KafkaStorageError())

        runtime.completer._markers = FlakyMarkers()
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert not left
        assert await read_committed(client, T0) == [b"a"]

    monkeypatch.setattr(transaction_completion, "BACKOFF", ExponentialBackoff(0, 0))
    with_manual_clock(test, tmp_path)


@pytest.mark.parametrize(
    ("error", "state"),
    [(InvalidProducerEpochError, "CompleteCommit"), (TransactionCoordinatorFencedError, "PrepareCommit")],
)
def test_marker_with_a_fatal_error_is_not_retried(tmp_path: Path, error: type[KafkaError], state: str) -> None:
    """A partition with a later producer epoch has its marker; a fenced coordinator leaves it to its successor."""

    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0

        class RejectedMarkers:
            async def write(self, ending: Any, partitions: Any) -> Any:
                return dict.fromkeys(partitions, error())

        client.context.transactions.completer._markers = RejectedMarkers()
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert client.context.transactions.by_id["tx"].state == state

    with_manual_clock(test, tmp_path)


def test_first_write_waits_for_the_markers_of_the_previous_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=True)
        assert await producer.send(T0, b"a") == 0
        runtime, released = client.context.transactions, asyncio.Event()
        real = runtime.completer._markers

        class SlowMarkers:
            async def write(self, ending: Any, partitions: Any) -> Any:
                await released.wait()
                return await real.write(ending, partitions)

        runtime.completer._markers = SlowMarkers()
        assert await producer.end() == 0
        verification = transaction_verification.VerificationResult()
        joining = transaction_verification.add_or_verify(
            client.context, writer_of(producer), {T1: 0}, CAPABILITIES, verification
        )
        writing = asyncio.ensure_future(joining)
        await asyncio.sleep(0)
        assert not writing.done()
        released.set()
        await writing
        assert not verification.partition_errors
        assert client.context.transactions.by_id["tx"].partitions == {T1}

    with_manual_clock(test, tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000)


def writer_of(producer: TransactionalProducer) -> transaction_verification.TransactionalWriter:
    return transaction_verification.TransactionalWriter(
        producer.transactional_id, ProducerIdAndEpoch(producer.producer_id, producer.epoch)
    )


def test_deleted_topic_does_not_block_its_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        await create(client, "gone")
        assert await producer.send(TopicPartition("gone", 0), b"a") == 0
        assert await producer.send(T0, b"b") == 0
        await client.context.controller.topics.delete("gone")
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"b"]

    with_manual_clock(test, tmp_path)


# Offsets


@both_versions
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_transaction(tmp_path: Path, newer: bool, commit: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        assert await producer.commit_offset(T0, 7) == 0
        assert await committed_offset(client, T0) == (0, -1)
        assert await committed_offset(client, T0, stable=True) == (88, -1)
        assert await producer.end(commit) == 0
        await wait_until_completed(client)
        assert await committed_offset(client, T0, stable=True) == (0, 7 if commit else -1)

    async def after_a_restart(client: BrokerClient, clock: ManualClock) -> None:
        assert await committed_offset(client, T0, stable=True) == (0, 7 if commit else -1)

    with_manual_clock(test, tmp_path)
    with_manual_clock(after_a_restart, tmp_path)


def test_first_offset_commit_of_a_cluster_may_be_transactional(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        actual = await client.request(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 4)
        assert actual.coordinators[0].error_code == 0
        await create(client)
        producer = TransactionalProducer(client)
        assert await producer.init() == 0
        assert await producer.commit_offset(T0, 1) == 0

    with_manual_clock(test, tmp_path)


def test_pending_offsets_of_a_deleted_topic_are_removed(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.commit_offset(T0, 1) == 0
        await client.context.controller.topics.delete("t")
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert client.context.groups.offsets.by_group == {}

    with_manual_clock(test, tmp_path)


def test_pending_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def first(client: BrokerClient, clock: ManualClock) -> None:
        assert await (await initialized_producer(client)).commit_offset(T0, 7) == 0

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        assert await committed_offset(client, T0, stable=True) == (88, -1)
        new_instance = TransactionalProducer(client)
        assert await new_instance.init() == 0  # which aborts the open transaction
        assert await committed_offset(client, T0, stable=True) == (0, -1)

    with_manual_clock(first, tmp_path)
    with_manual_clock(second, tmp_path)


@both_versions
def test_offset_commit_with_invalid_member_partition_or_producer_epoch_is_rejected(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        assert await producer.commit_offset(T0, 1, member_id="m", generation_id_or_member_epoch=3) == 22
        assert await producer.commit_offset(TopicPartition("t", 9), 1) == 3
        producer.epoch += 1
        assert await producer.commit_offset(T0, 1) == (47 if newer else 90)

    with_manual_clock(test, tmp_path)


def test_duplicate_add_partitions_waits_until_the_first_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        runtime = client.context.transactions
        log = runtime._log.partition("tx").log
        own_producer = ProducerIdAndEpoch(producer.producer_id, producer.epoch)
        flushing, flush, loop = threading.Event(), Log.flush, asyncio.get_running_loop()

        def slow(flushed: Log, up_to: int | None = None, *, is_awaited: bool = False) -> None:
            assert flushed is not log or flushing.wait(20)
            flush(flushed, up_to, is_awaited=is_awaited)

        monkeypatch.setattr(Log, "flush", slow)
        first = loop.create_task(runtime.add_partitions("tx", own_producer, [T0]))
        await asyncio.sleep(0)
        again = loop.create_task(runtime.add_partitions("tx", own_producer, [T0]))
        await asyncio.sleep(0)
        assert runtime.by_id["tx"].partitions == {T0}
        assert (first.done(), again.done()) == (False, False)
        flushing.set()
        await asyncio.gather(first, again)

    with_manual_clock(test, tmp_path, log_flush_interval_messages=1)


@both_versions
def test_compaction_keeps_transaction_state_and_pending_offsets(tmp_path: Path, newer: bool) -> None:
    """Of `__transaction_state` the last record of each id, of `__consumer_offsets` committed and pending offsets."""

    async def first(client: BrokerClient, clock: ManualClock) -> None:
        producer, other = (
            await initialized_producer(client, newer=newer),
            await initialized_producer(client, newer=newer, transactional_id="other"),
        )
        for offset in range(60):
            assert await producer.commit_offset(T0, offset) == 0
            assert await producer.end(offset % 2 == 0) == 0
            await wait_until_completed(client)
        assert await other.commit_offset(T1, 1) == 0
        assert await producer.commit_offset(T0, 99) == 0
        assert await producer.end(False) == 0
        await wait_until_completed(client)
        logs = [p.log for p in client.context.partitions if p.topic_partition.topic.startswith("__")]
        for log in logs:
            log.roll()
        clock.advance(1000)
        before = sum(log.size for log in logs)
        background_tasks = client.node._background_tasks
        assert background_tasks is not None
        for log_dir in client.node._log_dirs:
            await background_tasks.compact(log_dir)
        assert sum(log.size for log in logs) < before / 2
        states.update(client.context.transactions.by_id)

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        stored = client.context.transactions.by_id
        assert {i: replace(t, last_producer_epoch=-1) for i, t in states.items()} == stored
        assert await committed_offset(client, T0, stable=True) == (0, 58)
        assert await committed_offset(client, T1, stable=True) == (88, -1)

    states: dict[str, Transaction] = {}
    options: dict[str, Any] = {"log_cleaner_min_cleanable_ratio": "0.01", "transaction_state_log_segment_bytes": 3000}
    with_manual_clock(first, tmp_path, **options, offsets_topic_segment_bytes=3000)
    with_manual_clock(second, tmp_path)


# Verification of writes


def test_batch_for_a_partition_not_in_the_transaction_has_the_error_of_its_version(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        assert (await producer.write(T1, b"b", version=10)).error_code == 48
        assert (await producer.write(T1, b"b", version=11)).error_code == 120
        other_producer = TransactionalProducer(client, "other")
        other_producer.producer_id, other_producer.epoch = producer.producer_id, producer.epoch
        assert (await other_producer.write(T1, b"b")).error_code == 49
        client.context.transactions.completer._markers = FailingMarkers()
        assert await producer.end() == 0
        for version, code in ((10, 19), (11, 19), (12, CONCURRENT)):
            data = batch(b"b", transactional=True, producer_id=producer.producer_id, producer_epoch=0, base_sequence=0)
            partition = PartitionProduceData(index=1, records=data)
            request = ProduceRequest(transactional_id="tx", acks=1, timeout_ms=1)
            request.topic_data = [TopicProduceData(name="t", partition_data=[partition])]
            response = (await client.request(request, version)).responses[0].partition_responses[0]
            assert response.error_code == code, version

    with_manual_clock(test, tmp_path)


def test_transaction_verification_can_be_disabled(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert (await producer.write(T1, b"b", version=11)).error_code == 0

    with_manual_clock(test, tmp_path, transaction_partition_verification_enable="false")


def test_transactional_batch_requires_a_transactional_id(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await initialized_producer(client)
        data = batch(b"x", producer_id=0, producer_epoch=0, base_sequence=0, transactional=True)
        assert (await produce(client, data)).error_code == 48

    with_manual_clock(test, tmp_path)


def test_produce_requires_exactly_one_batch_per_partition(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await initialized_producer(client)
        assert (await produce(client, batch(b"a") + batch(b"b"))).error_code == 87
        assert (await produce(client, bytearray())).error_code == 87

    with_manual_clock(test, tmp_path)


@both_versions
def test_batch_that_overtakes_the_first_one_is_out_of_order(tmp_path: Path, newer: bool) -> None:
    """Of two batches in flight the first got CONCURRENT_TRANSACTIONS; the second must not begin the transaction."""

    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        log = client.context.partitions._partitions[T0].log
        log.producers.expect(producer.producer_id, producer.epoch, 0)
        assert newer or await producer.add(T0) == 0
        producer._sequences[T0] = 1
        assert (await producer.write(T0, b"second")).error_code == 45
        producer._sequences[T0] = 0
        assert (await producer.write(T0, b"first")).error_code == 0
        assert (await producer.write(T0, b"second")).error_code == 0

    with_manual_clock(test, tmp_path)


# Requests between brokers


def add_partitions_of_broker(
    producer: TransactionalProducer, *partitions: TopicPartition, verify_only: bool
) -> AddPartitionsToTxnRequest:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="tx",
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition]) for tp in partitions],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_verify_and_add_partitions_of_a_transaction(tmp_path: Path, version: int) -> None:
    async def codes(client: BrokerClient, request: AddPartitionsToTxnRequest) -> list[int]:
        (result,) = (await client.as_broker().request(request, version)).results_by_transaction
        return [p.partition_error_code for t in result.topic_results for p in t.results_by_partition]

    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.add(T0) == 0
        assert await codes(client, add_partitions_of_broker(producer, T0, T1, verify_only=True)) == [0, 120]
        assert await codes(client, add_partitions_of_broker(producer, T0, T1, verify_only=False)) == [0, 0]
        assert await codes(client, add_partitions_of_broker(producer, T0, T1, verify_only=True)) == [0, 0]
        nowhere = TopicPartition("nowhere", 0)
        assert await codes(client, add_partitions_of_broker(producer, T0, nowhere, verify_only=False)) == [55, 3]
        producer.epoch -= 1
        assert await codes(client, add_partitions_of_broker(producer, T0, verify_only=True)) == [90]

    with_manual_clock(test, tmp_path)


def test_old_versions_return_invalid_producer_epoch_for_a_fenced_producer(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=9,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        for version, code in ((0, 47), (1, 47), (2, 90), (3, 90)):
            response = await client.request(request, version)
            assert response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == code
        again = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=TIMEOUT_MS)
        again.producer_id, again.producer_epoch = producer.producer_id, 9
        assert (await client.request(again, 3)).error_code == 47
        assert (await client.request(again, 4)).error_code == 90

    with_manual_clock(test, tmp_path)


@pytest.mark.parametrize(("newer", "epoch", "code"), [(False, 0, 0), (True, 0, 47), (True, 1, 0), (False, -1, 47)])
def test_write_txn_markers_checks_the_epoch_of_the_transaction_version(
    tmp_path: Path, newer: bool, epoch: int, code: int
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0, 5])],
            coordinator_epoch=3,
            transaction_version=2 if newer else 0,
        )
        (response,) = (await client.as_broker().request(WriteTxnMarkersRequest(markers=[marker]), 2)).markers
        assert [p.error_code for p in response.topics[0].partitions] == [code, 3]
        assert await read_committed(client, T0) == ([] if code else [b"a"])

    with_manual_clock(test, tmp_path)


# Limits and admin requests


def test_invalid_init_producer_id_is_rejected(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await find_coordinator(client)

        async def code(**fields: Any) -> int:
            request = InitProducerIdRequest(**{"transactional_id": "tx", "transaction_timeout_ms": 1000, **fields})
            return (await client.request(request, 6)).error_code

        assert await code(transactional_id="") == 42
        assert await code(transaction_timeout_ms=900_001) == 50
        assert await code(transaction_timeout_ms=0) == 50
        assert await code(producer_id=1) == 42
        assert await code(enable_2pc=True) == 53
        assert await code(keep_prepared_txn=True) == 35

    with_manual_clock(test, tmp_path)


@pytest.mark.parametrize(
    ("error", "code"),
    [(KafkaStorageError, 16), (NotLeaderOrFollowerError, 16), (NotEnoughReplicasError, 15), (MessageTooLargeError, -1)],
)
def test_failed_append_of_the_state_leaves_the_transaction_unchanged(
    tmp_path: Path, error: type[KafkaError], code: int
) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        assert await producer.send(T0, b"a") == 0
        runtime = client.context.transactions
        before, real = runtime.by_id["tx"], runtime._log.append

        def fail(*_: Any) -> Any:
            raise error

        runtime._log.append = fail  # type: ignore[assignment, method-assign]
        assert await producer.end() == code
        clock.advance(2 * TIMEOUT_MS)
        runtime.abort_timed_out()
        assert runtime.by_id["tx"] is before
        runtime._log.append = real  # type: ignore[method-assign]
        assert await producer.end() == 0
        await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"a"]

    with_manual_clock(test, tmp_path)


def test_unused_transactional_ids_expire(tmp_path: Path) -> None:
    async def first(client: BrokerClient, clock: ManualClock) -> None:
        await initialized_producer(client)
        await initialized_producer(client, transactional_id="other")
        used = TransactionalProducer(client, "used")
        assert await used.init() == 0
        assert await used.add(T0) == 0
        clock.advance(client.context.config.transactional_id_expiration_ms)
        client.context.transactions.remove_expired()
        assert set(client.context.transactions.by_id) == {"used"}

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        assert set(client.context.transactions.by_id) == {"used"}

    with_manual_clock(first, tmp_path)
    with_manual_clock(second, tmp_path)


def test_transactions_and_producers_are_listed_and_described(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        await initialized_producer(client, transactional_id="idle")
        assert await producer.send(T1, b"a") == 0
        clock.advance(500)

        async def listed(**filters: Any) -> list[str]:
            response = await client.request(ListTransactionsRequest(**filters), 2)
            return sorted(t.transactional_id for t in response.transaction_states)

        assert await listed() == ["idle", "tx"]
        assert await listed(state_filters=["Ongoing"]) == ["tx"]
        assert await listed(producer_id_filters=[99]) == []
        assert await listed(duration_filter=499, state_filters=["Ongoing"]) == ["tx"]
        assert await listed(duration_filter=500, state_filters=["Ongoing"]) == []
        assert await listed(transactional_id_pattern="i.*") == ["idle"]
        unknown = await client.request(ListTransactionsRequest(state_filters=["Nonsense"]), 0)
        assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Nonsense"], [])

        request = DescribeTransactionsRequest(transactional_ids=["tx", "none", ""])
        actual, none, empty = (await client.request(request, 0)).transaction_states
        assert (actual.transaction_state, actual.topics[0].topic, actual.topics[0].partitions) == ("Ongoing", "t", [1])
        assert actual.transaction_start_time_ms == clock.now_ms() - 500
        assert (none.error_code, empty.error_code) == (105, 42)

        requested = TopicRequest(name="t", partition_indexes=[1, 7])
        (topic,) = (await client.request(DescribeProducersRequest(topics=[requested]), 0)).topics
        (state,) = topic.partitions[0].active_producers
        assert (state.producer_id, state.last_sequence, state.current_txn_start_offset) == (producer.producer_id, 0, 0)
        assert topic.partitions[1].error_code == 3

    with_manual_clock(test, tmp_path)


def test_transaction_version_feature_can_be_downgraded(tmp_path: Path) -> None:
    async def level(client: BrokerClient) -> int:
        response = await client.request(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
        return {f.name: f.max_version_level for f in response.finalized_features}.get("transaction.version", 0)

    async def first(client: BrokerClient, clock: ManualClock) -> None:
        assert await level(client) == 2
        update = FeatureUpdateKey(feature="transaction.version", max_version_level=0)
        assert (await client.request(UpdateFeaturesRequest(feature_updates=[update]), 2)).error_code == 95
        update.upgrade_type = 2
        assert (
            await client.request(UpdateFeaturesRequest(feature_updates=[update], validate_only=True), 2)
        ).error_code == 0
        assert await level(client) == 2
        assert (await client.request(UpdateFeaturesRequest(feature_updates=[update]), 2)).error_code == 0

    async def second(client: BrokerClient, clock: ManualClock) -> None:
        assert await level(client) == 0
        await initialized_producer(client)
        states = [p.log for p in client.context.partitions if p.topic_partition.topic == TRANSACTION_STATE]
        log = next(log for log in states if log.log_end_offset)
        ((_, data),) = log.batches_from(0)
        assert bytes(data).endswith(b"\xff" * 8 + b"\x00")  # version 0 ends with the start time; no headers

    with_manual_clock(first, tmp_path)
    with_manual_clock(second, tmp_path)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_update_of_features_with_one_error_changes_none(version: int, tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        kind = {"allow_downgrade": True} if version == 0 else {"upgrade_type": 2}
        lower = FeatureUpdateKey(feature="transaction.version", max_version_level=1, **kind)
        unknown = FeatureUpdateKey(feature="nonsense", max_version_level=1)
        answer = await client.request(UpdateFeaturesRequest(feature_updates=[lower, unknown]), version)
        assert (answer.error_code, answer.results) == (95, [])
        assert (answer.error_message or "").startswith(
            "The update failed for all features since the following feature had an error: Invalid update version 1 "
        )
        assert client.context.image.features["transaction.version"] == 2
        answer = await client.request(UpdateFeaturesRequest(feature_updates=[lower]), version)
        assert (answer.error_code, answer.error_message) == (0, None)
        expected = [("transaction.version", 0)] if version < 2 else []
        assert [(r.feature, r.error_code) for r in answer.results] == expected
        assert client.context.image.features["transaction.version"] == 1

    with_manual_clock(test, tmp_path)


def test_marker_that_advances_the_last_stable_offset_completes_a_waiting_fetch(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await create(client)
        await find_coordinator(client)
        writer = TransactionalProducer(client)
        await writer.init()
        await writer.send(T0, b"x" * 5000)
        request = fetch_request(0, isolation_level=1, min_bytes=4000, wait=60_000)
        waiting = asyncio.ensure_future(client.request(request, 11))
        await asyncio.sleep(0)
        assert await writer.end() == 0
        response = await asyncio.wait_for(waiting, 5)
        assert len(response.responses[0].partitions[0].records or b"") > 5000

    with_manual_clock(test, tmp_path)


def test_fetch_returns_aborted_transactions_of_its_range(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await create(client, index_interval_bytes="100")
        await find_coordinator(client)
        writer = TransactionalProducer(client)
        await writer.init()
        for _ in range(30):
            await writer.send(T0, b"x" * 500)
            assert await writer.end(commit=False) == 0
            await wait_until_completed(client)
        actual = (await client.request(fetch_request(0, isolation_level=1, partition_max=2000), 11)).responses[0]
        reported = [a.first_offset for a in actual.partitions[0].aborted_transactions or ()]
        assert reported[:3] == [0, 2, 4]
        assert len(reported) < 6

    with_manual_clock(test, tmp_path)


def test_end_txn_with_a_cancelled_request_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began, released = threading.Event(), threading.Event()
    flush = Log.flush

    def slow_flush(log: Log, up_to: int | None = None, *, is_awaited: bool = False) -> None:
        if log.topic_partition.topic == TRANSACTION_STATE:
            began.set()
            released.wait(5)
        flush(log, up_to, is_awaited=is_awaited)

    async def test(client: BrokerClient, clock: ManualClock) -> None:
        await create(client)
        await find_coordinator(client)
        writer = TransactionalProducer(client)
        await writer.init()
        await writer.send(T0, b"kept")
        with monkeypatch.context() as context:
            context.setattr(Log, "flush", slow_flush)
            ending = asyncio.ensure_future(writer.end())
            await asyncio.to_thread(began.wait, 5)
            ending.cancel()
            await asyncio.wait([ending])
            released.set()
            await wait_until_completed(client)
        assert await read_committed(client, T0) == [b"kept"]

    with_manual_clock(test, tmp_path, log_flush_interval_messages="1")
