"""Transactions with an Ottla broker, in both versions of the protocol, and with a scripted coordinator."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.client.scripted import SILENCE, ScriptedBroker

from ottla import (
    Broker,
    ConsumerGroupMetadata,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
    aio,
)
from ottla.client.core.connections import DATA, Connections
from ottla.client.producer.transactions import Transactions
from ottla.errors import (
    BrokerConnectionError,
    ConcurrentTransactionsError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    OperationNotAttemptedError,
    ProducerFencedError,
    SerializationError,
    TopicAuthorizationFailedError,
    TransactionAbortedError,
)
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

SECONDS = 20.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(params=["add partitions", "implicit"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether partitions are added with AddPartitionsToTxn, or by their first batch (KIP-890)."""
    if request.param == "add partitions":
        monkeypatch.setattr("ottla.client.producer.transactions.NEWER", 99)
    return str(request.param)


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    name = "t-" + str(abs(hash(request.node.nodeid)))
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, 3, 1)])
    return name


def producer(bootstrap: str, name: str, **options: Any) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-{name}", **options)
    producer.init_transactions()
    return producer


def committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Return the values that a read_committed consumer reads: `count`, and any that follow within 0.1 s."""
    result: list[bytes] = []
    with KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=None,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        end = time.monotonic() + SECONDS
        while len(result) < count and time.monotonic() < end:
            result += [r.value for records in consumer.poll(200).values() for r in records]
        result += [r.value for records in consumer.poll(100).values() for r in records]
    return sorted(result)


def test_committed_records_are_read_and_aborted_ones_are_not(bootstrap: str, topic: str, protocol: str) -> None:
    remaining = []
    with producer(bootstrap, topic) as sender:
        assert sender._core.transactions.newer is (protocol == "implicit")
        for number in range(6):
            sender.begin_transaction()
            values = [b"%d-%d" % (number, i) for i in range(20)]
            for value in values:
                sender.send(topic, value)
            if number % 3 == 1:
                sender.abort_transaction()
            else:
                sender.commit_transaction()
                remaining += values
    assert committed(bootstrap, topic, len(remaining)) == sorted(remaining)


def test_offsets_are_committed_or_discarded_with_their_transaction(bootstrap: str, topic: str, protocol: str) -> None:
    tp = TopicPartition(topic, 0)
    with KafkaConsumer(bootstrap_servers=bootstrap, group_id=f"g-{topic}", enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        end = time.monotonic() + SECONDS
        while not consumer.assignment() and time.monotonic() < end:
            consumer.poll(100)
        with producer(bootstrap, topic) as sender:
            for offset, commit in ((5, True), (9, False), (7, True)):
                sender.begin_transaction()
                sender.send_offsets_to_transaction({tp: OffsetAndMetadata(offset, "noted")}, consumer.group_metadata())
                sender.commit_transaction() if commit else sender.abort_transaction()
                if not commit:
                    assert consumer.committed(tp) == 5
        result = consumer.committed(tp, metadata=True)
        assert isinstance(result, OffsetAndMetadata)
        assert (result.offset, result.metadata) == (7, "noted")
        with producer(bootstrap, topic) as sender:
            sender.begin_transaction()
            with pytest.raises(ValueError, match="offset -1 is not valid"):
                sender.send_offsets_to_transaction({tp: -1}, consumer.group_metadata())
            sender.send_offsets_to_transaction({tp: 8}, consumer.group_metadata())
            sender.commit_transaction()
        assert consumer.committed(tp) == 8


@pytest.mark.option("transactional.id")
def test_zombie_producer_is_fenced_and_its_records_are_aborted(bootstrap: str, topic: str, protocol: str) -> None:
    zombie = producer(bootstrap, topic)
    zombie.begin_transaction()
    zombie.send(topic, b"zombie")
    zombie.flush()
    with producer(bootstrap, topic) as heir:
        zombie.send(topic, b"late")
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
        with pytest.raises(ProducerFencedError):
            zombie.begin_transaction()
        with heir.transaction():
            heir.send(topic, b"heir")
    zombie.close()
    assert committed(bootstrap, topic, 1) == [b"heir"]


def test_transaction_with_a_failed_record_can_only_be_aborted(bootstrap: str, topic: str, protocol: str) -> None:
    with KafkaAdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(f"{topic}-small", 1, 1, topic_configs={"max.message.bytes": "500"})])
    with producer(bootstrap, topic) as sender:
        sender.begin_transaction()
        sender.send(topic, b"aborted")
        failed = sender.send(f"{topic}-small", bytes(1000))
        with pytest.raises(MessageTooLargeError):
            sender.commit_transaction()
        assert isinstance(failed.exception(SECONDS), MessageTooLargeError)
        with pytest.raises(MessageTooLargeError):
            sender.send(topic, b"not now")
        sender.abort_transaction()
        with sender.transaction():
            for i in range(50):
                sender.send(topic, b"%02d" % i)
                sender.send(f"{topic}-small", b"%02d" % i)
    assert committed(bootstrap, topic, 50) == [b"%02d" % i for i in range(50)]
    assert committed(bootstrap, f"{topic}-small", 50) == [b"%02d" % i for i in range(50)]


def too_large(sender: KafkaProducer, topic: str) -> None:
    failed = sender.send(topic, bytes(2000))
    assert isinstance(failed.exception(SECONDS), MessageTooLargeError)


def too_large_in_a_batch(sender: KafkaProducer, topic: str) -> None:
    with pytest.raises(MessageTooLargeError):
        sender.send_batch(topic, [b"1", bytes(2000), b"3"])


def to_no_topic(sender: KafkaProducer, topic: str) -> None:
    with pytest.raises(KafkaTimeoutError):
        sender.send(topic, b"nowhere", partition=99)


@pytest.mark.parametrize("fail_record", [too_large, too_large_in_a_batch, to_no_topic])
def test_transaction_with_a_record_that_failed_before_a_batch_can_only_be_aborted(
    bootstrap: str, topic: str, fail_record: Callable[[KafkaProducer, str], None]
) -> None:
    with producer(bootstrap, topic, max_request_size=1000, max_block_ms=2000) as sender:
        sender.begin_transaction()
        sender.send(topic, b"aborted")
        fail_record(sender, topic)
        with pytest.raises((MessageTooLargeError, KafkaTimeoutError)):
            sender.commit_transaction()
        sender.abort_transaction()
        with sender.transaction():
            sender.send(topic, b"kept")
    assert committed(bootstrap, topic, 1) == [b"kept"]


def test_serialization_error_does_not_fail_the_transaction(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, topic) as sender, sender.transaction():
        with pytest.raises(SerializationError):
            sender.send(topic, 1)
        sender.send(topic, b"kept")
    assert committed(bootstrap, topic, 1) == [b"kept"]


def test_abort_drops_pending_records(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, topic, linger_ms=60_000) as sender:
        sender.begin_transaction()
        waiting = sender.send(topic, b"waits")
        sender.abort_transaction()
        assert isinstance(waiting.exception(SECONDS), TransactionAbortedError)
        with sender.transaction():
            sender.send(topic, b"kept")
    assert committed(bootstrap, topic, 1) == [b"kept"]


def test_transaction_block_that_raises_is_aborted_and_the_error_propagates(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, topic) as sender:
        with pytest.raises(ZeroDivisionError):
            with sender.transaction():
                sender.send(topic, b"bad")
                1 / 0  # noqa: B018
        with sender.transaction():
            sender.send(topic, b"good")
    assert committed(bootstrap, topic, 1) == [b"good"]


def test_close_aborts_the_open_transaction(bootstrap: str, topic: str) -> None:
    with producer(bootstrap, topic) as sender:
        sender.begin_transaction()
        sender.send(topic, b"left")
    with producer(bootstrap, f"{topic}-other") as other, other.transaction():
        other.send(topic, b"other")
    assert committed(bootstrap, topic, 1) == [b"other"]


def test_close_with_an_open_transaction_ends_at_its_timeout(topic: str) -> None:
    with Broker() as broker:
        sender = producer(broker.bootstrap_servers, topic)
        sender.begin_transaction()
        sender.send(topic, b"left").get(SECONDS)
    begin = time.monotonic()
    sender.close(0)
    assert time.monotonic() - begin < 1


def test_calls_in_the_wrong_order_raise_illegal_state(bootstrap: str, topic: str) -> None:
    with (
        KafkaProducer(bootstrap_servers=bootstrap) as plain,
        pytest.raises(IllegalStateError, match="transactional.id"),
    ):
        plain.begin_transaction()
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-{topic}") as sender:
        for call in (sender.begin_transaction, sender.commit_transaction, lambda: sender.send(topic, b"x")):
            with pytest.raises(IllegalStateError, match="init_transactions"):
                call()
        sender.init_transactions()
        for call in (sender.commit_transaction, sender.abort_transaction, lambda: sender.send(topic, b"x")):
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                call()
        sender.begin_transaction()
        for call in (sender.begin_transaction, sender.init_transactions):
            with pytest.raises(IllegalStateError):
                call()
        sender.commit_transaction()


def test_asyncio_producer_commits_and_aborts_transactions(bootstrap: str, topic: str, protocol: str) -> None:
    async def run() -> None:
        async with aio.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"id-{topic}") as sender:
            await sender.init_transactions()
            async with sender.transaction():
                await sender.send(topic, b"kept")
            with pytest.raises(ZeroDivisionError):
                async with sender.transaction():
                    await sender.send(topic, b"dropped")
                    1 / 0  # noqa: B018
            with pytest.raises(MessageTooLargeError):
                async with sender.transaction():
                    await sender.send(topic, b"dropped")
                    await sender.send(topic, bytes(2_000_000))  # its future is ignored

    asyncio.run(asyncio.wait_for(run(), SECONDS))
    assert committed(bootstrap, topic, 1) == [b"kept"]


@pytest.mark.parametrize("silent", [InitProducerIdRequest, FindCoordinatorRequest])
def test_init_transactions_with_a_silent_coordinator_ends_after_max_block_ms(silent: type[Any]) -> None:
    with ScriptedBroker() as broker:
        broker.on(silent, lambda _: SILENCE, times=100)
        with KafkaProducer(bootstrap_servers=broker.address, transactional_id="id", max_block_ms=100) as sender:
            began = time.monotonic()
            with pytest.raises(KafkaTimeoutError):
                sender.init_transactions()
            assert time.monotonic() - began < 2


# A scripted coordinator, with the first version of the protocol


def unknown_coordinator(request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Return a coordinator that is not in the metadata."""
    result = [Coordinator(key=key, node_id=2, host="127.0.0.1", port=1) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=result, node_id=2, host="127.0.0.1", port=1)


