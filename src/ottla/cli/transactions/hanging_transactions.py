"""`ottla transactions find-hanging`: finds transactions that stay open in a partition because no coordinator will end
them.

A candidate is an open transaction whose producer has written nothing to the partition for longer than the maximum
timeout. It is hanging if no transactional id has its producer id, or if the coordinator's transaction does not contain
the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.transactions import ProducerState, TransactionDescription
from ottla.clock import now_ms
from ottla.errors import KafkaError, TransactionalIdNotFoundError
from ottla.model import TopicPartition

MAX_BATCH: Final = 500
"""Maximum number of topics or partitions in a request, so that brokers are not overloaded."""

T = TypeVar("T")


class OpenTransaction(NamedTuple):
    """A partition, and the state of a producer that has an open transaction there."""

    tp: TopicPartition
    producer: ProducerState


def find(
    admin: KafkaAdminClient, topic: str | None, partition: int | None, broker_id: int | None, longest_ms: int
) -> list[OpenTransaction]:
    """Return the hanging transactions whose last batch is more than `longest_ms` old, in one partition of a topic, or
    in all partitions of a topic (None: of all topics) that have a replica on a broker (None: on any).
    """
    partitions = _partitions(admin, topic, partition, broker_id)
    candidates = list(_long_open(admin, partitions, broker_id, longest_ms))
    if not candidates:
        return []
    ids = _transactional_ids(admin, {transaction.producer.producer_id for transaction in candidates})
    return hanging(candidates, ids, _descriptions(admin, ids.values()))


def hanging(
    candidates: Iterable[OpenTransaction], ids: Mapping[int, str], descriptions: Mapping[str, TransactionDescription]
) -> list[OpenTransaction]:
    """Return the candidates without a transactional id, and those whose partition is not in the transaction of their
    transactional id. A coordinator keeps a partition in its transaction until the marker is written there.

    `ids` are the transactional ids by producer id.
    """

    def is_listed(transaction: OpenTransaction) -> bool:
        description = descriptions.get(ids.get(transaction.producer.producer_id, ""))
        return description is not None and transaction.tp in description.topic_partitions

    return [transaction for transaction in candidates if not is_listed(transaction)]


def _partitions(
    admin: KafkaAdminClient, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    return [
        TopicPartition(name, p.partition)
        for topics in _batches([topic] if topic is not None else admin.list_topics())
        for name, info in sorted(admin.describe_topics(topics).items())
        for p in info.partitions
        if broker_id is None or broker_id in p.replicas
    ]


def _long_open(
    admin: KafkaAdminClient, partitions: Sequence[TopicPartition], broker_id: int | None, longest_ms: int
) -> Iterator[OpenTransaction]:
    for batch in _batches(partitions):
        producers_by_partition = admin.describe_producers(batch, broker_id)
        now = now_ms()
        for tp, producers in sorted(producers_by_partition.items()):
            for producer in producers:
                if producer.current_txn_start_offset is not None and now - producer.last_timestamp > longest_ms:
                    yield OpenTransaction(tp, producer)


def _transactional_ids(admin: KafkaAdminClient, producer_ids: set[int]) -> dict[int, str]:
    listings = admin.list_transactions(producer_id_filters=sorted(producer_ids))
    return {
        listing.producer_id: listing.transactional_id for listing in listings if listing.producer_id in producer_ids
    }


def _descriptions(admin: KafkaAdminClient, ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Return the descriptions of transactional ids. Those that have expired meanwhile are left out. Raises the first
    other error.
    """
    errors: dict[Any, KafkaError] = {}
    descriptions = admin.describe_transactions(set(ids), errors=errors)
    for error in errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error
    return descriptions


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), MAX_BATCH):
        yield items[start : start + MAX_BATCH]
