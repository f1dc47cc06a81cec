"""Descriptions of consumer groups: offsets and lag, members, or states, in the columns of kafka-consumer-groups.sh."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ottla.cli.framework.output import Output, aligned, coordinator_of, widest
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.groups.group_descriptions import GroupDescription, GroupMember
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.model import Node, OffsetAndMetadata, TopicPartition

WIDTH: Final = 15
"""The minimum width of most columns."""
ASSIGNMENT_WIDTH: Final = 20


class Row(NamedTuple):
    """A partition that a group reads, or has committed an offset for.

    `current_offset` and `lag` are None without a committed offset, `leader_epoch` also if that offset has none.
    `consumer_id`, `host` and `client_id` are None if no member owns the partition.
    """

    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def describe(
    admin: KafkaAdminClient, group_ids: Sequence[str], args: argparse.Namespace, output: Output
) -> list[dict[str, Any]]:
    """Print the offsets and lag, the members or the state of each group, and return them for JSON. A group that does
    not exist or is of another type is reported as an error and left out; the exit code is then 1.
    """
    described = admin.describe_consumer_groups(group_ids, args.timeout)
    nodes = () if args.state is None else admin.describe_cluster(args.timeout).nodes
    document: list[dict[str, Any]] = []
    for group_id in group_ids:
        group = described[group_id]
        if group.state == "Dead":
            output.error(f"Error: Consumer group '{group_id}' does not exist.")
            continue
        fields: dict[str, Any] = {"group": group.group_id, "state": group.state}
        if args.members:
            fields["members"] = [_member_as_json(group, member) for member in group.members]
            _print_members(output, group, verbose=args.verbose)
        elif args.state is not None:
            fields |= _state(output, group, nodes, verbose=args.verbose)
        else:
            rows = _offset_rows(admin, group, args.timeout)
            fields["offsets"] = [row._asdict() for row in rows]
            _print_offsets(output, group, rows, verbose=args.verbose)
        document.append(fields)
    return document


def _state(output: Output, group: GroupDescription, nodes: Iterable[Node], *, verbose: bool) -> dict[str, Any]:
    """Print the state of a group. Return its coordinator, assignor, epochs and number of members for JSON."""
    address, coordinator = coordinator_of(group, nodes)
    described = f"{address}  ({group.coordinator_id})"
    row = [group.group_id, described, group.protocol or None, group.state]
    header = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    widths = [widest([group.group_id], WIDTH), widest([described], 25), 20, 20]
    epochs: list[int | None] = []
    if verbose:
        epochs = [group.group_epoch, group.target_assignment_epoch]
        header += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        widths += [WIDTH, 25]
    rows: list[list[object]] = [[*header, "#MEMBERS"], [*row, *epochs, len(group.members)]]
    output.text("", *aligned(rows, [*widths, 0]))
    return {
        "coordinator": coordinator,
        "assignment_strategy": group.protocol or None,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_assignment_epoch,
        "members": len(group.members),
    }


def _offset_rows(admin: KafkaAdminClient, group: GroupDescription, timeout_ms: float) -> list[Row]:
    """Return the rows of the members' partitions, beginning with the member that has the most partitions, and then the
    rows of partitions with a committed offset and without an owner.
    """
    committed = admin.list_consumer_group_offsets(group.group_id, None, timeout_ms)
    members = sorted(group.members, key=lambda member: -len(member.assignment))
    owned = [(tp, member) for member in members for tp in sorted(member.assignment)]
    rest = sorted(committed.keys() - {tp for tp, _ in owned})
    partitions: list[tuple[TopicPartition, GroupMember | None]] = [*owned, *((tp, None) for tp in rest)]
    ends = admin.list_offsets({tp: OffsetSpec.latest() for tp, _ in partitions}, timeout_ms) if partitions else {}
    return [_offset_row(group, tp, committed.get(tp), ends[tp].offset, member) for tp, member in partitions]


def _offset_row(
    group: GroupDescription,
    tp: TopicPartition,
    committed: OffsetAndMetadata | None,
    end: int,
    owner: GroupMember | None,
) -> Row:
    offset = None if committed is None else committed.offset
    epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
    lag = None if offset is None else max(0, end - offset)
    member = (None, None, None) if owner is None else (owner.member_id, owner.client_host, owner.client_id)
    return Row(group.group_id, tp.topic, tp.partition, epoch, offset, end, lag, *member)


def _print_offsets(output: Output, group: GroupDescription, rows: list[Row], *, verbose: bool) -> None:
    _warn_if_inactive(output, group)
    if not rows:
        return
    widths = dict.fromkeys(Row._fields, WIDTH) | {"partition": 10, "client_id": 0}
    for field in ("group", "topic", "consumer_id", "host"):
        widths[field] = widest((getattr(row, field) for row in rows), WIDTH)
    if not verbose:
        del widths["leader_epoch"]
    header = [field.upper().replace("_", "-") for field in widths]
    cells = [[getattr(row, field) for field in widths] for row in rows]
    output.text("", *aligned([header, *cells], list(widths.values())))


def _print_members(output: Output, group: GroupDescription, *, verbose: bool) -> None:
    _warn_if_inactive(output, group)
    members = group.members
    columns: dict[str, tuple[list[object], int]] = {
        "GROUP": ([group.group_id for _ in members], WIDTH),
        "CONSUMER-ID": ([m.member_id for m in members], WIDTH),
        "GROUP-INSTANCE-ID": ([m.group_instance_id or "" for m in members], 17),
        "HOST": ([m.client_host for m in members], WIDTH),
        "CLIENT-ID": ([m.client_id for m in members], WIDTH),
        "#PARTITIONS": ([len(m.assignment) for m in members], WIDTH),
    }
    if not any(columns["GROUP-INSTANCE-ID"][0]):
        del columns["GROUP-INSTANCE-ID"]
    if verbose:
        columns |= {
            "CURRENT-EPOCH": ([m.member_epoch for m in members], WIDTH),
            "CURRENT-ASSIGNMENT": ([_assignment(m.assignment) for m in members], ASSIGNMENT_WIDTH),
            "TARGET-EPOCH": ([group.target_assignment_epoch for _ in members], WIDTH),
            "TARGET-ASSIGNMENT": ([_assignment(m.target_assignment or ()) for m in members], ASSIGNMENT_WIDTH),
        }
    upgraded = [m.upgraded for m in members]
    if verbose and {True, False} <= {*upgraded}:
        columns["UPGRADED"] = ([None if u is None else str(u).lower() for u in upgraded], 0)
    widths = [widest(cells, least) if least else 0 for cells, least in columns.values()]
    rows = [list(columns), *zip(*(cells for cells, _ in columns.values()), strict=True)]
    output.text("", *(line + ("" if verbose else " ") for line in aligned(rows, widths)))


def _member_as_json(group: GroupDescription, member: GroupMember) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "consumer_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "host": member.client_host,
        "client_id": member.client_id,
        "assignment": [tp._asdict() for tp in sorted(member.assignment)],
        "current_epoch": member.member_epoch,
        "target_epoch": group.target_assignment_epoch,
        "target_assignment": None if target is None else [tp._asdict() for tp in sorted(target)],
        "upgraded": member.upgraded,
    }


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as `topic:0,1;other:2`; `-` if there are none."""
    by_topic: dict[str, list[str]] = {}
    for tp in sorted(partitions):
        by_topic.setdefault(tp.topic, []).append(str(tp.partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()) or "-"


def _warn_if_inactive(output: Output, group: GroupDescription) -> None:
    if output.as_json:
        return
    if group.state == "Empty":
        output.warn(f"\nConsumer group '{group.group_id}' has no active members.")
    elif group.state in ("PreparingRebalance", "CompletingRebalance"):
        output.warn(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
