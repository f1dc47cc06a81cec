"""List, describe and delete share groups, reset and delete their offsets, as kafka-share-groups.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.cli.consumer_groups.reset_plan import as_rows, scope, table, time_of
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, OneOf, Option, Repeatable
from ottla.cli.framework.output import Output, columns, coordinator_of, group_deletions, lines
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.groups.group_descriptions import GroupDescription, GroupMember
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import ConfigurationError, GroupIdNotFoundError, KafkaError, NonEmptyGroupError
from ottla.model import Node, TopicPartition

STATES: Final = ("Empty", "Stable", "Dead")
"""The states of share groups, which `--list --state` accepts."""
ERROR: Final = "Error: Executing share group command failed due to {}"
SPECS: Final = ("--to-datetime", "--to-earliest", "--to-latest")
_MIN: Final = 15


def _states(args: argparse.Namespace) -> set[str]:
    states = {text.strip().capitalize() for text in (args.state or "").split(",") if text.strip()}
    if states and args.action != "list":
        raise ConfigurationError(f"--state takes no value with --{args.action}")
    if states - {*STATES}:
        raise ConfigurationError(f"Invalid state list '{args.state}'. Valid states are: {', '.join(STATES)}")
    return states


def _check(args: argparse.Namespace) -> None:
    _states(args)
    if args.action != "list" and not (args.group or args.all_groups):
        raise ConfigurationError(f"--{args.action} needs --group or --all-groups")


def _check_one_group(args: argparse.Namespace) -> None:
    if len(args.group) != 1 or args.all_groups:
        raise ConfigurationError(f"--{args.action} takes one --group")


def _check_delete_offsets(args: argparse.Namespace) -> None:
    _check_one_group(args)
    if not args.topic or any(":" in topic for topic in args.topic):
        raise ConfigurationError("--delete-offsets needs --topic, without partitions")


def _check_reset(args: argparse.Namespace) -> None:
    _check_one_group(args)
    if args.dry_run == args.execute:
        raise ConfigurationError("--reset-offsets takes one of --execute and --dry-run")
    if bool(args.topic) == args.all_topics:
        raise ConfigurationError("--reset-offsets takes one of --all-topics and --topic")
    if sum((args.to_datetime is not None, args.to_earliest, args.to_latest)) != 1:
        raise ConfigurationError(f"--reset-offsets takes one of {', '.join(SPECS)}")
    _new_offset(args)
    scope(args.topic)


def _groups(admin: KafkaAdminClient, args: argparse.Namespace) -> list[str]:
    if args.all_groups:
        return [group.group_id for group in admin.list_share_groups(args.timeout)]
    return list(dict.fromkeys(args.group))


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the share groups, and return them for JSON. `--state` adds their states. Its value, if any, contains the
    states of the groups to select.
    """
    groups = sorted(admin.list_share_groups(args.timeout, sorted(_states(args))))
    if args.state is None:
        output.text(*(group.group_id for group in groups))
    else:
        output.text(*lines(("GROUP", "STATE"), ((g.group_id, g.state) for g in groups)))
    return [{"group_id": g.group_id, "state": g.state} for g in groups]


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the start offsets and lag of each group, its members with `--members`, or its state with `--state`. A group
    that cannot be described is reported as an error; the exit code is then 1.
    """
    groups = _groups(admin, args)
    failed: dict[Any, KafkaError] = {}
    descriptions = admin.describe_share_groups(groups, args.timeout, errors=failed)
    nodes = admin.describe_cluster(args.timeout).nodes if args.state is not None else ()
    document = []
    for group_id in groups:
        if group_id in failed:
            output.error(ERROR.format(failed[group_id]))
            continue
        group = descriptions[group_id]
        fields: dict[str, Any] = {"group": group.group_id, "state": group.state}
        if args.members:
            fields["members"] = [_member_as_json(member) for member in group.members]
            _print_members(output, group, verbose=args.verbose)
        elif args.state is not None:
            fields |= _print_state(output, group, nodes, verbose=args.verbose)
        else:
            fields["offsets"] = _print_offsets(admin, output, group, args)
        document.append(fields)
    return document


def _warn_if_inactive(output: Output, group: GroupDescription) -> None:
    if group.state == "Empty" and not output.as_json:
        output.warn(f"\nShare group '{group.group_id}' has no active members.")


def _print_offsets(
    admin: KafkaAdminClient, output: Output, group: GroupDescription, args: argparse.Namespace
) -> list[dict[str, Any]]:
    infos = sorted(admin.describe_share_group_offsets(group.group_id, None, args.timeout).items())
    header = ["GROUP", "TOPIC", "PARTITION", *(["LEADER-EPOCH"] if args.verbose else []), "START-OFFSET", "LAG"]
    minima = [_MIN, _MIN, 10, *([13] if args.verbose else []), 13]
    rows = [
        (group.group_id, tp.topic, tp.partition, *([info.leader_epoch] if args.verbose else []), *_offset(info))
        for tp, info in infos
    ]
    if rows:
        output.text("", *columns(header, rows, minima))
    return [{**tp._asdict(), **info._asdict()} for tp, info in infos]


def _offset(info: Any) -> tuple[int | None, int | None]:
    """Return the start offset and the lag. Both are None, which is printed as `-`, if the group has no start offset for
    the partition.
    """
    return (None, None) if info.start_offset < 0 else (info.start_offset, info.lag)


def _print_members(output: Output, group: GroupDescription, *, verbose: bool) -> None:
    _warn_if_inactive(output, group)
    if not group.members:
        return
    epoch = ["MEMBER-EPOCH"] if verbose else []
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *epoch, "ASSIGNMENT"]
    rows = [
        (
            *(group.group_id, member.member_id, member.client_host, member.client_id, len(member.assignment)),
            *([member.member_epoch] if verbose else []),
            _assignment(member),
        )
        for member in group.members
    ]
    output.text("", *columns(header, rows, [_MIN, _MIN, _MIN, _MIN, 12, *([13] if verbose else [])]))


def _assignment(member: GroupMember) -> str:
    topics: dict[str, list[int]] = {}
    for tp in sorted(member.assignment):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())


def _member_as_json(member: GroupMember) -> dict[str, Any]:
    return {
        "consumer_id": member.member_id,
        "host": member.client_host,
        "client_id": member.client_id,
        "member_epoch": member.member_epoch,
        "assignment": [tp._asdict() for tp in sorted(member.assignment)],
    }


def _print_state(output: Output, group: GroupDescription, nodes: Iterable[Node], *, verbose: bool) -> dict[str, Any]:
    _warn_if_inactive(output, group)
    address, coordinator = coordinator_of(group, nodes)
    epochs: Mapping[str, int | None] = {
        "GROUP-EPOCH": group.group_epoch,
        "ASSIGNMENT-EPOCH": group.target_assignment_epoch,
    }
    shown = epochs if verbose else {}
    header = ["GROUP", "COORDINATOR (ID)", "STATE", *shown, "#MEMBERS"]
    row = (group.group_id, f"{address}  ({group.coordinator_id})", group.state, *shown.values(), len(group.members))
    output.text("", *columns(header, [row], [_MIN, 25, _MIN, *([12, 17] if verbose else [])]))
    return {
        "coordinator": coordinator,
        "members": len(group.members),
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.target_assignment_epoch,
    }


def delete(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete groups. Those that cannot be deleted, because they have members for example, are reported as errors; the
    exit code is then 1.
    """
    groups = _groups(admin, args)
    failed: dict[Any, KafkaError] = {
        group: GroupIdNotFoundError(f"Group '{group}' is not a share group.")
        for group in {*groups} - {listed.group_id for listed in admin.list_share_groups(args.timeout)}
    }
    admin.delete_share_groups([group for group in groups if group not in failed], args.timeout, errors=failed)
    return group_deletions(output, "share", groups, failed)