def test_unknown_coordinator_is_looked_up_again() -> None:
    with ScriptedBroker() as broker:
        broker.on(FindCoordinatorRequest, unknown_coordinator, times=2)
        with KafkaProducer(bootstrap_servers=broker.address, transactional_id="id", retry_backoff_ms=10) as sender:
            sender.init_transactions()
        assert len(broker.requests_of(FindCoordinatorRequest)) == 3


@pytest.fixture
def scripted() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.add_topic("t")
        broker.on(AddOffsetsToTxnRequest, lambda _: AddOffsetsToTxnResponse(), times=100)
        broker.on(EndTxnRequest, lambda _: EndTxnResponse(), times=100)
        yield broker


def test_coordinator_lost_after_its_response_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = Connections.connect, [BrokerConnectionError("gone")] * 3
    with ScriptedBroker() as broker:

        async def connect(self: Connections, node_id: int, purpose: str = DATA) -> Any:
            if purpose == DATA and node_id >= 0 and failures and broker.requests_of(InitProducerIdRequest):
                raise failures.pop()
            return await real(self, node_id, purpose)

        monkeypatch.setattr(Connections, "connect", connect)
        with KafkaProducer(bootstrap_servers=broker.address, transactional_id="id", retry_backoff_ms=10) as sender:
            sender.init_transactions()
        assert not failures
        assert len(broker.requests_of(InitProducerIdRequest)) == 1


