"""List, describe and terminate transactions, describe producers, and find and abort hanging transactions, as
kafka-transactions.sh does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Option, flag_name
from ottla.cli.framework.output import Output
from ottla.cli.transactions import hanging_transactions
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.transactions import AbortTransactionSpec, ProducerState
from ottla.clock import now_ms
from ottla.errors import ConfigurationError, InvalidTxnStateError
from ottla.model import TopicPartition

MAX_TIMEOUT_MINUTES: Final = 15
"""The default of --max-transaction-timeout, which is the default of the broker config transaction.max.timeout.ms."""
NO_COORDINATOR: Final = 0
"""The coordinator epoch for aborting if the producer has no marker in the partition yet. No coordinator has a lower
one.
"""

Row = Mapping[str, Any]
"""The cells of a row by JSON name, in the order of the columns. In the table, None is printed as `None`."""


def list_(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> Iterator[Row]:
    """Yield a row for each transactional id that the filters select, in the order of the coordinators' broker ids."""
    for broker in sorted(node.id for node in admin.describe_cluster().nodes):
        for listing in admin.list_transactions(
            [broker], duration_filter_ms=args.duration_filter, transactional_id_pattern=args.transactional_id_pattern
        ):
            yield {
                "transactional_id": listing.transactional_id,
                "coordinator": broker,
                "producer_id": listing.producer_id,
                "state": listing.state,
            }


