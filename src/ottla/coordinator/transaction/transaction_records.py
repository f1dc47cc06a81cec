"""The records of transactional ids in `__transaction_state`, in Kafka's format."""

from __future__ import annotations

from ottla.coordinator.runtime.result import CoordinatorRecord
from ottla.coordinator.transaction.transaction import STATE_NUMBERS, Transaction, TransactionState
from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition
from ottla.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.protocol.versioned import decode_versioned, encode_versioned, version_of

KEY_VERSION = 0
OLD_VALUE_VERSION = 0
"""The value version that Kafka 0.11 and later can read, for clusters with transaction.version 0."""
VALUE_VERSION = 1
_NUMBER_OF = {state: number for number, state in STATE_NUMBERS.items()}


def transaction_record(transaction: Transaction, version: int = VALUE_VERSION) -> CoordinatorRecord:
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_NUMBER_OF[transaction.state],
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else _partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    if version == OLD_VALUE_VERSION:
        value.previous_producer_id = value.next_producer_id = -1
        value.client_transaction_version = 0
    return CoordinatorRecord(_key(transaction.id), encode_versioned(value, version))


def tombstone(transactional_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(_key(transactional_id), None)


def read_key(key: bytes) -> str | None:
    """Return the transactional id of a record's key; None if the key has an unknown version."""
    return decode_versioned(TransactionLogKey, key).transactional_id if version_of(key) == KEY_VERSION else None


def read_transaction(transactional_id: str, value: bytes) -> Transaction:
    v = decode_versioned(TransactionLogValue, value)
    state = STATE_NUMBERS.get(v.transaction_status)
    if state is None:
        raise MalformedMessageError(
            f"transactional_id={transactional_id} has unknown state number {v.transaction_status}"
        )
    return Transaction(
        transactional_id,
        v.producer_id,
        v.producer_epoch,
        timeout_ms=v.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(t.topic, index) for t in v.transaction_partitions or () for index in t.partition_ids
        ),
        start_ms=v.transaction_start_timestamp_ms,
        update_ms=v.transaction_last_update_timestamp_ms,
        previous_producer_id=v.previous_producer_id,
        next_producer_id=v.next_producer_id,
        version=v.client_transaction_version,
    )


def _key(transactional_id: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)


def _partitions(transaction: Transaction) -> list[PartitionsSchema]:
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in transaction.topics.items()]
