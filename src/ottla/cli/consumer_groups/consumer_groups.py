"""List, describe and delete consumer groups, reset and delete their offsets, as kafka-consumer-groups.sh does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ottla.cli.consumer_groups import delete_offsets, reset_offsets
from ottla.cli.framework.action_options import check_belongs
from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.framework.table import lines
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.group_descriptions import GroupDescription, GroupMember, GroupState
from ottla.client.consumer.consumer import KafkaConsumer
from ottla.errors import ConfigurationError, KafkaError
from ottla.model import Node, TopicPartition

STATES = tuple(state.value for state in GroupState if state is not GroupState.NOT_READY)
"""What a group of consumers can be in."""
BELONGS = {
    "topic": ("reset-offsets", "delete-offsets"),
    **dict.fromkeys(reset_offsets.OPTIONS, ("reset-offsets",)),
}
"""Actions by option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla consumer-groups`."""
    add_connection(parser)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--list", action="store_const", const="list", dest="action", help="list groups")
    action.add_argument(
        "--describe", action="store_const", const="describe", dest="action", help="tell offsets and lag"
    )
    action.add_argument("--delete", action="store_const", const="delete", dest="action", help="delete empty groups")
    for name, what in (("reset-offsets", "set offsets of inactive groups"), ("delete-offsets", "forget offsets")):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="action", help=what)
    parser.add_argument("--group", action="append", default=[], help="a group; repeatable")
    parser.add_argument("--all-groups", action="store_true", help="every group")
    parser.add_argument(
        "--topic", action="append", default=[], metavar="T[:P,P…]", help="a topic, or partitions of it; repeatable"
    )
    reset_offsets.add_arguments(parser)
    parser.add_argument("--state", nargs="?", const="", metavar="STATE", help="with --list: show, or choose by, states")
    parser.add_argument("--members", action="store_true", help="with --describe: members instead of offsets")
    parser.add_argument("--offsets", action="store_true", help="with --describe: offsets and lag (the default)")
    parser.add_argument("--verbose", action="store_true", help="with --members: their partitions too")
    parser.add_argument("--timeout", type=int, metavar="MS", help="how long an answer may take")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


class Row(NamedTuple):
    """A partition that a group reads or has read; None where there is nothing to tell."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def run(args: argparse.Namespace) -> int:
    """Do it; 1 where a group is not there or the broker refuses."""
    try:
        states = _states(args)
        check_belongs(args, BELONGS)
        request = reset_offsets.read(args) if args.action == "reset-offsets" else None
        if args.action == "delete-offsets":
            delete_offsets.check(args)
        with KafkaAdminClient(client_options(args)) as admin:
            if args.action == "list":
                return list_groups(admin, args, states)
            groups = sorted(g.group_id for g in admin.list_consumer_groups()) if args.all_groups else args.group
            if not groups and not args.all_groups:
                print("--group or --all-groups is needed", file=sys.stderr)
                return 2
            if request is not None:
                return reset_offsets.reset(admin, groups, request)
            if args.action == "delete-offsets":
                return delete_offsets.delete_offsets(admin, groups[0], args)
            return delete(admin, groups) if args.action == "delete" else describe(admin, groups, args)
    except KafkaError as error:
        print(f"Error: Executing consumer group command failed due to {error}", file=sys.stderr)
        return 1


def _states(args: argparse.Namespace) -> set[str]:
    """What was asked for with --state, in small letters; ConfigurationError for a state that no group can be in."""
    wanted = {state.strip().lower(): state.strip() for state in (args.state or "").split(",") if state.strip()}
    if wanted and args.action != "list":
        raise ConfigurationError(f"--state takes no value with --{args.action}")
    known = {state.lower() for state in STATES}
    unknown = [given for state, given in wanted.items() if state not in known]
    if unknown:
        raise ConfigurationError(f"--state: {', '.join(unknown)} is not allowed: {', '.join(STATES)} are the states")
    return set(wanted)


def list_groups(admin: KafkaAdminClient, args: argparse.Namespace, states: Collection[str] = ()) -> int:
    """`--list`; with `states`, in small letters, of the groups that are in one of them."""
    groups = sorted(g for g in admin.list_consumer_groups() if not states or g.state.lower() in states)
    if args.json:
        print(json.dumps([g._asdict() for g in groups]))
    elif args.state is not None:
        print("\n".join(lines(("GROUP", "STATE"), ((g.group_id, g.state) for g in groups))))
    else:
        for group in groups:
            print(group.group_id)
    return 0


def delete(admin: KafkaAdminClient, groups: list[str]) -> int:
    """`--delete`."""
    failed = 0
    for group in groups:
        try:
            admin.delete_consumer_groups([group])
        except KafkaError as error:
            failed += 1
            print(f"Error: Deletion of consumer group '{group}' failed: {error}", file=sys.stderr)
        else:
            print(f"Deletion of requested consumer groups ('{group}') was successful.")
    return 1 if failed else 0


def describe(admin: KafkaAdminClient, groups: list[str], args: argparse.Namespace) -> int:
    """`--describe`."""
    described = admin.describe_consumer_groups(groups)
    nodes = () if args.state is None else admin.describe_cluster().nodes
    missing = 0
    told: list[dict[str, Any]] = []
    for group_id in groups:
        group = described[group_id]
        if group.state == "Dead":
            print(f"Error: Consumer group '{group_id}' does not exist.", file=sys.stderr)
            missing += 1
        elif args.json:
            told.append(_as_json(admin, group, args, nodes))
        elif args.members:
            _print_members(group, verbose=args.verbose)
        elif args.state is not None:
            _print_state(group, _coordinator(group, nodes))
        else:
            _print_offsets(group, _offset_rows(admin, group, args))
    if args.json:
        print(json.dumps(told))
    return 1 if missing else 0


def _as_json(
    admin: KafkaAdminClient, group: GroupDescription, args: argparse.Namespace, nodes: Iterable[Node]
) -> dict[str, Any]:
    """What the text tells, too: members, the state or offsets, as the options say."""
    told: dict[str, Any] = {"group": group.group_id, "state": group.state}
    if args.members:
        told["members"] = [_member_as_json(member) for member in group.members]
    elif args.state is not None:
        node = _coordinator(group, nodes)
        told |= {
            "coordinator": {"id": node.id, "host": node.host, "port": node.port},
            "assignment_strategy": group.protocol or None,
            "members": len(group.members),
        }
    else:
        told["offsets"] = [row._asdict() for row in _offset_rows(admin, group, args)]
    return told


def _member_as_json(member: GroupMember) -> dict[str, Any]:
    return {
        "consumer_id": member.member_id,
        "host": member.client_host,
        "client_id": member.client_id,
        "assignment": [tp._asdict() for tp in sorted(member.assignment)],
    }


def _coordinator(group: GroupDescription, nodes: Iterable[Node]) -> Node:
    """Of the brokers that are there; where it is none of them, only its number is known."""
    return next((node for node in nodes if node.id == group.coordinator_id), Node(group.coordinator_id, "-", -1))


def _offset_rows(admin: KafkaAdminClient, group: GroupDescription, args: argparse.Namespace) -> list[Row]:
    committed = admin.list_consumer_group_offsets(group.group_id)
    owners = {tp: member for member in group.members for tp in member.assignment}
    partitions = sorted({*committed, *owners})
    ends = _ends(partitions, args)
    rows = []
    for tp in partitions:
        offset = committed[tp].offset if tp in committed else None
        end = ends.get(tp)
        lag = None if offset is None or end is None else max(0, end - offset)
        owner: GroupMember | None = owners.get(tp)
        who = (owner.member_id, owner.client_host, owner.client_id) if owner else (None, None, None)
        rows.append(Row(group.group_id, tp.topic, tp.partition, offset, end, lag, *who))
    return rows


def _ends(partitions: Iterable[TopicPartition], args: argparse.Namespace) -> dict[TopicPartition, int]:
    wanted = list(partitions)
    if not wanted:
        return {}
    with KafkaConsumer({**client_options(args), "enable.auto.commit": False}) as consumer:
        return consumer.end_offsets(wanted)


def _print_offsets(group: GroupDescription, rows: list[Row]) -> None:
    _tell_if_inactive(group)
    if not rows:
        return
    header = (
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
    )
    print()
    print("\n".join(lines(header, rows)))


def _print_members(group: GroupDescription, *, verbose: bool) -> None:
    _tell_if_inactive(group)
    if not group.members:
        return
    header = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *(["ASSIGNMENT"] if verbose else [])]
    rows = []
    for m in group.members:
        row: list[object] = [group.group_id, m.member_id, m.client_host, m.client_id, len(m.assignment)]
        rows.append(row + ([_assignment(m)] if verbose else []))
    print()
    print("\n".join(lines(header, rows)))


def _assignment(member: GroupMember) -> str:
    topics = sorted({tp.topic for tp in member.assignment})
    parts = (
        f"{topic}({','.join(str(tp.partition) for tp in sorted(member.assignment) if tp.topic == topic)})"
        for topic in topics
    )
    return ", ".join(parts) or "-"


def _print_state(group: GroupDescription, node: Node) -> None:
    header = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS")
    coordinator = f"{node.host}:{node.port} ({node.id})"
    row = (group.group_id, coordinator, group.protocol or None, group.state, len(group.members))
    print()
    print("\n".join(lines(header, [row])))


def _tell_if_inactive(group: GroupDescription) -> None:
    if group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in ("PreparingRebalance", "CompletingRebalance"):
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
