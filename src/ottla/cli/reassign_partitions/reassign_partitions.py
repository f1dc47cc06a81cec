"""Move partitions to other brokers and data directories, as kafka-reassign-partitions.sh does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final

from ottla.cli.framework.action_options import check_belongs, check_needs
from ottla.cli.framework.connection import add_connection, as_typed
from ottla.cli.reassign_partitions.actions import (
    NO_THROTTLE,
    TIMEOUT_MS,
    Account,
    cancel,
    execute,
    generate,
    list_,
    verify,
)
from ottla.cli.reassign_partitions.plan_json import PARTITIONS_FORM, TOPICS_FORM
from ottla.errors import ConfigurationError, KafkaError

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
}
"""What an action cannot do without."""
BELONGS: Final[Mapping[str, tuple[str, ...]]] = {
    "topics_to_move_json_file": ("generate",),
    "broker_list": ("generate",),
    "disable_rack_aware": ("generate",),
    "reassignment_json_file": ("execute", "verify", "cancel"),
    "additional": ("execute",),
    "throttle": ("execute",),
    "replica_alter_log_dirs_throttle": ("execute",),
    "timeout": ("execute", "cancel"),
    "preserve_throttles": ("verify", "cancel"),
}
"""Actions by option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla reassign-partitions`."""
    add_connection(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("generate", "propose where the partitions of topics could be, on given brokers"),
        ("execute", "begin to move partitions"),
        ("verify", "tell whether they have arrived, and remove throttles when all have"),
        ("cancel", "call moves off"),
        ("list", "tell all moves that are going on"),
    ):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="action", help=text)
    parser.add_argument("--reassignment-json-file", metavar="FILE", help=f"where they shall be: {PARTITIONS_FORM}")
    parser.add_argument("--topics-to-move-json-file", metavar="FILE", help=f"with --generate: {TOPICS_FORM}")
    parser.add_argument("--broker-list", metavar="B,B,…", help="with --generate: the brokers to use")
    parser.add_argument("--disable-rack-aware", action="store_true", help="with --generate: racks do not matter")
    parser.add_argument("--additional", action="store_true", help="with --execute: although others move; changes rates")
    for flag, what in (
        ("throttle", "between brokers"),
        ("replica-alter-log-dirs-throttle", "between data directories"),
    ):
        parser.add_argument(
            f"--{flag}", type=int, metavar="BYTES", help=f"with --execute: most bytes per second that move {what}"
        )
    parser.add_argument(
        "--preserve-throttles", action="store_true", help="with --verify and --cancel: leave throttles as they are"
    )
    parser.add_argument(
        "--timeout", type=int, metavar="MS", help=f"how long moves to data directories may wait to begin ({TIMEOUT_MS})"
    )
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with what was wrong, and where, if a file or the cluster forbids it."""
    account = Account(as_json=args.json)
    try:
        check(args)
        ACTIONS[args.action](args, account)
    except KafkaError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    finally:
        account.end()
    return 0


def check(args: argparse.Namespace) -> None:
    """ConfigurationError for an option that is missing, would be ignored, or has a wrong value."""
    check_belongs(args, BELONGS)
    check_needs(args, NEEDS)
    for option in ("throttle", "replica_alter_log_dirs_throttle"):
        rate = getattr(args, option)
        if rate is not None and rate < 1 and rate != NO_THROTTLE:
            raise ConfigurationError(
                f"{as_typed(option)}: {rate} is not allowed: bytes per second of at least 1 are wanted"
            )
    if args.timeout is not None and args.timeout < 1:
        raise ConfigurationError(f"--timeout: {args.timeout} is not allowed: milliseconds of at least 1 are wanted")


ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace, Account], None]]] = {
    "generate": generate,
    "execute": execute,
    "verify": verify,
    "cancel": cancel,
    "list": list_,
}
