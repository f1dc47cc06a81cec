"""Transactions with a remote coordinator, and topics with a remote controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient, with_broker
from tests.unit.broker.transactional_producer import (
    T0,
    T1,
    initialized_producer,
    read_committed,
    wait_until_completed,
    with_manual_clock,
)

from ottla.broker import topic_creation
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
    """The coordinator on another broker: records AddPartitionsToTxn requests, and returns the test's error code."""

    def __init__(self) -> None:
        self.code = 0
        self.unreachable = False
        self.before_response: Callable[[], Any] = lambda: None
        self.requested: list[tuple[bool, list[str]]] = []

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str) -> Any:
        assert broker_id == OTHER
        if self.unreachable:
            raise NetworkError
        request = decode(type(request), encode(request, version), version)
        awaitable = self.before_response()
        if asyncio.iscoroutine(awaitable):
            await awaitable
        (transaction,) = request.transactions
        partitions = [f"{t.name}-{p}" for t in transaction.topics for p in t.partitions]
        self.requested.append((transaction.verify_only, partitions))
        topics = [
            AddPartitionsToTxnTopicResult(
                name=t.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=p, partition_error_code=self.code)
                    for p in t.partitions
                ],
            )
            for t in transaction.topics
        ]
        result = AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=topics)
        return AddPartitionsToTxnResponse(results_by_transaction=[result])


async def move_coordinator(client: BrokerClient, topic: str = TRANSACTION_STATE) -> Coordinator:
    """Let another broker lead all partitions of the topic."""
    context, other = client.context, Coordinator()
    object.__setattr__(context, "add_partitions", AddPartitionsClient(other, 5.0))  # type: ignore[arg-type]
    image = context.image.topics[topic]
    moved = replace(image, partitions=tuple(replace(p, leader=OTHER, leader_epoch=9) for p in image.partitions))
    await context.metadata_cache.update(lambda view: replace(view, topics={**view.topics, topic: moved}))
    return other


async def write_marker(client: BrokerClient, producer: Any, *, commit: bool) -> None:
    """Write a marker, as the coordinator does."""
    from ottla.coordinator.transaction.transaction_markers import TransactionEnd
    from ottla.model import ProducerIdAndEpoch

    version = EPOCH_PER_TRANSACTION if producer.newer else 0
    ending = TransactionEnd(
        ProducerIdAndEpoch(producer.producer_id, producer.epoch + producer.newer), commit, 9, version
    )
    assert set((await client.context.markers.write(ending, [T0])).values()) == {None}


def partition_log(client: BrokerClient) -> Log:
    partition = client.context.partitions.get(T0)
    assert partition is not None
    return partition.log