def _new_offset(args: argparse.Namespace) -> OffsetSpec:
    if args.to_datetime is not None:
        return OffsetSpec.for_timestamp(time_of(args.to_datetime))
    return OffsetSpec.earliest() if args.to_earliest else OffsetSpec.latest()


def reset_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Compute the new start offsets, set them with `--execute`, and print them. Raises NonEmptyGroupError if the group
    has members.
    """
    (group_id,) = args.group
    group = admin.describe_share_groups([group_id], args.timeout)[group_id]
    if group.state not in ("Empty", "Dead"):
        raise NonEmptyGroupError(f"Share group '{group_id}' is not empty.")
    partitions = _partitions(admin, args, group_id)
    spec = _new_offset(args)
    offsets = {tp: at.offset for tp, at in admin.list_offsets(dict.fromkeys(partitions, spec), args.timeout).items()}
    late = dict.fromkeys((tp for tp, offset in offsets.items() if offset < 0), OffsetSpec.latest())
    offsets |= {tp: at.offset for tp, at in admin.list_offsets(late, args.timeout).items()} if late else {}
    if args.execute:
        admin.alter_share_group_offsets(group_id, offsets, args.timeout)
    output.text(table({group_id: offsets}))
    return as_rows({group_id: offsets})


def _partitions(admin: KafkaAdminClient, args: argparse.Namespace, group_id: str) -> list[TopicPartition]:
    if args.all_topics:
        return sorted(admin.list_share_group_offsets(group_id, None, args.timeout))
    partitions, topics = scope(args.topic)
    infos = admin.describe_topics(topics, args.timeout) if topics else {}
    return [*partitions, *(TopicPartition(t.name, p.partition) for t in infos.values() for p in t.partitions)]


def delete_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete the start offsets of the group for topics. The group's config share.auto.offset.reset then decides where
    the group starts to read these topics. The exit code is 1 if a topic is rejected.
    """
    (group_id,) = args.group
    failed: dict[Any, KafkaError] = {}
    topics = list(dict.fromkeys(args.topic))
    try:
        admin.delete_share_group_offsets(group_id, topics, args.timeout, errors=failed)
    except KafkaError as error:
        failed = dict.fromkeys(topics, error)
        output.error(f"\nError: {error}")
    rows = [(topic, f"Error: {failed[topic]}" if topic in failed else "Successful") for topic in topics]
    output.text("", *columns(("TOPIC", "STATUS"), rows, [_MIN]))
    if failed:
        output.exit_code = 1
    errors = [{"topic": topic, "message": str(error)} for topic, error in failed.items()]
    return {"group": group_id, "deleted": [topic for topic in topics if topic not in failed], "errors": errors}


