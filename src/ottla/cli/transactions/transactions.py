"""List and describe transactions and producers, find those that hang, and end them, as kafka-transactions.sh does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.connection import add_connection, as_typed, client_options
from ottla.cli.framework.table import tabbed
from ottla.cli.transactions import rows
from ottla.cli.transactions.rows import Row
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import ConfigurationError

LONGEST_MINUTES: Final = 15
"""Of transactions: brokers have transaction.max.timeout.ms."""


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--duration-filter", type=int, metavar="MS", help="only those open for longer; below 0: all")
    parser.add_argument("--transactional-id-pattern", metavar="REGEX", help="only ids that match")


def _describe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="which one")


def _partition_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, help="the topic")
    parser.add_argument("--partition", type=int, required=True, metavar="N", help="the number of the partition")


def _producers_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker-id", type=int, metavar="ID", help="as this replica tells it, not the leader")
    _partition_arguments(parser)


def _abort_arguments(parser: argparse.ArgumentParser) -> None:
    _partition_arguments(parser)
    parser.add_argument("--start-offset", type=int, metavar="N", help="where the transaction begins")
    parser.add_argument("--producer-id", type=int, metavar="ID", help="without --start-offset, for brokers before 3.0")
    parser.add_argument("--producer-epoch", type=int, metavar="N", help="with --producer-id")
    parser.add_argument("--coordinator-epoch", type=int, metavar="N", help="with --producer-id")


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
            raise ConfigurationError(f"Missing required argument {as_typed(option)}")


def _hanging_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--broker-id", type=int, metavar="ID", help="search the partitions of this broker")
    parser.add_argument("--topic", help="search this topic; it or --broker-id is needed")
    parser.add_argument("--partition", type=int, metavar="N", help="search one partition of --topic")
    parser.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=LONGEST_MINUTES,
        metavar="MINUTES",
        help=f"what is open for longer may hang: {LONGEST_MINUTES}",
    )


def _check_hanging(args: argparse.Namespace) -> None:
    if args.topic is None and args.broker_id is None:
        raise ConfigurationError(
            "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"
        )
    if args.partition is not None and args.topic is None:
        raise ConfigurationError("The --partition argument requires --topic to be provided")


def _terminate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--transactionalId", "--transactional-id", required=True, dest="transactional_id", metavar="ID")


class Action(NamedTuple):
    """One of the actions: its columns (none where it tells nothing), and what it is made of."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    rows: Callable[[KafkaAdminClient, argparse.Namespace], Iterable[Row]]
    header: tuple[str, ...] = ()
    check: Callable[[argparse.Namespace], None] | None = None


ACTIONS: Final[Mapping[str, Action]] = {
    "list": Action(
        "all transactional ids",
        _list_arguments,
        rows.listed,
        ("TransactionalId", "Coordinator", "ProducerId", "TransactionState"),
    ),
    "describe": Action(
        "one transactional id",
        _describe_arguments,
        rows.described,
        (
            "CoordinatorId",
            "TransactionalId",
            "ProducerId",
            "ProducerEpoch",
            "TransactionState",
            "TransactionTimeoutMs",
            "CurrentTransactionStartTimeMs",
            "TransactionDurationMs",
            "TopicPartitions",
        ),
    ),
    "describe-producers": Action(
        "the producers that a partition remembers",
        _producers_arguments,
        rows.producers,
        (
            "ProducerId",
            "ProducerEpoch",
            "LatestCoordinatorEpoch",
            "LastSequence",
            "LastTimestamp",
            "CurrentTransactionStartOffset",
        ),
    ),
    "abort": Action("end a hanging transaction in a partition", _abort_arguments, rows.abort, check=_check_abort),
    "find-hanging": Action(
        "transactions that nobody will end",
        _hanging_arguments,
        rows.hanging,
        (
            "Topic",
            "Partition",
            "ProducerId",
            "ProducerEpoch",
            "CoordinatorEpoch",
            "StartOffset",
            "LastTimestamp",
            "Duration(min)",
        ),
        _check_hanging,
    ),
    "forceTerminateTransaction": Action(
        "abort what a transactional id has open, and shut its producer out",
        _terminate_arguments,
        rows.terminate,
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla transactions`."""
    add_connection(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    for name, action in ACTIONS.items():
        sub = actions.add_parser(name, help=action.help)
        action.add_arguments(sub)
        if action.header:
            sub.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; what is refused is a KafkaError."""
    action = ACTIONS[args.action]
    if action.check is not None:
        action.check(args)
    with KafkaAdminClient(client_options(args)) as admin:
        rows = list(action.rows(admin, args))
    if action.header and args.json:
        print(json.dumps(rows))
    elif action.header:
        print("\n".join(tabbed(action.header, ([_cell(value) for value in row.values()] for row in rows))))
    return 0


def _cell(value: Any) -> str:
    return "None" if value is None else ",".join(value) if isinstance(value, list) else str(value)
