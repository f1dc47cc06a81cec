"""Transactions and their producers: told, fenced, and aborted where they hang."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import TRANSACTION, AdminCalls, Errors, failure
from ottla.client.admin.partitions import numbers_by_topic
from ottla.errors import (
    KafkaError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.model import TopicPartition
from ottla.protocol.messages import describe_producers as producers
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FENCING_TIMEOUT_MS: Final = 1
"""The transaction timeout of a producer that is only made to fence another."""
HANGING_AFTER_MS: Final = 15 * 60 * 1000


class TransactionState(StrEnum):
    """States of transactions."""

    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


class TransactionListing(NamedTuple):
    """One transactional id as a list shows it."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """One transactional id; `start_time_ms` None where no transaction is open."""

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    topic_partitions: frozenset[TopicPartition]


class ProducerState(NamedTuple):
    """What a partition knows of a producer; `current_txn_start_offset` None where it has no open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_txn_start_offset: int | None


class AbortTransactionSpec(NamedTuple):
    """A transaction that hangs in a partition, as describe_producers tells it."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class FencedProducer(NamedTuple):
    """The id and epoch that the next producer will follow."""

    producer_id: int
    producer_epoch: int


class TransactionsAdmin(AdminCalls):
    """Calls about transactions."""

    async def list_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        producer_id_filters: Collection[int] = (),
        state_filters: Collection[str] = (),
        duration_filter_ms: int | None = None,
        transactional_id_pattern: str | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> list[TransactionListing]:
        """The transactional ids of brokers: with these producer ids, in these states, open for longer than a time…"""

        def request(version: int) -> ListTransactionsRequest:
            if version < 1 and duration_filter_ms is not None:
                raise UnsupportedVersionError("the broker does not select transactions by their duration")
            if version < 2 and transactional_id_pattern:
                raise UnsupportedVersionError("the broker does not select transactions by a pattern")
            return ListTransactionsRequest(
                state_filters=[str(state) for state in state_filters or ()],
                producer_id_filters=list(producer_id_filters or ()),
                duration_filter=-1 if duration_filter_ms is None else duration_filter_ms,
                transactional_id_pattern=transactional_id_pattern,
            )

        async def attempt(left: list[int]) -> dict[int, list[TransactionListing] | KafkaError]:
            answers = await self.ask_each(dict.fromkeys(left, request), ListTransactionsRequest)
            return {node: _listed(node, answer) for node, answer in answers.items()}

        async def every() -> list[int]:
            return list(await self.nodes())

        brokers = list(broker_ids) if broker_ids is not None else await self.retried(every, timeout_ms)
        found = await self.settled(brokers, attempt, timeout_ms, errors)
        return sorted(listing for some in found.values() for listing in some)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, TransactionDescription]:
        """Transactions, by id. Raises TransactionalIdNotFoundError for one that does not exist."""

        async def attempt(left: list[str]) -> dict[str, TransactionDescription | KafkaError]:
            return await self.ask_for(
                await self.by_coordinator(left, TRANSACTION),
                lambda some: DescribeTransactionsRequest(transactional_ids=some),
                lambda node, answer: {
                    t.transactional_id: failure(t.error_code, t.transactional_id) or _description(node, t)
                    for t in answer.transaction_states
                },
            )

        return await self.settled(transactional_ids, attempt, timeout_ms, errors, TransactionalIdNotFoundError)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        broker_id: int | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """The producers that partitions remember, as their leaders (or one broker with a replica) tell."""

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
            shares = ({broker_id: left}, {}) if broker_id is not None else await self.by_leader(left)
            return await self.ask_for(shares, _producers_request, lambda _, answer: _producers(answer))

        wanted = [TopicPartition(*tp) for tp in partitions]
        return await self.settled(wanted, attempt, timeout_ms, errors, doubted=UnknownTopicOrPartitionError)

    async def abort_transaction(self, spec: AbortTransactionSpec, timeout_ms: float | None = None) -> None:
        """Write the end of a transaction that nobody will end any more. Raises InvalidProducerEpochError…"""
        tp = TopicPartition(*spec.topic_partition)
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            coordinator_epoch=spec.coordinator_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        )

        async def attempt(left: list[TopicPartition]) -> dict[TopicPartition, KafkaError | None]:
            by_leader, missing = await self.by_leader(left)
            if missing:
                return {**missing}
            response = await self.connections.ask(next(iter(by_leader)), WriteTxnMarkersRequest(markers=[marker]))
            return {tp: failure(response.markers[0].topics[0].partitions[0].error_code, tp)}

        await self.settled([tp], attempt, timeout_ms, None, doubted=UnknownTopicOrPartitionError)

    async def fence_producers(
        self, transactional_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, FencedProducer]:
        """Shut out the producers that use these ids now; their open transactions are aborted."""

        async def attempt(left: list[str]) -> dict[str, FencedProducer | KafkaError]:
            by_node, missing = await self.by_coordinator(left, TRANSACTION)
            found: dict[str, FencedProducer | KafkaError] = {**missing}
            for node, some in by_node.items():
                for name in some:
                    found[name] = await self._fence(node, name)
            return found

        return await self.settled(transactional_ids, attempt, timeout_ms, errors)

    async def force_terminate_transaction(self, transactional_id: str, timeout_ms: float | None = None) -> None:
        """Abort whatever transaction an id has open, prepared ones as well (KIP-939), and shut out its producer."""
        await self.fence_producers([transactional_id], timeout_ms)

    async def _fence(self, node: int, name: str) -> FencedProducer | KafkaError:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS)
        try:
            response = await self.connections.ask(node, request)
        except KafkaError as lost:
            return lost
        error = failure(response.error_code, name)
        return error or FencedProducer(response.producer_id, response.producer_epoch)

    async def find_hanging_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        max_transaction_timeout_ms: int = HANGING_AFTER_MS,
        timeout_ms: float | None = None,
    ) -> list[TransactionListing]:
        """Transactions that have been open for longer than any may be."""
        return await self.list_transactions(
            broker_ids,
            state_filters=(TransactionState.ONGOING,),
            duration_filter_ms=max_transaction_timeout_ms,
            timeout_ms=timeout_ms,
        )


def _listed(node: int, answer: ListTransactionsResponse | KafkaError) -> list[TransactionListing] | KafkaError:
    if isinstance(answer, KafkaError):
        return answer
    return failure(answer.error_code, f"broker {node}") or [
        TransactionListing(t.transactional_id, t.producer_id, t.transaction_state) for t in answer.transaction_states
    ]


def _producers(answer: Any) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
    found: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
    for topic in answer.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            error = failure(p.error_code, tp, p.error_message)
            found[tp] = error or [_producer(state) for state in p.active_producers]
    return found


def _description(node: int, t: Any) -> TransactionDescription:
    return TransactionDescription(
        node,
        t.transaction_state,
        t.producer_id,
        t.producer_epoch,
        t.transaction_timeout_ms,
        None if t.transaction_start_time_ms < 0 else t.transaction_start_time_ms,
        frozenset(TopicPartition(topic.topic, number) for topic in t.topics for number in topic.partitions),
    )


def _producers_request(partitions: Iterable[TopicPartition]) -> producers.DescribeProducersRequest:
    by_topic: Mapping[str, list[int]] = numbers_by_topic(partitions)
    topics = [producers.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic.items()]
    return producers.DescribeProducersRequest(topics=topics)


def _producer(state: producers.ProducerState) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
