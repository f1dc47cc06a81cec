"""Transactions and topics where the coordinator, or the controller, is another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.broker.asking import Asker, with_broker
from tests.unit.broker.transacting import T0, T1, at_clock, begin, read_committed, settle

from ottla.clock import ManualClock
from ottla.coordinator.transaction.add_partitions import AddPartitionsClient
from ottla.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION
from ottla.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    LeaderNotAvailableError,
    NetworkError,
    NotControllerError,
    NotEnoughReplicasError,
    TopicAlreadyExistsError,
    TransactionAbortableError,
)
from ottla.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.message import decode, encode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.storage.log import Log

OTHER = 1


class Coordinator:
    """The other broker: says what a test wants of partitions, and does what it wants before."""

    def __init__(self) -> None:
        self.code = 0
        self.unreached = False
        self.before: Callable[[], Any] = lambda: None
        self.requested: list[tuple[bool, list[str]]] = []

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str) -> Any:
        assert broker_id == OTHER
        if self.unreached:
            raise NetworkError
        request = decode(type(request), encode(request, version), version)
        done = self.before()
        if asyncio.iscoroutine(done):
            await done
        (expected,) = request.transactions
        partitions = [f"{t.name}-{p}" for t in expected.topics for p in t.partitions]
        self.requested.append((expected.verify_only, partitions))
        topics = [
            AddPartitionsToTxnTopicResult(
                name=t.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=self.code)
                    for p in t.partitions
                ],
            )
            for t in expected.topics
        ]
        result = AddPartitionsToTxnResult(transactional_id=expected.transactional_id, topic_results=topics)
        return AddPartitionsToTxnResponse(results_by_transaction=[result])


async def move_away(client: Asker, topic: str = TRANSACTION_STATE) -> Coordinator:
    """Another broker leads all of the topic's partitions."""
    context, other = client.context, Coordinator()
    object.__setattr__(context, "add_partitions", AddPartitionsClient(other, 5.0))  # type: ignore[arg-type]
    image = context.image.topics[topic]
    moved = replace(image, partitions=tuple(replace(p, leader=OTHER, leader_epoch=9) for p in image.partitions))
    await context.metadata_cache.update(lambda view: replace(view, topics={**view.topics, topic: moved}))
    return other


async def marker(client: Asker, producer: Any, *, commit: bool) -> None:
    """The coordinator has a marker written."""
    from ottla.coordinator.runtime.coordinator_log import Producer
    from ottla.coordinator.transaction.transaction_markers import TransactionEnd

    version = EPOCH_PER_TRANSACTION if producer.newer else 0
    ending = TransactionEnd(Producer(producer.producer_id, producer.epoch + producer.newer), commit, 9, version)
    assert set((await client.context.markers.write(ending, [T0])).values()) == {None}


def stored(client: Asker) -> Log:
    partition = client.context.partitions.get(T0)
    assert partition is not None
    return partition.log


@pytest.mark.parametrize("newer", [False, True])
def test_another_coordinator_is_asked_once_before_the_first_batch(tmp_path: Path, newer: bool) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client, newer=newer)
        other = await move_away(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        assert (await producer.write(T0, b"b")).error_code == 0
        assert other.requested == [(not newer, ["t-0"])]
        await marker(client, producer, commit=True)
        assert await read_committed(client, T0) == [b"a", b"b"]
        assert stored(client).producers._guards == {}

    at_clock(test, tmp_path)


@pytest.mark.parametrize("newer", [False, True])
def test_a_marker_that_comes_while_the_coordinator_is_asked_keeps_the_batch_out(tmp_path: Path, newer: bool) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client, newer=newer)
        other = await move_away(client)
        other.before = lambda: marker(client, producer, commit=False)
        assert (await producer.write(T0, b"late")).error_code == NotEnoughReplicasError.code, "to be sent again"
        assert not stored(client).producers.ongoing

    at_clock(test, tmp_path)


