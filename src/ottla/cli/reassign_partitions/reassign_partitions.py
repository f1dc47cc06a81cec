"""Move partitions to other brokers and log directories, as kafka-reassign-partitions.sh does."""

from __future__ import annotations

import argparse

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Option, flag_name
from ottla.cli.reassign_partitions.actions import NO_THROTTLE, TIMEOUT_MS, cancel, execute, generate, list_, verify
from ottla.cli.reassign_partitions.plan_json import PARTITIONS_FORM, TOPICS_FORM, read_brokers, read_moves, read_topics
from ottla.errors import ConfigurationError


def _check(args: argparse.Namespace) -> None:
    """Raise ConfigurationError for a malformed file or number."""
    for option in ("throttle", "replica_alter_log_dirs_throttle"):
        rate = getattr(args, option)
        if rate is not None and rate < 1 and rate != NO_THROTTLE:
            raise ConfigurationError(f"{flag_name(option)}: {rate} is not allowed: expected at least 1 byte per second")
    if args.timeout is not None and args.timeout < 1:
        raise ConfigurationError(f"--timeout: {args.timeout} is not allowed: expected at least 1 millisecond")
    if args.action == "generate":
        read_brokers(args.broker_list)
        read_topics(args.topics_to_move_json_file)
    elif args.action != "list":
        read_moves(args.reassignment_json_file)


COMMAND = AdminCommand(
    configs={"client.id": "reassign-partitions-tool"},
    error="Error: {}",
    usage_error="Error: {}",
    actions=(
        Action(
            "generate",
            "propose where the partitions of topics could be, on a list of brokers",
            generate,
            requires=("topics_to_move_json_file", "broker_list"),
            check=_check,
        ),
        Action("execute", "start reassignments", execute, requires=("reassignment_json_file",), check=_check),
        Action(
            "verify",
            "print whether reassignments are complete; if all are, remove throttles",
            verify,
            requires=("reassignment_json_file",),
            check=_check,
        ),
        Action("cancel", "cancel reassignments", cancel, requires=("reassignment_json_file",), check=_check),
        Action("list", "list active reassignments", list_, check=_check),
    ),
    options=(
        *connection(),
        Option(
            "--reassignment-json-file FILE",
            f"JSON file with the new replicas of partitions: {PARTITIONS_FORM}",
            actions="execute verify cancel",
        ),
        Option("--topics-to-move-json-file FILE", f"JSON file with topics: {TOPICS_FORM}", actions="generate"),
        Option("--broker-list B,B,…", "ids of the brokers to use", actions="generate"),
        Flag("--disable-rack-aware", "ignore the racks of brokers", actions="generate"),
        Flag(
            "--additional", "start although other reassignments are active; also changes throttles", actions="execute"
        ),
        Flag(
            "--disallow-replication-factor-change",
            "refuse to move partitions to more or fewer replicas",
            actions="execute",
        ),
        Option("--throttle BYTES", "most bytes per second that move between brokers", int, actions="execute"),
        Option(
            "--replica-alter-log-dirs-throttle BYTES",
            "most bytes per second that move between log directories of a broker",
            int,
            actions="execute",
        ),
        Flag("--preserve-throttles", "leave throttles as they are", actions="verify cancel"),
        Option(
            "--timeout MS",
            f"how long moves to log directories may take to start, in milliseconds (default: {TIMEOUT_MS})",
            int,
            actions="execute cancel",
        ),
        JSON,
    ),
)
