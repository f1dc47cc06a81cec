"""Records of the transaction log in the format of Kafka, in versions 0 and 1."""

from __future__ import annotations

import struct

import pytest

from ottla.coordinator.transaction.transaction import Transaction, TransactionState
from ottla.coordinator.transaction.transaction_records import (
    read_key,
    read_transaction,
    tombstone,
    transaction_record,
)
from ottla.errors import MalformedMessageError
from ottla.model import TopicPartition

OPEN = Transaction(
    "tx",
    7,
    3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)}),
    start_ms=1_700_000_000_000,
    update_ms=1_700_000_000_123,
    version=2,
)

# Kafka's bytes, by its schema: version 0 plain, version 1 with compact lengths and tagged fields
KEY = struct.pack(">hh2s", 0, 2, b"tx")
OLD = (
    struct.pack(">hqhib", 0, 7, 3, 60_000, 1)
    + struct.pack(">i", 2)
    + struct.pack(">h1siii", 1, b"a", 2, 0, 2)
    + struct.pack(">h1sii", 1, b"b", 1, 1)
    + struct.pack(">qq", 1_700_000_000_123, 1_700_000_000_000)
)
NEW = (
    struct.pack(">hqhib", 1, 7, 3, 60_000, 1)
    + b"\x03"
    + b"\x02a\x03"
    + struct.pack(">ii", 0, 2)
    + b"\x00"
    + b"\x02b\x02"
    + struct.pack(">i", 1)
    + b"\x00"
    + struct.pack(">qq", 1_700_000_000_123, 1_700_000_000_000)
    + b"\x01\x02\x02\x00\x02"
)


def test_transaction_records_have_the_bytes_of_kafka() -> None:
    assert transaction_record(OPEN) == (KEY, NEW)
    assert transaction_record(OPEN, 0) == (KEY, OLD)
    assert tombstone("tx") == (KEY, None)


def test_transaction_records_of_kafka_are_read() -> None:
    assert read_key(KEY) == "tx"
    assert read_transaction("tx", NEW) == OPEN
    old = read_transaction("tx", OLD)
    assert (old.partitions, old.version, old.previous_producer_id) == (OPEN.partitions, 0, -1)


def test_empty_transaction_record_has_no_partitions() -> None:
    empty = Transaction("tx", 7, 0, timeout_ms=1, update_ms=5)
    value = transaction_record(empty, 0).value
    assert value is not None
    assert value == struct.pack(">hqhibiqq", 0, 7, 0, 1, 0, -1, 5, -1)
    assert read_transaction("tx", value) == empty


def test_previous_and_next_producer_ids_round_trip() -> None:
    rotated = Transaction(
        "tx", 7, 3, state=TransactionState.PREPARE_ABORT, previous_producer_id=5, next_producer_id=9, version=2
    )
    value = transaction_record(rotated).value
    assert value is not None
    assert read_transaction("tx", value) == rotated


def test_unknown_keys_are_ignored_and_unknown_states_rejected() -> None:
    assert read_key(struct.pack(">hh", 9, 0)) is None
    with pytest.raises(MalformedMessageError, match="state number 8"):
        read_transaction("tx", OLD[:16] + b"\x08" + OLD[17:])