@pytest.mark.parametrize("newer", [False, True])
def test_remote_coordinator_verifies_a_partition_once_before_its_first_batch(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        other = await move_coordinator(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        assert (await producer.write(T0, b"b")).error_code == 0
        assert other.requested == [(not newer, ["t-0"])]
        await write_marker(client, producer, commit=True)
        assert await read_committed(client, T0) == [b"a", b"b"]
        assert partition_log(client).producers._guards == {}

    with_manual_clock(test, tmp_path)


@pytest.mark.parametrize("newer", [False, True])
def test_batch_is_rejected_if_a_marker_is_written_during_its_verification(tmp_path: Path, newer: bool) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=newer)
        other = await move_coordinator(client)
        other.before_response = lambda: write_marker(client, producer, commit=False)
        assert (await producer.write(T0, b"late")).error_code == NotEnoughReplicasError.code, "to be sent again"
        assert not partition_log(client).producers.ongoing

    with_manual_clock(test, tmp_path)


def test_batch_waits_for_the_markers_of_the_previous_transaction(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=True)
        other = await move_coordinator(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        previous = replace_epoch(producer)
        other.code = ConcurrentTransactionsError.code or 0

        async def complete() -> None:
            if len(other.requested) == 3:  # the third attempt, during which the marker is written
                await write_marker(client, previous, commit=True)
            elif len(other.requested) == 4:
                other.code = 0

        other.before_response = complete
        assert (await producer.write(T0, b"b")).error_code == 0
        assert len(other.requested) == 5

    with_manual_clock(test, tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000)


def replace_epoch(producer: Any) -> Any:
    """Bump the epoch of the producer, and return the previous one."""
    previous = SimpleNamespace(producer_id=producer.producer_id, epoch=producer.epoch, newer=producer.newer)
    producer._set_producer(producer.producer_id, producer.epoch + 1)
    return previous


def test_verification_is_repeated_if_a_marker_is_written_meanwhile(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        other = await move_coordinator(client)

        async def once() -> None:
            if len(other.requested) == 0:
                await write_marker(client, producer, commit=False)

        other.before_response = once
        assert (await producer.write(T0, b"a")).error_code == 0
        assert len(other.requested) == 2

    with_manual_clock(test, tmp_path, add_partitions_to_txn_retry_backoff_max_ms=20_000)


def test_batch_rejected_by_the_coordinator_is_not_appended(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=True)
        other = await move_coordinator(client)
        other.code = TransactionAbortableError.code or 0
        assert (await producer.write(T0, b"a")).error_code == TransactionAbortableError.code
        other.code = CoordinatorLoadInProgressError.code or 0
        assert (await producer.write(T0, b"a")).error_code == NotEnoughReplicasError.code
        other.unreachable = True
        assert (await producer.write(T0, b"a")).error_code == NotEnoughReplicasError.code
        assert partition_log(client).log_end_offset == 0
        other.code, other.unreachable = 0, False
        assert (await producer.write(T0, b"a")).error_code == 0

    with_manual_clock(test, tmp_path)


def test_rejected_partition_does_not_affect_a_verified_one(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        other = await move_coordinator(client)
        assert (await producer.write(T0, b"a")).error_code == 0
        other.code = TransactionAbortableError.code or 0
        assert (await producer.write(T1, b"a")).error_code == TransactionAbortableError.code
        assert (await producer.write(T0, b"b")).error_code == 0

    with_manual_clock(test, tmp_path)


def test_offsets_are_committed_with_a_remote_transaction_coordinator(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client, newer=True)
        other = await move_coordinator(client)
        assert await producer.commit_offset(T0, 7) == 0
        assert [requested for _, (requested,) in other.requested] == [str(client.context.groups.partition_of("g"))]
        other.unreachable = True
        assert await producer.commit_offset(T0, 8) == 0, "its partition is in the transaction already"

    with_manual_clock(test, tmp_path)


def test_resigned_transaction_coordinator_returns_not_coordinator(tmp_path: Path) -> None:
    async def test(client: BrokerClient, clock: ManualClock) -> None:
        producer = await initialized_producer(client)
        await wait_until_completed(client)
        await move_coordinator(client)
        assert not client.context.transactions.by_id
        assert await producer.init() == 16

    with_manual_clock(test, tmp_path)


# Topics


class Controller:
    """The controller on another broker: creates topics, whose metadata this broker receives if `is_propagated`."""

    def __init__(self, client: BrokerClient) -> None:
        self.client = client
        self.controller = client.context.controller
        self.requested: list[CreatableTopic] = []
        self.code = 0
        self.is_propagated = True
        self.create_topic = type(self.controller.topics).create

    async def send(self, broker_id: int, request: Any, version: int, *, timeout: float, purpose: str) -> Any:
        request = decode(CreateTopicsRequest, encode(request, version), version)
        (topic,) = request.topics
        self.requested.append(topic)
        if self.is_propagated and not self.code:
            assignment = [(0,)] * topic.num_partitions
            options = {config.name: config.value for config in topic.configs}
            await self.create_topic(self.controller.topics, topic.name, assignment, options)
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name, error_code=self.code)])


def move_controller(client: BrokerClient, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """Let another broker be the controller."""
    other = Controller(client)

    async def reject(*_: Any, **_keywords: Any) -> None:
        raise NotControllerError

    monkeypatch.setattr(type(other.controller.topics), "create", reject)
    object.__setattr__(client.context, "inter_broker", other)
    return other


async def find_group_coordinator(client: BrokerClient) -> int:
    response = await client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
    return response.coordinators[0].error_code


def test_internal_topics_are_created_by_a_remote_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        other = move_controller(client, monkeypatch)
        assert await find_group_coordinator(client) == 0
        (topic,) = other.requested
        assert (topic.name, topic.num_partitions, topic.replication_factor) == (CONSUMER_OFFSETS, 3, 1)
        assert {c.name: c.value for c in topic.configs}["cleanup.policy"] == "compact"
        assert await find_group_coordinator(client) == 0
        assert len(other.requested) == 1

    with_broker(test, tmp_path)


def test_topic_missing_in_the_metadata_cache_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(client: BrokerClient) -> None:
        other = move_controller(client, monkeypatch)
        other.is_propagated, other.code = False, TopicAlreadyExistsError.code or 0
        finding = asyncio.ensure_future(find_group_coordinator(client))
        while not other.requested:
            await asyncio.sleep(0)
        assert not finding.done()
        await other.create_topic(other.controller.topics, CONSUMER_OFFSETS, [(0,)], {})
        assert await finding == 0

    with_broker(test, tmp_path)


def test_internal_topic_that_stays_missing_in_the_metadata_cache_leads_to_coordinator_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exists(*_: Any, **__: Any) -> None:
        raise TopicAlreadyExistsError

    async def test(client: BrokerClient) -> None:
        monkeypatch.setattr(type(client.context.controller.topics), "create", exists)
        assert await find_group_coordinator(client) == CoordinatorNotAvailableError.code

    monkeypatch.setattr(topic_creation, "METADATA_WAIT_SECONDS", 0.0)
    with_broker(test, tmp_path)


@pytest.mark.parametrize("error", [NetworkError, NotControllerError])
def test_unreachable_controller_leads_to_a_retriable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    async def test(client: BrokerClient) -> None:
        other = move_controller(client, monkeypatch)

        async def unreachable(*_: Any, **__: Any) -> None:
            raise error

        other.send = unreachable  # type: ignore[method-assign]
        assert await find_group_coordinator(client) == CoordinatorNotAvailableError.code
        response = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 8)
        assert response.topics[0].error_code == LeaderNotAvailableError.code

    with_broker(test, tmp_path)


def test_topic_changes_are_rejected_by_a_broker_other_than_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(client: BrokerClient) -> None:
        monkeypatch.setattr(type(client.context.controller), "is_active", False)
        await client.context.metadata_cache.update(lambda image: replace(image, controller_id=7))
        code = NotControllerError.code
        new_topic = CreatableTopic(name="bad name!", num_partitions=1, replication_factor=99)
        for validate_only in (False, True):
            request = CreateTopicsRequest(topics=[new_topic], timeout_ms=1000, validate_only=validate_only)
            assert [t.error_code for t in (await client.request(request, 7)).topics] == [code]
        deleted = await client.request(DeleteTopicsRequest(topic_names=["none"], timeout_ms=1000), 5)
        assert [t.error_code for t in deleted.responses] == [code]
        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="none", count=2)], timeout_ms=1000)
        assert [t.error_code for t in (await client.request(more, 3)).results] == [code]
        monkeypatch.undo()

    with_broker(test, tmp_path)