def partitions_added(request: AddPartitionsToTxnRequest, code: int | None = 0) -> AddPartitionsToTxnResponse:
    topics = [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=code or 0)
                for p in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)


def offset_commit_error(code: int | None) -> TxnOffsetCommitResponse:
    partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code or 0)
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=[partition])])


def test_abort_waits_for_pending_add_partitions_to_txn(scripted: ScriptedBroker) -> None:
    # Otherwise they would start another transaction after the abort, which no producer ends.
    scripted.on(AddPartitionsToTxnRequest, lambda r: partitions_added(r, ConcurrentTransactionsError.code), times=3)
    scripted.on(AddPartitionsToTxnRequest, partitions_added, times=100)
    with producer(scripted.address, "t", linger_ms=0, retry_backoff_ms=50) as sender:
        sender.begin_transaction()
        sender.send("t", b"v")
        scripted.wait_for(lambda: bool(scripted.requests_of(AddPartitionsToTxnRequest)))
        sender.abort_transaction()
        kinds = [type(r) for r in scripted.requests if isinstance(r, (AddPartitionsToTxnRequest, EndTxnRequest))]
        assert kinds == [AddPartitionsToTxnRequest] * 4 + [EndTxnRequest]
        sender.begin_transaction()


def test_transaction_fails_with_the_error_because_of_which_other_partitions_were_not_added(
    scripted: ScriptedBroker,
) -> None:
    def rejected(_: Any) -> AddPartitionsToTxnResponse:
        results = [
            AddPartitionsToTxnPartitionResult(partition_index=partition, partition_error_code=error.code or 0)
            for partition, error in enumerate((OperationNotAttemptedError, TopicAuthorizationFailedError))
        ]
        topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    scripted.on(AddPartitionsToTxnRequest, rejected)
    with producer(scripted.address, "t", linger_ms=0) as sender:
        sender.begin_transaction()
        with pytest.raises(TopicAuthorizationFailedError):
            sender.send("t", b"v").get(SECONDS)
        sender.abort_transaction()