def describe(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> Iterator[Row]:
    """Yield one row with the state of the transactional id in `--transactional-id`."""
    description = admin.describe_transactions([args.transactional_id])[args.transactional_id]
    start = description.start_time_ms
    yield {
        "coordinator": description.coordinator_id,
        "transactional_id": args.transactional_id,
        "producer_id": description.producer_id,
        "producer_epoch": description.producer_epoch,
        "state": description.state,
        "timeout_ms": description.timeout_ms,
        "start_time_ms": start,
        "duration_ms": None if start is None else now_ms() - start,
        "topic_partitions": [str(tp) for tp in sorted(description.topic_partitions)],
    }


def describe_producers(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> Iterator[Row]:
    """Yield a row for each producer state of a partition, at its leader or at the broker in `--broker-id`."""
    tp = _partition(args)
    for state in admin.describe_producers([tp], args.broker_id)[tp]:
        yield {
            "producer_id": state.producer_id,
            "producer_epoch": state.producer_epoch,
            "coordinator_epoch": _or_minus_one(state.coordinator_epoch),
            "last_sequence": state.last_sequence,
            "last_timestamp": state.last_timestamp,
            "start_offset": state.current_txn_start_offset,
        }


def abort(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> None:
    """Have the leader of a partition write an abort marker for the transaction that the options identify."""
    tp = _partition(args)
    if args.start_offset is None:
        coordinator_epoch = max(args.coordinator_epoch, NO_COORDINATOR)
        spec = AbortTransactionSpec(tp, args.producer_id, args.producer_epoch, coordinator_epoch)
    else:
        state = _open_at(admin, tp, args.start_offset)
        epoch = NO_COORDINATOR if state.coordinator_epoch is None else state.coordinator_epoch
        spec = AbortTransactionSpec(tp, state.producer_id, state.producer_epoch, epoch)
    admin.abort_transaction(spec)


def _open_at(admin: KafkaAdminClient, tp: TopicPartition, offset: int) -> ProducerState:
    for state in admin.describe_producers([tp])[tp]:
        if state.current_txn_start_offset == offset:
            return state
    raise InvalidTxnStateError(f"Could not find any open transactions starting at offset {offset} on partition {tp}")


def find_hanging(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> Iterator[Row]:
    """Yield a row for each hanging transaction of the topic, partition or broker that the options name."""
    longest_ms = args.max_transaction_timeout * 60_000
    if args.topic is not None and args.partition is not None:
        _partition(args)
    for tp, producer in hanging_transactions.find(admin, args.topic, args.partition, args.broker_id, longest_ms):
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "coordinator_epoch": _or_minus_one(producer.coordinator_epoch),
            "start_offset": producer.current_txn_start_offset,
            "last_timestamp": producer.last_timestamp,
            "duration_minutes": (now_ms() - producer.last_timestamp) // 60_000,
        }


def terminate(admin: KafkaAdminClient, args: argparse.Namespace, _: Output) -> None:
    """Abort the open transaction of a transactional id, if there is one, and fence its producer (KIP-939)."""
    admin.force_terminate_transaction(args.transactional_id)


def _or_minus_one(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _partition(args: argparse.Namespace) -> TopicPartition:
    if not args.topic or args.partition < 0:
        raise ConfigurationError(f"--topic {args.topic!r} --partition {args.partition}: there can be no such partition")
    return TopicPartition(args.topic, args.partition)


def _check_abort(args: argparse.Namespace) -> None:
    if args.start_offset is not None:
        return
    if args.producer_id is None:
        raise ConfigurationError(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or "
            "with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    for option in ("producer_epoch", "coordinator_epoch"):
        if getattr(args, option) is None:
            raise ConfigurationError(f"Missing required argument {flag_name(option)}")


def _check_find_hanging(args: argparse.Namespace) -> None:
    if args.topic is None and args.broker_id is None:
        raise ConfigurationError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if args.partition is not None and args.topic is None:
        raise ConfigurationError("The --partition argument requires --topic to be provided")


_TOPIC: Final = Option("--topic", "topic of the partition", required=True)
_PARTITION: Final = Option("--partition N", "number of the partition in --topic, counted from 0", int, required=True)

COMMAND = AdminCommand(
    options=connection(),
    subcommands=True,
    actions=(
        Action(
            "list",
            "list transactional ids with their coordinators and transaction states",
            list_,
            options=(
                Option(
                    "--duration-filter MS",
                    "only transactional ids whose last transaction began longer than this time in milliseconds ago, or "
                    "that have had none since their producer was initialized; negative: all (the default)",
                    int,
                ),
                Option(
                    "--transactional-id-pattern REGEX", "only transactional ids that match the regular expression (RE2)"
                ),
                JSON,
            ),
            header=("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
        ),
        Action(
            "describe",
            "describe the transaction of a transactional id",
            describe,
            options=(
                Option(
                    "--transactional-id ID", "transactional id whose current transaction is described", required=True
                ),
                JSON,
            ),
            header=(
                *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
                *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions"),
            ),
        ),
        Action(
            "describe-producers",
            "describe the producer states of a partition",
            describe_producers,
            options=(
                Option("--broker-id ID", "broker whose replica is described (default: the leader)", int),
                _TOPIC,
                _PARTITION,
                JSON,
            ),
            header=(
                *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
                "CurrentTransactionStartOffset",
            ),
        ),
        Action(
            "abort",
            "abort a hanging transaction in a partition",
            abort,
            options=(
                _TOPIC,
                _PARTITION,
                Option("--start-offset N", "first offset of the transaction; this or --producer-id is required", int),
                Option(
                    "--producer-id ID",
                    "id of the producer, in place of --start-offset, which needs brokers of Kafka 3.0 or later; "
                    "requires --producer-epoch and --coordinator-epoch",
                    int,
                ),
                Option("--producer-epoch N", "with --producer-id: epoch of the producer", int),
                Option(
                    "--coordinator-epoch N",
                    "with --producer-id: epoch of the transaction coordinator; a negative number stands for 0",
                    int,
                ),
            ),
            check=_check_abort,
        ),
        Action(
            "find-hanging",
            "find transactions that no coordinator will end",
            find_hanging,
            options=(
                Option("--broker-id ID", "search the partitions that have a replica on this broker", int),
                Option("--topic", "search this topic; --topic, --broker-id or both are required"),
                Option("--partition N", "search only this partition of --topic (default: all)", int),
                Option(
                    "--max-transaction-timeout MINUTES",
                    "only transactions whose last batch is older than this time in minutes",
                    int,
                    default=MAX_TIMEOUT_MINUTES,
                ),
                JSON,
            ),
            header=(
                *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset"),
                *("LastTimestamp", "Duration(min)"),
            ),
            check=_check_find_hanging,
        ),
        Action(
            "forceTerminateTransaction",
            "abort the open transaction of a transactional id and fence its producer",
            terminate,
            options=(
                Option(
                    "--transactionalId, --transactional-id ID",
                    "transactional id whose open transaction is aborted and whose producer is fenced",
                    required=True,
                    dest="transactional_id",
                ),
            ),
        ),
    ),
)
