"""AddPartitionsToTxn requests to the transaction coordinators: add partitions to a transaction, or verify that they are
in it.

The leader of a partition may send one before it appends the first batch of a transaction (KIP-890). Kafka's
`AddPartitionsToTxnManager`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.cluster.interbroker.client import RequestSender
from ottla.cluster.interbroker.request_batcher import RequestBatcher
from ottla.errors import KafkaError, UnknownServerError, for_code
from ottla.model import ProducerIdAndEpoch, TopicPartition
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION: Final = 5
"""The AddPartitionsToTxn version that is sent: the newest of Kafka 3.9."""
PURPOSE: Final = "transactions"

Results = dict[TopicPartition, KafkaError | None]
"""The results by partition: None if the partition is in the transaction, else the error."""


class PartitionsToAdd(NamedTuple):
    """Partitions to add to a producer's transaction, or only to verify."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Sequence[TopicPartition]
    verify_only: bool


class AddPartitionsClient:
    """Sends AddPartitionsToTxn in batches. Not thread-safe: event loop only."""

    def __init__(self, sender: RequestSender, timeout: float) -> None:
        self._sender = sender
        self._timeout = timeout
        self._batcher: RequestBatcher[PartitionsToAdd, Results] = RequestBatcher(self._send)

    async def add_or_verify(self, broker_id: int, item: PartitionsToAdd) -> Results:
        """Send the request, and return the coordinator's results by partition.

        Raises KafkaError if the coordinator cannot be reached or rejects the request.
        """
        return await self._batcher.submit(broker_id, item)

    async def _send(self, broker_id: int, items: list[PartitionsToAdd]) -> list[Results]:
        request = AddPartitionsToTxnRequest(transactions=[_transaction(item) for item in items])
        response = await self._sender.send(broker_id, request, VERSION, timeout=self._timeout, purpose=PURPOSE)
        if response.error_code:
            raise for_code(response.error_code)
        codes = _codes(response)
        return [{tp: _error(codes.get((item.transactional_id, tp))) for tp in item.partitions} for item in items]


def _transaction(item: PartitionsToAdd) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for tp in item.partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return AddPartitionsToTxnTransaction(
        transactional_id=item.transactional_id,
        producer_id=item.producer.id,
        producer_epoch=item.producer.epoch,
        verify_only=item.verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _codes(response: AddPartitionsToTxnResponse) -> dict[tuple[str, TopicPartition], int]:
    return {
        (transaction.transactional_id, TopicPartition(topic.name, result.partition_index)): result.partition_error_code
        for transaction in response.results_by_transaction
        for topic in transaction.topic_results
        for result in topic.results_by_partition
    }


def _error(code: int | None) -> KafkaError | None:
    if code == 0:
        return None
    return (
        UnknownServerError("the coordinator's response does not have the partition")
        if code is None
        else for_code(code)()
    )
