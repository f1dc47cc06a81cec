"""Admin calls for transactions and their producers: lists, descriptions, fencing, aborting of hanging transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ottla.client.admin.driver import (
    TRANSACTION,
    AdminCall,
    AdminDriver,
    Errors,
    failure,
    numbers_by_topic,
    partition_results,
    results,
    to_broker,
    to_brokers,
    to_leaders,
    to_transaction_coordinators,
)
from ottla.errors import (
    KafkaError,
    NotLeaderOrFollowerError,
    TransactionalIdNotFoundError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from ottla.model import TopicPartition
from ottla.protocol.messages import describe_producers as producers
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

FENCING_TIMEOUT_MS: Final = 1
"""The transaction timeout in milliseconds with which a producer is initialized only to fence another one."""
HANGING_AFTER_MS: Final = 15 * 60 * 1000


class TransactionState(StrEnum):
    """The state of a transactional id's transaction."""

    ONGOING = "Ongoing"
    PREPARE_ABORT = "PrepareAbort"
    PREPARE_COMMIT = "PrepareCommit"
    COMPLETE_ABORT = "CompleteAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    EMPTY = "Empty"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


class TransactionListing(NamedTuple):
    """A transactional id in a list, with its current producer id and the state of its transaction."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id with its producer and transaction. `start_time_ms` is in milliseconds since 1970, or None if
    the coordinator does not report it.
    """

    coordinator_id: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    topic_partitions: frozenset[TopicPartition]