def test_markers_of_the_last_transaction_do_not_stand_in_the_way_of_the_next(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client, newer=True)
        other = await move_away(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        last = replace_epoch(producer)
        other.code = ConcurrentTransactionsError.code or 0

        async def complete() -> None:
            if len(other.requested) == 3:  # asked again, and while it was on its way the marker came
                await marker(client, last, commit=True)
            elif len(other.requested) == 4:
                other.code = 0

        other.before = complete
        assert (await producer.write(T0, b"b")).error_code == 0
        assert len(other.requested) == 5

    at_clock(test, tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000)


def replace_epoch(producer: Any) -> Any:
    """The producer goes on with its next epoch; what it was."""
    last = SimpleNamespace(producer_id=producer.producer_id, epoch=producer.epoch, newer=producer.newer)
    producer._become(producer.producer_id, producer.epoch + 1)
    return last


def test_a_marker_that_the_question_meets_on_its_way_makes_it_be_asked_again(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        other = await move_away(client)

        async def once() -> None:
            if len(other.requested) == 0:
                await marker(client, producer, commit=False)

        other.before = once
        assert (await producer.write(T0, b"a")).error_code == 0
        assert len(other.requested) == 2

    at_clock(test, tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000)


def test_what_the_coordinator_refuses_is_not_appended(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client, newer=True)
        other = await move_away(client)
        other.code = TransactionAbortableError.code or 0
        assert (await producer.write(T0, b"a")).error_code == TransactionAbortableError.code
        other.code = CoordinatorLoadInProgressError.code or 0
        assert (await producer.write(T0, b"a")).error_code == NotEnoughReplicasError.code
        other.unreached = True
        assert (await producer.write(T0, b"a")).error_code == NotEnoughReplicasError.code
        assert stored(client).log_end_offset == 0
        other.code, other.unreached = 0, False
        assert (await producer.write(T0, b"a")).error_code == 0

    at_clock(test, tmp_path)


def test_one_partition_that_is_refused_does_not_stop_one_that_takes_part(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        other = await move_away(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        other.code = TransactionAbortableError.code or 0
        assert (await producer.write(T1, b"a")).error_code == TransactionAbortableError.code
        assert (await producer.write(T0, b"b")).error_code == 0

    at_clock(test, tmp_path)


def test_offsets_are_committed_in_a_transaction_of_another_coordinator(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client, newer=True)
        other = await move_away(client)
        assert await producer.commit_offset(T0, 7) == 0
        assert [requested for _, (requested,) in other.requested] == [str(client.context.groups.partition_of("g"))]
        other.unreached = True
        assert await producer.commit_offset(T0, 8) == 0, "its partition takes part already"

    at_clock(test, tmp_path)


def test_the_state_of_who_moves_away_is_not_answered_for(tmp_path: Path) -> None:
    async def test(client: Asker, clock: ManualClock) -> None:
        producer = await begin(client)
        await settle(client)
        await move_away(client)
        assert not client.context.transactions.by_id
        assert await producer.init() == 16

    at_clock(test, tmp_path)


# Topics


class Controller:
    """The controller, another broker: creates topics, whose metadata this broker receives when the test says so."""

    def __init__(self, client: Asker) -> None:
        self.client = client
        self.controller = client.context.controller
        self.requested: list[CreatableTopic] = []
        self.code = 0
        self.reported = True
        self.making = type(self.controller.topics).create

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str) -> Any:
        request = decode(CreateTopicsRequest, encode(request, version), version)
        (topic,) = request.topics
        self.requested.append(topic)
        if self.reported and not self.code:
            assignment = [(0,)] * topic.num_partitions
            options = {config.name: config.value for config in topic.configs}
            await self.making(self.controller.topics, topic.name, assignment, options)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name, error_code=self.code)])


def elsewhere(client: Asker, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """Have another broker be the controller."""
    other = Controller(client)

    async def refuse(*_: Any, **_keywords: Any) -> None:
        raise NotControllerError

    monkeypatch.setattr(type(other.controller.topics), "create", refuse)
    object.__setattr__(client.context, "inter_broker", other)
    return other


async def find(client: Asker) -> int:
    answer = await client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    return answer.coordinators[0].error_code


def test_the_controller_is_asked_for_internal_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        other = elsewhere(client, monkeypatch)
        assert await find(client) == 0
        (topic,) = other.requested
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS, 3, 1)
        assert {c.name: c.value for c in topic.configs}["cleanup.policy"] == "compact"
        assert await find(client) == 0
        assert len(other.requested) == 1

    with_broker(test, tmp_path)


def test_topic_missing_in_this_brokers_metadata_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        other = elsewhere(client, monkeypatch)
        other.reported, other.code = False, TopicAlreadyExistsError.code or 0
        finding = asyncio.ensure_future(find(client))
        while not other.requested:
            await asyncio.sleep(0)
        assert not finding.done()
        await other.making(other.controller.topics, CONSUMER_OFFSETS, [(0,)], {})
        assert await finding == 0

    with_broker(test, tmp_path)


@pytest.mark.parametrize("error", [NetworkError, NotControllerError])
def test_a_controller_that_is_not_reached_makes_clients_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    async def test(client: Asker) -> None:
        other = elsewhere(client, monkeypatch)

        async def unreached(*_: Any, **__: Any) -> None:
            raise error

        other.send = unreached  # type: ignore[method-assign]
        assert await find(client) == CoordinatorNotAvailableError.code
        answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 8)
        assert answer.topics[0].error_code == LeaderNotAvailableError.code

    with_broker(test, tmp_path)


def test_topics_are_changed_by_the_controller_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: Asker) -> None:
        monkeypatch.setattr(type(client.context.controller), "is_active", False)
        await client.context.metadata_cache.update(lambda image: replace(image, controller_id=7))
        code = NotControllerError.code
        plan = CreatableTopic(name="bad name!", num_partitions=1, replication_factor=99)
        for only_check in (False, True):
            request = CreateTopicsRequest(topics=[plan], timeout_ms=1000, validate_only=only_check)
            assert [t.error_code for t in (await client.ask(request, 7)).topics] == [code]
        deleted = await client.ask(DeleteTopicsRequest(topic_names=["none"], timeout_ms=1000), 5)
        assert [t.error_code for t in deleted.responses] == [code]
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="none", count=2)], timeout_ms=1000)
        assert [t.error_code for t in (await client.ask(more, 3)).results] == [code]
        monkeypatch.undo()

    with_broker(test, tmp_path)
