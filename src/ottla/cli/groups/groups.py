"""List groups of all types (classic, consumer, share and streams groups), as kafka-groups.sh does."""

from __future__ import annotations

import argparse
from typing import Any, Final

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, OneOf, Option
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.groups.group_descriptions import CONSUMER, GroupListing, GroupType

COLUMN: Final = 20
"""The minimum width of a column in characters, as in Kafka's tool."""


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, str]]:
    """Print the groups that the options select, with their types and protocols, and return them for JSON."""
    groups = [group for group in admin.list_groups() if _is_shown(group, args)]
    rows: list[tuple[str, ...]] = [("GROUP", "TYPE", "PROTOCOL")]
    rows += [(group.group_id, group.group_type.capitalize(), group.protocol_type) for group in groups]
    output.text(*_table(rows))
    return [{"group": g.group_id, "type": g.group_type.capitalize(), "protocol": g.protocol_type} for g in groups]


def _is_shown(group: GroupListing, args: argparse.Namespace) -> bool:
    kind = group.group_type.lower()
    if args.consumer:
        # Groups of consumers with either protocol; those that only commit offsets have no protocol type.
        shown = kind == GroupType.CONSUMER or (kind == GroupType.CLASSIC and group.protocol_type in (CONSUMER, ""))
    else:
        chosen = GroupType.SHARE if args.share else GroupType.STREAMS if args.streams else args.group_type
        shown = chosen is None or kind == chosen
    return shown and (args.protocol is None or group.protocol_type == args.protocol)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(COLUMN, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
    lines = [" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [lines[0], *(f"{line} " for line in lines[1:])]  # with the space at the end of Kafka's rows


def _group_type(text: str) -> Any:
    return GroupType(text.lower())


COMMAND = AdminCommand(
    actions=(Action("list", "list groups", list_),),
    options=(
        *connection(),
        OneOf(
            Flag("--consumer", "list only groups of consumers, with the classic or the consumer group protocol"),
            Flag("--share", "list only share groups"),
            Flag("--streams", "list only streams groups"),
            Option(
                "--group-type TYPE",
                f"only groups of a type: {', '.join(GroupType)}",
                _group_type,
            ),
            required=False,
        ),
        Option("--protocol", "list only groups of a protocol type, such as consumer, share or connect (default: all)"),
        JSON,
    ),
)
