"""`consumer-groups --reset-offsets`: computes the new offsets of groups, prints them and, with `--execute`, commits
them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.cli.consumer_groups import reset_plan as resets
from ottla.cli.consumer_groups.reset_plan import Offsets, Plan
from ottla.cli.framework.options import Flag, Option, flag_name, is_set
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import ConfigurationError, LeaderNotAvailableError, UnknownTopicOrPartitionError
from ottla.model import TopicPartition

SPECS: Final = (
    *("to_offset", "shift_by", "to_datetime", "by_duration"),
    *("to_earliest", "to_latest", "to_current", "from_file"),
)
"""The options that determine the new offsets. `read` requires exactly one of them."""
TIMEOUT_MS: Final = 5000
"""The default timeout of a request in milliseconds."""
INACTIVE: Final = ("Empty", "Dead")
NOTHING_DONE: Final = (
    "WARN: No action will be performed as the --execute option is missing. "
    "In version 5.0, this command will require either --dry-run or --execute to be specified. "
    "You should add the --dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting."
)
"""Kafka 4.3's warning if neither --dry-run nor --execute is set."""


_ACTION: Final = "reset-offsets"
OPTIONS: Final = (
    Flag("--all-topics", "reset all partitions for which the group has committed offsets", actions=_ACTION),
    Flag("--to-earliest", "reset to the earliest offset of each partition", actions=_ACTION),
    Flag("--to-latest", "reset to the end of each partition", actions=_ACTION),
    Flag("--to-current", "reset to the committed offset, or to the latest if there is none", actions=_ACTION),
    Option(
        "--to-datetime YYYY-MM-DDTHH:mm:SS.sss[Z]",
        "reset to the first record at or after a time (UTC, unless a time zone such as +02:00 follows), or to the "
        "latest offset if there is none",
        actions=_ACTION,
    ),
    Option(
        "--by-duration PnDTnHnMnS",
        "reset to the first record within this duration before now, such as P7D or PT1H30M, or to the latest offset if "
        "there is none",
        actions=_ACTION,
    ),
    Option(
        "--to-offset N",
        "reset to offset N, limited to the range from the earliest to the latest offset",
        int,
        actions=_ACTION,
    ),
    Option(
        "--shift-by N",
        "add N, which may be negative, to the committed offsets; the result is limited to the range from the earliest "
        "to the latest offset",
        int,
        actions=_ACTION,
    ),
    Option(
        "--from-file CSV",
        "reset to the offsets in a CSV file, as written by --export: group,topic,partition,offset, or without the "
        "group if there is one --group",
        actions=_ACTION,
    ),
    Flag("--dry-run", "print the new offsets without changing anything (the default)", actions=_ACTION),
    Flag("--execute", "commit the new offsets", actions=_ACTION),
    Flag("--export", "print the new offsets as CSV for --from-file; not with --json", actions=_ACTION),
)
"""Options of --reset-offsets that other actions do not accept."""


class ResetRequest(NamedTuple):
    """The checked options of --reset-offsets: the arguments, and the values that are parsed from them."""

    args: argparse.Namespace
    partitions: list[TopicPartition]
    topics: list[str]
    time_ms: int | None
    file: Plan

    @property
    def timeout_ms(self) -> int:
        """The timeout of a request in milliseconds."""
        return int(self.args.timeout)


def read(args: argparse.Namespace) -> ResetRequest:
    """Parse and check the options. Raises ConfigurationError if they contradict each other, if one is missing or
    invalid, or if the file of `--from-file` cannot be read.
    """
    if args.dry_run and args.execute:
        raise ConfigurationError("--reset-offsets takes only one of --execute and --dry-run")
    if args.group and args.all_groups:
        raise ConfigurationError("--group cannot be used with --all-groups")
    if args.export and args.json:
        raise ConfigurationError("--export cannot be used with --json")
    if sum(is_set(args, spec) for spec in SPECS) != 1:
        raise ConfigurationError(f"--reset-offsets takes one of {', '.join(map(flag_name, SPECS))}")
    if args.topic and args.all_topics:
        raise ConfigurationError("--topic cannot be used with --all-topics")
    if not args.topic and not args.all_topics and args.from_file is None:
        raise ConfigurationError("One of the reset scopes should be defined: --all-topics, --topic.")
    partitions, topics = resets.scope(args.topic)
    return ResetRequest(args, partitions, topics, _time(args), _file(args))


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


def reset(admin: KafkaAdminClient, groups: list[str], request: ResetRequest, output: Output) -> dict[str, Any]:
    """Compute the new offsets, commit them with --execute, and print them. The exit code is 0 even if a group is
    rejected, as with Kafka's tool.
    """
    args = request.args
    if not args.dry_run and not args.execute:
        output.warn(NOTHING_DONE)
    # The whole plan comes first: if it fails for one group, no group is changed.
    plan, rejected = _plan(admin, list(dict.fromkeys(groups)), request)
    if args.execute:
        for group, offsets in plan.items():
            if offsets:
                admin.alter_consumer_group_offsets(group, offsets, request.timeout_ms)
    output.text(*(f"\nError: {reason}" for reason in rejected.values()))
    output.text(resets.exported(plan, alone=len(args.group) == 1) if args.export else resets.table(plan))
    errors = [{"group": group, "message": reason} for group, reason in rejected.items()]
    return {"offsets": resets.as_rows(plan), "errors": errors}