class ProducerState(NamedTuple):
    """The state of a producer in a partition. `last_timestamp` is in milliseconds since 1970. `coordinator_epoch` is
    None if it is unknown, `current_txn_start_offset` if the producer has no open transaction in the partition.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    current_txn_start_offset: int | None


class AbortTransactionSpec(NamedTuple):
    """A hanging transaction in a partition, with the values from describe_producers."""

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


class FencedProducer(NamedTuple):
    """The producer id and epoch after fencing."""

    producer_id: int
    producer_epoch: int


class TransactionsAdmin(AdminDriver):
    """Admin calls for transactions."""

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
        """Return the transactional ids that `broker_ids` (None: all brokers) coordinate, filtered by producer id,
        state, minimum age of the last transaction in milliseconds, and regular expression. Ids without a transaction
        since their producer was initialized match every age.

        The keys of `errors` are broker ids.
        """

        def request(version: int) -> ListTransactionsRequest:
            if version < 1 and duration_filter_ms is not None:
                raise UnsupportedVersionError("the broker cannot filter transactions by duration")
            if version < 2 and transactional_id_pattern:
                raise UnsupportedVersionError("the broker cannot filter transactions by pattern")
            return ListTransactionsRequest(
                state_filters=[str(state) for state in state_filters or ()],
                producer_id_filters=list(producer_id_filters or ()),
                duration_filter=-1 if duration_filter_ms is None else duration_filter_ms,
                transactional_id_pattern=transactional_id_pattern,
            )

        call: AdminCall[int, list[TransactionListing]] = AdminCall(
            lambda _: request,
            lambda response, _, broker: {
                broker: failure(response.error_code, f"broker {broker}")
                or [
                    TransactionListing(t.transactional_id, t.producer_id, t.transaction_state)
                    for t in response.transaction_states
                ]
            },
            to_brokers,
            of=ListTransactionsRequest,
        )
        by_broker = await self.call_per_key(call, await self.broker_ids(broker_ids, timeout_ms), timeout_ms, errors)
        return sorted(listing for listings in by_broker.values() for listing in listings)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, TransactionDescription]:
        """Return the transactions of transactional ids. Raises TransactionalIdNotFoundError for an id that does not
        exist.
        """
        call: AdminCall[str, TransactionDescription] = AdminCall(
            lambda ids: DescribeTransactionsRequest(transactional_ids=ids),
            lambda response, _, broker: results(
                response.transaction_states, lambda t: t.transactional_id, lambda t: _description(broker, t)
            ),
            to_transaction_coordinators,
            final=(TransactionalIdNotFoundError,),
        )
        return await self.call_per_key(call, transactional_ids, timeout_ms, errors)

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        broker_id: int | None = None,
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producer states of partitions, from their leaders or from one broker with a replica.

        Raises NotLeaderOrFollowerError if `broker_id` has no replica.
        """
        call: AdminCall[TopicPartition, list[ProducerState]] = AdminCall(
            lambda remaining: producers.DescribeProducersRequest(
                topics=[
                    producers.TopicRequest(name=name, partition_indexes=numbers)
                    for name, numbers in numbers_by_topic(remaining).items()
                ]
            ),
            lambda response, *_: partition_results(
                response.topics, lambda p: [_producer(state) for state in p.active_producers]
            ),
            to_leaders if broker_id is None else to_broker(broker_id),
            # A retry cannot help where the caller has named the broker, as in Kafka's DescribeProducersHandler.
            final=() if broker_id is None else (NotLeaderOrFollowerError,),
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        return await self.call_per_key(call, [TopicPartition(*tp) for tp in partitions], timeout_ms, errors)

    async def abort_transaction(self, spec: AbortTransactionSpec, timeout_ms: float | None = None) -> None:
        """Abort a hanging transaction in a partition: its leader appends an abort marker. Raises, for example,
        InvalidProducerEpochError if the producer has a newer epoch.
        """
        tp = TopicPartition(*spec.topic_partition)
        marker = WritableTxnMarker(
            producer_id=spec.producer_id,
            producer_epoch=spec.producer_epoch,
            coordinator_epoch=spec.coordinator_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        )
        call: AdminCall[TopicPartition, None] = AdminCall(
            lambda _: WriteTxnMarkersRequest(markers=[marker]),
            lambda response, *_: partition_results(response.markers[0].topics),
            to_leaders,
            retried_briefly=(UnknownTopicOrPartitionError,),
        )
        await self.call_per_key(call, [tp], timeout_ms)

    async def fence_producers(
        self, transactional_ids: Iterable[str], timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the current producers of transactional ids, and return their new producer ids and epochs. Open
        transactions are aborted.
        """

        async def attempt(remaining: list[str]) -> dict[str, FencedProducer | KafkaError]:
            by_coordinator, failed = await self.group_by_coordinator(remaining, TRANSACTION)
            outcomes: dict[str, FencedProducer | KafkaError] = {**failed}
            for broker, names in by_coordinator.items():
                for name in names:
                    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCING_TIMEOUT_MS)
                    response = (await self.fan_out({broker: request}))[broker]
                    outcomes[name] = response if isinstance(response, KafkaError) else _fenced(name, response)
            return outcomes

        return await self.retry_per_key(transactional_ids, attempt, timeout_ms, errors)

    async def force_terminate_transaction(self, transactional_id: str, timeout_ms: float | None = None) -> None:
        """Abort the open transaction of a transactional id, even if it is prepared (KIP-939), and fence its
        producer.
        """
        await self.fence_producers([transactional_id], timeout_ms)

    async def find_hanging_transactions(
        self,
        broker_ids: Iterable[int] | None = None,
        max_transaction_timeout_ms: int = HANGING_AFTER_MS,
        timeout_ms: float | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional ids whose transactions have been open for longer than `max_transaction_timeout_ms`
        (by default 15 minutes, as Kafka's transaction.max.timeout.ms).
        """
        return await self.list_transactions(
            broker_ids,
            state_filters=(TransactionState.ONGOING,),
            duration_filter_ms=max_transaction_timeout_ms,
            timeout_ms=timeout_ms,
        )


def _fenced(name: str, response: Any) -> FencedProducer | KafkaError:
    error = failure(response.error_code, name)
    return error or FencedProducer(response.producer_id, response.producer_epoch)


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


def _producer(state: producers.ProducerState) -> ProducerState:
    return ProducerState(
        state.producer_id,
        state.producer_epoch,
        state.last_sequence,
        state.last_timestamp,
        None if state.coordinator_epoch < 0 else state.coordinator_epoch,
        None if state.current_txn_start_offset < 0 else state.current_txn_start_offset,
    )
