"""Transactions that stay open in a partition although no coordinator will end them: `ottla transactions find-hanging`.

What may hang is open for longer than any transaction may be. It does hang where its producer has no transactional id
any more, or where the coordinator does not count the partition to what this id has open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.transactions import ProducerState, TransactionDescription
from ottla.clock import now_ms
from ottla.errors import KafkaError, TransactionalIdNotFoundError
from ottla.model import TopicPartition

AT_ONCE: Final = 500
"""Topics and partitions in a question, so that no broker is overwhelmed."""

T = TypeVar("T")


class OpenTransaction(NamedTuple):
    """What a partition knows of an open transaction."""

    tp: TopicPartition
    producer: ProducerState


def find(
    admin: KafkaAdminClient, topic: str | None, partition: int | None, broker_id: int | None, longest_ms: int
) -> list[OpenTransaction]:
    """Those of a topic, one of its partitions, or a broker, that have been open for longer than `longest_ms`."""
    partitions = _partitions(admin, topic, partition, broker_id)
    candidates = list(_long_open(admin, partitions, broker_id, longest_ms))
    if not candidates:
        return []
    ids = _transactional_ids(admin, {transaction.producer.producer_id for transaction in candidates})
    return hanging(candidates, ids, _descriptions(admin, ids.values()))


def hanging(
    candidates: Iterable[OpenTransaction], ids: Mapping[int, str], descriptions: Mapping[str, TransactionDescription]
) -> list[OpenTransaction]:
    """Those that no coordinator knows of. While it has markers to write, a transaction's partitions are in its list."""

    def is_known(transaction: OpenTransaction) -> bool:
        description = descriptions.get(ids.get(transaction.producer.producer_id, ""))
        return description is not None and transaction.tp in description.topic_partitions

    return [transaction for transaction in candidates if not is_known(transaction)]


def _partitions(
    admin: KafkaAdminClient, topic: str | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    return [
        TopicPartition(name, p.partition)
        for topics in _pieces([topic] if topic is not None else admin.list_topics())
        for name, info in sorted(admin.describe_topics(topics).items())
        for p in info.partitions
        if broker_id is None or broker_id in p.replicas
    ]


def _long_open(
    admin: KafkaAdminClient, partitions: Sequence[TopicPartition], broker_id: int | None, longest_ms: int
) -> Iterator[OpenTransaction]:
    for some in _pieces(partitions):
        found = admin.describe_producers(some, broker_id)
        now = now_ms()
        for tp, producers in sorted(found.items()):
            for producer in producers:
                if producer.current_txn_start_offset is not None and now - producer.last_timestamp > longest_ms:
                    yield OpenTransaction(tp, producer)


def _transactional_ids(admin: KafkaAdminClient, producer_ids: set[int]) -> dict[int, str]:
    listed = admin.list_transactions(producer_id_filters=sorted(producer_ids))
    return {found.producer_id: found.transactional_id for found in listed if found.producer_id in producer_ids}


def _descriptions(admin: KafkaAdminClient, ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Without those that have gone since they were listed."""
    errors: dict[Any, KafkaError] = {}
    found = admin.describe_transactions(set(ids), errors=errors)
    for error in errors.values():
        if not isinstance(error, TransactionalIdNotFoundError):
            raise error
    return found


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]