def _plan(admin: KafkaAdminClient, groups: list[str], request: ResetRequest) -> tuple[Plan, dict[str, str]]:
    plan: Plan = {}
    rejected: dict[str, str] = {}
    descriptions = admin.describe_consumer_groups(groups, request.timeout_ms) if groups else {}
    for group in groups:
        plan[group] = {}
        state = descriptions[group].state
        if state not in INACTIVE:
            rejected[group] = (
                f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
            )
        elif request.args.from_file is not None and group not in request.file:
            rejected[group] = f"No reset plan for group {group} found."
        else:
            plan[group] = new_offsets(admin, group, request)
    return plan, rejected


def new_offsets(admin: KafkaAdminClient, group: str, request: ResetRequest) -> Offsets:
    """Return the new offsets of one group, by partition. Raises a KafkaError such as UnknownTopicOrPartitionError if a
    partition cannot be reset.
    """
    return _Resetter(admin, group, request).offsets()


def check_partitions(admin: KafkaAdminClient, partitions: Collection[TopicPartition], timeout_ms: int) -> None:
    """Raise UnknownTopicOrPartitionError if a partition does not exist, or LeaderNotAvailableError if one has no
    leader.
    """
    topics = {tp.topic for tp in partitions}
    infos = admin.describe_topics(topics, timeout_ms) if topics else {}
    leaders = {TopicPartition(t.name, p.partition): p.leader for t in infos.values() for p in t.partitions}
    unknown = [str(tp) for tp in partitions if tp not in leaders]
    if unknown:
        raise UnknownTopicOrPartitionError(f'The partitions "{",".join(unknown)}" do not exist')
    leaderless = [str(tp) for tp in partitions if leaders[tp] < 0]
    if leaderless:
        raise LeaderNotAvailableError(f'The partitions "{",".join(leaderless)}" have no leader')


class _Resetter:
    """Computes the new offsets of one group."""

    def __init__(self, admin: KafkaAdminClient, group: str, request: ResetRequest) -> None:
        self._admin = admin
        self._group = group
        self._request = request

    def offsets(self) -> Offsets:
        args = self._request.args
        if args.from_file is not None:
            offsets = self._request.file[self._group]
            check_partitions(self._admin, offsets, self._request.timeout_ms)
            return self._within_log(offsets)
        partitions = self._partitions()
        if args.to_offset is not None:
            return self._within_log(dict.fromkeys(partitions, args.to_offset))
        if args.shift_by is not None:
            return self._within_log(resets.shifted(partitions, self._committed(), args.shift_by))
        if self._request.time_ms is not None:
            return self._since(partitions, self._request.time_ms)
        if args.to_current:
            committed = self._committed()
            late = self._listed([tp for tp in partitions if tp not in committed], OffsetSpec.latest())
            return late | {tp: committed[tp] for tp in partitions if tp in committed}
        return self._listed(partitions, OffsetSpec.earliest() if args.to_earliest else OffsetSpec.latest())

    def _partitions(self) -> list[TopicPartition]:
        if self._request.args.all_topics:
            partitions = sorted(self._committed())
        else:
            topics = self._request.topics
            infos = self._admin.describe_topics(topics, self._request.timeout_ms) if topics else {}
            whole = [TopicPartition(topic.name, p.partition) for topic in infos.values() for p in topic.partitions]
            partitions = list(dict.fromkeys([*self._request.partitions, *whole]))
        check_partitions(self._admin, partitions, self._request.timeout_ms)
        return partitions

    def _committed(self) -> Offsets:
        committed = self._admin.list_consumer_group_offsets(self._group, None, self._request.timeout_ms)
        return {tp: entry.offset for tp, entry in committed.items()}

    def _listed(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> Offsets:
        listed = self._admin.list_offsets(dict.fromkeys(partitions, spec), self._request.timeout_ms)
        return {tp: entry.offset for tp, entry in listed.items()}

    def _since(self, partitions: Collection[TopicPartition], time_ms: int) -> Offsets:
        offsets = self._listed(partitions, OffsetSpec.for_timestamp(time_ms))
        late = [tp for tp, offset in offsets.items() if offset < 0]
        for tp in late:
            out = sys.stderr if self._request.args.json or self._request.args.export else sys.stdout
            text = f"Partition {tp.partition} from topic {tp.topic} is empty. Falling back to latest known offset."
            print(f"\nWarn: {text}", file=out)
        return offsets | self._listed(late, OffsetSpec.latest())

    def _within_log(self, offsets: Offsets) -> Offsets:
        first, end = (self._listed(offsets, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        new, warnings = resets.clamped(offsets, first, end)
        for warning in warnings:
            print(f"WARN {warning}", file=sys.stderr)
        return new
