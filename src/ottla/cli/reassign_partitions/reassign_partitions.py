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
            "propose an assignment of topics to a list of brokers",
            generate,
            requires=("topics_to_move_json_file", "broker_list"),
            check=_check,
        ),
        Action("execute", "start reassignments", execute, requires=("reassignment_json_file",), check=_check),
        Action(
            "verify",
            "print whether reassignments are complete; if nothing is being moved, remove the throttles",
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
            f"JSON file with the new replicas of partitions: {PARTITIONS_FORM}; optionally with a list log_dirs beside "
            "replicas: their log directories, or any for the broker's choice",
            actions="execute verify cancel",
        ),
        Option("--topics-to-move-json-file FILE", f"JSON file with topics: {TOPICS_FORM}", actions="generate"),
        Option(
            "--broker-list B,B,…", "ids of the brokers that get the replicas, separated by commas", actions="generate"
        ),
        Flag("--disable-rack-aware", "ignore the racks of brokers in the proposed assignment", actions="generate"),
        Flag(
            "--additional",
            "start even if other reassignments are in progress; --throttle then also applies to them",
            actions="execute",
        ),
        Flag(
            "--disallow-replication-factor-change",
            "reject reassignments that change the number of replicas",
            actions="execute",
        ),
        Option(
            "--throttle BYTES",
            "maximum rate in bytes per second at which reassignments copy data between brokers; -1 (the default): the "
            "throttles stay unchanged",
            int,
            actions="execute",
        ),
        Option(
            "--replica-alter-log-dirs-throttle BYTES",
            "maximum rate in bytes per second at which a broker copies data between its log directories; -1 (the "
            "default): the throttles stay unchanged",
            int,
            actions="execute",
        ),
        Flag("--preserve-throttles", "do not remove the throttles of brokers and topics", actions="verify cancel"),
        Option(
            "--timeout MS",
            f"maximum time in milliseconds until moves to log directories have started (default: {TIMEOUT_MS})",
            int,
            actions="execute cancel",
        ),
        JSON,
    ),
)
