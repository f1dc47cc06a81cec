"""What `ottla transactions` asks brokers for, as rows of a table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.cli.transactions import hanging_transactions
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.transactions import AbortTransactionSpec, ProducerState
from ottla.clock import now_ms
from ottla.errors import ConfigurationError, InvalidTxnStateError
from ottla.model import TopicPartition

NO_COORDINATOR: Final = 0
"""The epoch of a coordinator whose markers a partition has never seen: not above that of any."""

Row = Mapping[str, Any]
"""Cells by the column's name in JSON; None where there is no value."""


def listed(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterator[Row]:
    """Transactional ids, broker by broker."""
    for broker in sorted(node.id for node in admin.describe_cluster().nodes):
        for listing in admin.list_transactions(
            [broker],
            duration_filter_ms=args.duration_filter,
            transactional_id_pattern=args.transactional_id_pattern,
        ):
            yield {
                "transactional_id": listing.transactional_id,
                "coordinator": broker,
                "producer_id": listing.producer_id,
                "state": listing.state,
            }


def described(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterator[Row]:
    """One transactional id."""
    found = admin.describe_transactions([args.transactional_id])[args.transactional_id]
    start = found.start_time_ms
    yield {
        "coordinator": found.coordinator_id,
        "transactional_id": args.transactional_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "start_time_ms": start,
        "duration_ms": None if start is None else now_ms() - start,
        "topic_partitions": [str(tp) for tp in sorted(found.topic_partitions)],
    }


def producers(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterator[Row]:
    """The producers that a partition remembers."""
    tp = _partition(args)
    for state in admin.describe_producers([tp], args.broker_id)[tp]:
        yield {
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "coordinator_epoch": _or_none_yet(state.coordinator_epoch),
            "last_sequence": state.last_sequence,
            "last_timestamp": state.last_timestamp,
            "start_offset": state.current_txn_start_offset,
        }


def abort(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterable[Row]:
    """End a transaction in a partition; nothing is told."""
    tp = _partition(args)
    if args.start_offset is None:
        coordinator_epoch = max(args.coordinator_epoch, NO_COORDINATOR)
        spec = AbortTransactionSpec(tp, args.producer_id, args.producer_epoch, coordinator_epoch)
    else:
        state = _open_at(admin, tp, args.start_offset)
        epoch = NO_COORDINATOR if state.coordinator_epoch is None else state.coordinator_epoch
        spec = AbortTransactionSpec(tp, state.producer_id, state.producer_epoch, epoch)
    admin.abort_transaction(spec)
    return ()


def _open_at(admin: KafkaAdminClient, tp: TopicPartition, offset: int) -> ProducerState:
    for state in admin.describe_producers([tp])[tp]:
        if state.current_txn_start_offset == offset:
            return state
    raise InvalidTxnStateError(f"Could not find any open transactions starting at offset {offset} on partition {tp}")


def hanging(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterator[Row]:
    """Transactions that nobody will end."""
    longest_ms = args.max_transaction_timeout * 60_000
    if args.topic is not None and args.partition is not None:
        _partition(args)
    for tp, producer in hanging_transactions.find(admin, args.topic, args.partition, args.broker_id, longest_ms):
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": _or_none_yet(producer.coordinator_epoch),
            "start_offset": producer.current_txn_start_offset,
            "last_timestamp": producer.last_timestamp,
            "duration_minutes": (now_ms() - producer.last_timestamp) // 60_000,
        }


def terminate(admin: KafkaAdminClient, args: argparse.Namespace) -> Iterable[Row]:
    """End what a transactional id has open; nothing is told."""
    admin.force_terminate_transaction(args.transactional_id)
    return ()


def _or_none_yet(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _partition(args: argparse.Namespace) -> TopicPartition:
    """The one that was named. ConfigurationError where there can be none."""
    if not args.topic or args.partition < 0:
        raise ConfigurationError(f"--topic {args.topic!r} --partition {args.partition}: there can be no such partition")
    return TopicPartition(args.topic, args.partition)