def test_adding_partitions_is_retried_with_a_backoff_after_an_unexpected_error(
    scripted: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scripted.on(AddPartitionsToTxnRequest, partitions_added, times=100)
    attempts: list[float] = []
    real = Transactions._add_partitions

    async def add_partitions(transactions: Transactions) -> None:
        attempts.append(time.monotonic())
        if len(attempts) <= 3:
            raise ZeroDivisionError("a bug")
        await real(transactions)

    monkeypatch.setattr(Transactions, "_add_partitions", add_partitions)
    with producer(scripted.address, "t", linger_ms=0, retry_backoff_ms=50) as sender:
        sender.begin_transaction()
        sender.send("t", b"v").get(SECONDS)
        sender.commit_transaction()
    assert [before + 0.045 < after for before, after in itertools.pairwise(attempts)] == [True] * 3
    assert [r.message for r in caplog.records if r.exc_info] == [
        "transactional.id id-t: could not add t-0 to the transaction; retrying in 0.05 s"
    ] * 3


def test_transaction_with_cancelled_offsets_can_only_be_aborted(scripted: ScriptedBroker) -> None:
    # They may still arrive after the commit, as part of the next transaction.
    scripted.on(TxnOffsetCommitRequest, lambda _: SILENCE, times=100)

    async def run() -> None:
        async with aio.KafkaProducer(bootstrap_servers=scripted.address, transactional_id="id") as sender:
            await sender.init_transactions()
            await sender.begin_transaction()
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(5)}
            sending = asyncio.ensure_future(sender.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("g")))
            while not scripted.requests_of(TxnOffsetCommitRequest):
                await asyncio.sleep(0.01)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            scripted.cut()
            with pytest.raises(KafkaError, match="interrupted"):
                await sender.commit_transaction()
            await sender.abort_transaction()

    asyncio.run(asyncio.wait_for(run(), SECONDS))
    assert [r.committed for r in scripted.requests_of(EndTxnRequest)] == [False]
    assert len(scripted.requests_of(InitProducerIdRequest)) == 2, "only a new epoch fences the late offsets"


def test_retried_abort_still_requests_a_new_epoch(scripted: ScriptedBroker) -> None:
    scripted.on(TxnOffsetCommitRequest, lambda _: offset_commit_error(IllegalGenerationError.code))
    with producer(scripted.address, "t", max_block_ms=1500) as sender:
        scripted._scripts[EndTxnRequest.NAME].clear()
        scripted.on(EndTxnRequest, lambda _: SILENCE)
        scripted.on(EndTxnRequest, lambda _: EndTxnResponse(), times=100)
        sender.begin_transaction()
        with pytest.raises(KafkaError):
            sender.send_offsets_to_transaction(
                {TopicPartition("t", 0): OffsetAndMetadata(5)}, ConsumerGroupMetadata("g")
            )
        with pytest.raises(KafkaTimeoutError):
            sender.abort_transaction()
        scripted.cut()
        sender.abort_transaction()
        assert len(scripted.requests_of(InitProducerIdRequest)) == 2


@pytest.mark.parametrize("missing", ["metadata", "memory"])
def test_record_waiting_while_its_transaction_ends_is_not_in_the_next_one(
    scripted: ScriptedBroker, missing: str
) -> None:
    scripted.on(AddPartitionsToTxnRequest, partitions_added, times=100)
    topic = "later" if missing == "metadata" else "t"

    async def run() -> None:
        options: dict[str, Any] = {"buffer_memory": 1000, "batch_size": 1000, "linger_ms": 60_000}
        async with aio.KafkaProducer(
            bootstrap_servers=scripted.address, transactional_id="id", max_block_ms=15_000, **options
        ) as sender:
            await sender.init_transactions()
            await sender.begin_transaction()
            pool, buffer = sender._core.accumulator.pool, None
            if missing == "memory":
                buffer = pool.try_allocate(1000)
                assert buffer is not None
            sending = asyncio.ensure_future(sender.send(topic, bytes(500)))
            await asyncio.sleep(0.05)
            await sender.abort_transaction()
            if buffer is not None:
                pool.release(buffer)
            else:
                scripted.add_topic(topic)
            with pytest.raises(IllegalStateError, match="no transaction is open"):
                await sending
            assert sender._core.accumulator.pool.available == 1000

    asyncio.run(asyncio.wait_for(run(), SECONDS))