_RESET: Final = "reset-offsets"

COMMAND = AdminCommand(
    error=ERROR,
    check=_check,
    actions=(
        Action("list", "list share groups", list_),
        Action("describe", "print the start offsets and lag of groups, their members, or their state", describe),
        Action("delete", "delete groups without members", delete),
        Action(
            "reset-offsets", "change the start offsets of a group without members", reset_offsets, check=_check_reset
        ),
        Action(
            "delete-offsets",
            "delete the start offsets of a group for topics",
            delete_offsets,
            check=_check_delete_offsets,
        ),
    ),
    options=(
        *connection(),
        Repeatable("--group", "id of a share group to describe, delete or change"),
        Flag("--all-groups", "describe or delete all share groups"),
        Repeatable(
            "--topic TOPIC[:P,P…]",
            "topic whose start offsets are reset or deleted; with --reset-offsets, partitions may follow, as in "
            "orders:0,2",
            actions="reset-offsets delete-offsets",
        ),
        Flag("--all-topics", "reset all partitions for which the group has start offsets", actions=_RESET),
        OneOf(
            Flag("--to-earliest", "reset to the earliest offset of each partition", actions=_RESET),
            Flag("--to-latest", "reset to the end of each partition", actions=_RESET),
            Option(
                "--to-datetime YYYY-MM-DDTHH:mm:SS.sss[Z]",
                "reset to the first record at or after a time (UTC, unless a time zone such as +02:00 follows), or to "
                "the latest offset if there is none",
                actions=_RESET,
            ),
            required=False,
        ),
        Flag(
            "--dry-run",
            "print the new offsets without changing anything; this or --execute is required",
            actions=_RESET,
        ),
        Flag("--execute", "set the new offsets", actions=_RESET),
        Option(
            "--state STATE,…",
            "with --list: also print states, and only groups in these states if some are named; with --describe, "
            "without a value: print the state and the coordinator of the group",
            nargs="?",
            const="",
        ),
        Flag("--members", "with --describe: print the members of the group with their assignments"),
        Flag("--offsets", "with --describe: print start offsets and lag (the default)"),
        Flag("--verbose", "with --describe: also print epochs"),
        Option(
            "--timeout MS",
            "maximum time in milliseconds of each request to the cluster, including its retries",
            int,
            default=5000,
        ),
        JSON,
    ),
)
