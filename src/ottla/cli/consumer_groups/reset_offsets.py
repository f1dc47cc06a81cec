"""`consumer-groups --reset-offsets`: asks brokers what a plan needs, and carries it out where that is wanted."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from ottla.cli.consumer_groups import reset_plan as resets
from ottla.cli.consumer_groups.reset_plan import Offsets, Plan
from ottla.cli.framework.connection import as_typed, is_given
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.offsets import OffsetSpec
from ottla.errors import ConfigurationError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition

SPECS: Final = (
    *("to_offset", "shift_by", "to_datetime", "by_duration"),
    *("to_earliest", "to_latest", "to_current", "from_file"),
)
"""What the new offsets are; one of them."""
OPTIONS: Final = (*SPECS, "all_topics", "dry_run", "execute", "export")
"""Options of this action alone."""
TIMEOUT_MS: Final = 5000
INACTIVE: Final = ("Empty", "Dead")
NOTHING_DONE: Final = (
    "WARN: No action will be performed as the --execute option is missing. "
    "In version 5.0, this command will require either --dry-run or --execute to be specified. "
    "You should add the --dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
"""As Kafka 4.3 has it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that only `--reset-offsets` has."""
    parser.add_argument("--all-topics", action="store_true", help="all that the group has offsets of")
    parser.add_argument("--to-earliest", action="store_true", help="to the first offset")
    parser.add_argument("--to-latest", action="store_true", help="to the end")
    parser.add_argument("--to-current", action="store_true", help="to what is committed, or the end")
    parser.add_argument("--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss[Z]", help="to the first record of that time")
    parser.add_argument("--by-duration", metavar="PnDTnHnMnS", help="to the first record since so long ago")
    parser.add_argument("--to-offset", type=int, metavar="N", help="to an offset")
    parser.add_argument("--shift-by", type=int, metavar="N", help="so many offsets on, or back")
    parser.add_argument("--from-file", metavar="CSV", help="to the offsets of a file, as --export writes it")
    parser.add_argument("--dry-run", action="store_true", help="only tell the new offsets (the default)")
    parser.add_argument("--execute", action="store_true", help="set them")
    parser.add_argument("--export", action="store_true", help="tell them as CSV")


class Request(NamedTuple):
    """What was asked for, with its texts read."""

    args: argparse.Namespace
    partitions: list[TopicPartition]
    topics: list[str]
    time_ms: int | None
    file: Plan

    @property
    def timeout_ms(self) -> int:
        """How long an answer may take."""
        return TIMEOUT_MS if self.args.timeout is None else int(self.args.timeout)


def read(args: argparse.Namespace) -> Request:
    """Check the options before anybody is asked. ConfigurationError where they do not fit together."""
    if args.dry_run and args.execute:
        raise ConfigurationError("--reset-offsets takes only one of --execute and --dry-run")
    if args.group and args.all_groups:
        raise ConfigurationError("--group cannot be used with --all-groups")
    if args.export and args.json:
        raise ConfigurationError("--export cannot be used with --json")
    given = [spec for spec in SPECS if is_given(args, spec)]
    if len(given) != 1:
        raise ConfigurationError(f"--reset-offsets takes one of {', '.join(map(as_typed, SPECS))}")
    if args.topic and args.all_topics:
        raise ConfigurationError("--topic cannot be used with --all-topics")
    if not args.topic and not args.all_topics and args.from_file is None:
        raise ConfigurationError("One of the reset scopes should be defined: --all-topics, --topic.")
    partitions, topics = resets.scope(args.topic)
    return Request(args, partitions, topics, _time(args), _file(args))


def _time(args: argparse.Namespace) -> int | None:
    if args.to_datetime is not None:
        return resets.time_of(args.to_datetime)
    return None if args.by_duration is None else int(time.time() * 1000) - resets.duration_ms(args.by_duration)


def _file(args: argparse.Namespace) -> Plan:
    if args.from_file is None:
        return {}
    try:
        text = Path(args.from_file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--from-file {args.from_file}: {error}") from None
    return resets.read_plan(args.from_file, text, args.group)


def reset(admin: KafkaAdminClient, groups: list[str], request: Request) -> int:
    """`--reset-offsets`; 0 also where a group is refused, which is told, as Kafka's tool has it."""
    args = request.args
    if not args.dry_run and not args.execute:
        print(NOTHING_DONE, file=sys.stderr)
    # All is planned before anything is done: what is wrong with one group leaves the others as they are.
    plan, refused = _planned(admin, list(dict.fromkeys(groups)), request)
    if args.execute:
        for group, offsets in plan.items():
            if offsets:
                admin.alter_consumer_group_offsets(group, offsets, request.timeout_ms)
    if args.json:
        errors = [{"group": group, "message": why} for group, why in refused.items()]
        print(json.dumps({"offsets": resets.as_rows(plan), "errors": errors}))
        return 0
    for why in refused.values():
        print(f"\nError: {why}")
    print(resets.exported(plan, alone=len(args.group) == 1) if args.export else resets.table(plan))
    return 0


