"""List, describe and delete consumer groups, reset and delete their offsets, as kafka-consumer-groups.sh does."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ottla.cli.consumer_groups import delete_offsets, descriptions, reset_offsets
from ottla.cli.consumer_groups.reset_offsets import TIMEOUT_MS
from ottla.cli.consumer_groups.reset_plan import scope
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action, CommandFailedError, CommandParser
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable
from ottla.cli.framework.output import Output, aligned, group_deletions, widest
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.groups.group_descriptions import GroupState
from ottla.errors import ConfigurationError, KafkaError

STATES = tuple(state.value for state in GroupState if state is not GroupState.NOT_READY)
"""The states that `--list --state` accepts."""
TYPES = ("classic", "consumer")
"""The types that `--list --type` accepts."""
ERROR = "Error: Executing consumer group command failed due to {}"


def _states(args: argparse.Namespace) -> set[str]:
    """Return the states of --state in lower case. Raises ConfigurationError for an unknown state, or if --state has a
    value with an action other than --list.
    """
    states = {state.strip().lower(): state.strip() for state in (args.state or "").split(",") if state.strip()}
    if states and args.action != "list":
        raise ConfigurationError(f"--state takes no value with --{args.action}")
    valid = {state.lower() for state in STATES}
    unknown = [name for state, name in states.items() if state not in valid]
    if unknown:
        raise ConfigurationError(f"--state: {', '.join(unknown)} is not allowed: {', '.join(STATES)} are the states")
    return set(states)


def _cell(column: str, value: str) -> str:
    return value.capitalize() if column == "TYPE" else value


def _types(args: argparse.Namespace) -> set[str]:
    """Return the types of --type in lower case. Raises ConfigurationError for an unknown type, or if --type is used
    with an action other than --list.
    """
    types = {kind.strip().lower() for kind in (args.type or "").split(",") if kind.strip()}
    if args.type is not None and args.action != "list":
        raise ConfigurationError(f"--type cannot be used with --{args.action}: it belongs to --list")
    if types - {*TYPES}:
        raise ConfigurationError(f"Invalid types list '{args.type}'. Valid types are: {', '.join(TYPES)}")
    return types


def _check_states(args: argparse.Namespace) -> None:
    _states(args)
    _types(args)


def _groups(admin: KafkaAdminClient, args: argparse.Namespace) -> list[str]:
    if args.all_groups:
        return sorted(g.group_id for g in admin.list_consumer_groups(args.timeout))
    if not args.group:
        raise CommandFailedError("--group or --all-groups is required", exit_code=2)
    return list(dict.fromkeys(args.group))


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the groups that `--state` and `--type` select, and return them for JSON. Each of these options adds a
    column; without a value, it selects all groups.
    """
    states, types = _states(args), _types(args)
    groups = sorted(
        g
        for g in admin.list_consumer_groups(args.timeout)
        if (not states or g.state.lower() in states) and (not types or g.group_type.lower() in types)
    )
    header = ("GROUP", *(["TYPE"] if args.type is not None else []), *(["STATE"] if args.state is not None else []))
    if len(header) == 1:
        output.text(*(group.group_id for group in groups))
    else:
        cells = {"GROUP": "group_id", "TYPE": "group_type", "STATE": "state"}
        rows = [[_cell(column, getattr(g, cells[column])) for column in header] for g in groups]
        width = widest((group.group_id for group in groups), 15) + 10
        output.text(*aligned([header, *rows], [width, *(20 for _ in header[1:])]))
    return [g._asdict() for g in groups]


def delete(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete groups, and return the results for JSON. Groups that cannot be deleted are reported as errors; the exit
    code is then 1.
    """
    groups = _groups(admin, args)
    failed: dict[Any, KafkaError] = {}
    admin.delete_consumer_groups(groups, args.timeout, errors=failed)
    return group_deletions(output, "consumer", groups, failed)


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the offsets and lag of each group, its members with `--members`, or its state with `--state`."""
    return descriptions.describe(admin, _groups(admin, args), args, output)


def _reset_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> Any:
    return reset_offsets.reset(admin, _groups(admin, args), reset_offsets.read(args), output)


def _check_reset_offsets(args: argparse.Namespace) -> None:
    reset_offsets.read(args)


def _check_delete_offsets(args: argparse.Namespace) -> None:
    if len(args.group) != 1 or args.all_groups or not args.topic:
        raise ConfigurationError("--delete-offsets takes one --group, and --topic")
    scope(args.topic)


class _ValidateRegex(argparse.Action):
    """Prints whether brokers accept a regular expression in a SubscriptionPattern, and exits with 0. No broker is
    needed. If google-re2 is not installed, the exit code is 2.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        try:
            import re2  # as brokers do
        except ImportError:  # it has no wheels for musllinux and free-threaded Python
            parser.error("--validate-regex requires google-re2: pip install google-re2")
        settings = re2.Options()
        settings.log_errors = False
        reason = None
        try:
            re2.compile(values, settings)
        except re2.error as error:
            reason = error.args[0]
            reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        if isinstance(parser, CommandParser) and JSON.names[0] in parser.arguments:
            print(json.dumps({"regex": values, "valid": reason is None, "error": reason}))
        else:
            text = "valid" if reason is None else f"invalid: {reason}"
            print(f"The regular expression `{values}` is {text}.")
        parser.exit()


COMMAND = AdminCommand(
    check=_check_states,
    error=ERROR,
    usage_error=ERROR,
    actions=(
        Action("list", "list groups", list_),
        Action("describe", "print the offsets and lag of groups, their members, or their state", describe),
        Action("delete", "delete empty groups", delete),
        Action(
            "reset-offsets",
            "print new offsets for inactive groups, and commit them with --execute",
            _reset_offsets,
            check=_check_reset_offsets,
        ),
        Action(
            "delete-offsets",
            "delete the committed offsets of topics",
            delete_offsets.delete_offsets,
            check=_check_delete_offsets,
        ),
    ),
    options=(
        *connection(),
        Repeatable("--group", "id of a consumer group to describe, delete or change"),
        Flag("--all-groups", "describe, delete or reset all consumer groups"),
        Repeatable(
            "--topic TOPIC[:P,P…]",
            "topic whose offsets are reset or deleted, or some of its partitions, such as orders:0,2",
            actions="reset-offsets delete-offsets",
        ),
        *reset_offsets.OPTIONS,
        Option(
            "--state STATE,…",
            "with --list: also print states, and only groups in these states if some are named; with --describe, "
            "without a value: print the state and the coordinator of the group",
            nargs="?",
            const="",
        ),
        Flag("--members", "with --describe: print the members of the group"),
        Flag("--offsets", "with --describe: print offsets and lag (the default)"),
        Flag("--verbose", "with --describe: also print epochs, and with --members the partitions of each member"),
        Option(
            "--type TYPE,…",
            "with --list: also print types, and only groups of these types if some are named: classic, consumer",
            nargs="?",
            const="",
        ),
        Option(
            "--validate-regex REGEX",
            "print whether brokers accept a regular expression (RE2) of a subscription, and exit",
            action=_ValidateRegex,
        ),
        Option(
            "--timeout MS",
            "maximum time in milliseconds of each request to the cluster, including its retries",
            int,
            default=TIMEOUT_MS,
        ),
        JSON,
    ),
)