def _planned(admin: KafkaAdminClient, groups: list[str], request: Request) -> tuple[Plan, dict[str, str]]:
    plan: Plan = {}
    refused: dict[str, str] = {}
    described = admin.describe_consumer_groups(groups, request.timeout_ms) if groups else {}
    for group in groups:
        plan[group] = {}
        state = described[group].state
        if state not in INACTIVE:
            refused[group] = (
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
        elif request.args.from_file is not None and group not in request.file:
            refused[group] = f"No reset plan for group {group} found."
        else:
            plan[group] = _Resetter(admin, group, request).offsets()
    return plan, refused


class _Resetter:
    """The new offsets of one group."""

    def __init__(self, admin: KafkaAdminClient, group: str, request: Request) -> None:
        self._admin = admin
        self._group = group
        self._request = request

    def offsets(self) -> Offsets:
        args = self._request.args
        if args.from_file is not None:
            wanted = self._request.file[self._group]
            self._check(wanted)
            return self._within(wanted)
        partitions = self._partitions()
        if args.to_offset is not None:
            return self._within(dict.fromkeys(partitions, args.to_offset))
        if args.shift_by is not None:
            return self._within(resets.shifted(partitions, self._committed(), args.shift_by))
        if self._request.time_ms is not None:
            return self._since(partitions, self._request.time_ms)
        if args.to_current:
            committed = self._committed()
            late = self._listed([tp for tp in partitions if tp not in committed], OffsetSpec.latest())
            return late | {tp: committed[tp] for tp in partitions if tp in committed}
        return self._listed(partitions, OffsetSpec.earliest() if args.to_earliest else OffsetSpec.latest())

    def _partitions(self) -> list[TopicPartition]:
        if self._request.args.all_topics:
            found = sorted(self._committed())
        else:
            topics = self._request.topics
            described = self._admin.describe_topics(topics, self._request.timeout_ms) if topics else {}
            whole = [TopicPartition(topic.name, p.partition) for topic in described.values() for p in topic.partitions]
            found = list(dict.fromkeys([*self._request.partitions, *whole]))
        self._check(found)
        return found

    def _check(self, partitions: Collection[TopicPartition]) -> None:
        """Raises UnknownTopicOrPartitionError or LeaderNotAvailableError."""
        topics = {tp.topic for tp in partitions}
        described = self._admin.describe_topics(topics, self._request.timeout_ms) if topics else {}
        leaders = {TopicPartition(t.name, p.partition): p.leader for t in described.values() for p in t.partitions}
        unknown = [str(tp) for tp in partitions if tp not in leaders]
        if unknown:
            raise UnknownTopicOrPartitionError(f'The partitions "{",".join(unknown)}" do not exist')
        leaderless = [str(tp) for tp in partitions if leaders[tp] < 0]
        if leaderless:
            raise LeaderNotAvailableError(f'The partitions "{",".join(leaderless)}" have no leader')

    def _committed(self) -> Offsets:
        committed = self._admin.list_consumer_group_offsets(self._group, None, self._request.timeout_ms)
        return {tp: place.offset for tp, place in committed.items()}

    def _listed(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Offsets:
        listed = self._admin.list_offsets(dict.fromkeys(partitions, spec), self._request.timeout_ms)
        return {tp: place.offset for tp, place in listed.items()}

    def _since(self, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
        found = self._listed(partitions, OffsetSpec.for_timestamp(time_ms))
        late = [tp for tp, offset in found.items() if offset < 0]
        for tp in late:
            out = sys.stderr if self._request.args.json or self._request.args.export else sys.stdout
            what = f"Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest known offset."
            print(f"\nWarn: {what}", file=out)
        return found | self._listed(late, OffsetSpec.latest())

    def _within(self, wanted: Offsets) -> Offsets:
        first, end = (self._listed(wanted, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        new, warnings = resets.clamped(wanted, first, end)
        for warning in warnings:
            print(f"WARN {warning}", file=sys.stderr)
        return new
