"""List, describe and delete streams groups, reset and delete their offsets, as kafka-streams-groups.sh does."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.consumer_groups import reset_offsets as resets
from ottla.cli.consumer_groups.delete_offsets import delete_partitions
from ottla.cli.consumer_groups.reset_plan import Plan, as_rows, exported, scope
from ottla.cli.consumer_groups.streams_application_reset import INTERNAL
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action
from ottla.cli.framework.connection import connection
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable
from ottla.cli.framework.output import Output, columns, coordinator_of
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.groups.streams_groups import (
    StreamsGroupDescription,
    StreamsGroupMember,
    StreamsTasks,
    Tasks,
)
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import (
    ConfigurationError,
    GroupIdNotFoundError,
    KafkaError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from ottla.model import Node, TopicPartition

STATES: Final = ("Empty", "NotReady", "Stable", "Assigning", "Reconciling", "Dead")
"""The states of streams groups, which `--list --state` accepts."""
ERROR: Final = "Error: Executing streams group command failed due to {}"
_MIN: Final = 15
_RESET, _DELETE = "reset-offsets", "delete"


class PartitionRow(NamedTuple):
    """A partition that the group reads. `current_offset` and `leader_epoch` are None without a committed offset,
    `leader_epoch` also if that offset has none.
    """

    topic: str
    partition: int
    current_offset: int | None
    leader_epoch: int | None
    log_end_offset: int
    lag: int


def _states(args: argparse.Namespace) -> list[str]:
    """Return the states of --state with Kafka's names. Raises ConfigurationError for an unknown state, or if --state
    has a value with an action other than --list.
    """
    texts = [text.strip() for text in (args.state or "").split(",") if text.strip()]
    if texts and args.action != "list":
        raise ConfigurationError(f"--state takes no value with --{args.action}")
    valid = {state.lower(): state for state in STATES}
    if any(text.lower() not in valid for text in texts):
        raise ConfigurationError(f"Invalid state list '{args.state}'. Valid states are: {', '.join(STATES)}")
    return [valid[text.lower()] for text in texts]


def _check(args: argparse.Namespace) -> None:
    _states(args)
    if args.group and args.all_groups:
        raise ConfigurationError("--group cannot be used with --all-groups")
    if args.action != "list" and not (args.group or args.all_groups):
        raise ConfigurationError(f"--{args.action} takes one of --all-groups, --group")
    if sum((args.members, args.offsets, args.state is not None and args.action == "describe")) > 1:
        raise ConfigurationError("--describe takes at most one of --members, --offsets, --state")
    if args.input_topic and args.all_input_topics:
        raise ConfigurationError("--input-topic cannot be used with --all-input-topics")


def _check_delete_offsets(args: argparse.Namespace) -> None:
    if len(args.group) != 1 or args.all_groups or not (args.input_topic or args.all_input_topics):
        raise ConfigurationError("--delete-offsets takes one --group, and one of --all-input-topics, --input-topic")
    scope(args.input_topic)


def _check_reset(args: argparse.Namespace) -> None:
    if args.dry_run == args.execute:
        raise ConfigurationError("--reset-offsets takes one of --execute and --dry-run")
    if (args.delete_all_internal_topics or args.delete_internal_topic) and not args.execute:
        raise ConfigurationError("internal topics are only deleted with --execute")
    _request(args)


def _request(args: argparse.Namespace) -> resets.ResetRequest:
    """Convert the options to those of `consumer-groups --reset-offsets`, where --input-topic is named --topic."""
    named = vars(args) | {"topic": args.input_topic, "all_topics": args.all_input_topics}
    return resets.read(argparse.Namespace(**named))


def _groups(admin: KafkaAdminClient, args: argparse.Namespace) -> list[str]:
    if args.all_groups:
        return [group.group_id for group in admin.list_streams_groups(args.timeout)]
    return list(dict.fromkeys(args.group))


def list_(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the streams groups, and return them for JSON. `--state` adds their states. Its value, if any, contains the
    states of the groups to select.
    """
    groups = sorted(admin.list_streams_groups(args.timeout, _states(args)))
    if args.state is None:
        output.text(*(group.group_id for group in groups))
    else:
        output.text(*columns(("GROUP", "STATE"), ((g.group_id, g.state) for g in groups), [_MIN]))
    return [{"group_id": g.group_id, "state": g.state} for g in groups]


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the lag of each group, its members and their tasks with `--members`, or its state with `--state`. For a
    group without members, no lag is printed.
    """
    groups = _groups(admin, args)
    descriptions = admin.describe_streams_groups(groups, args.timeout) if groups else {}
    nodes = admin.describe_cluster(args.timeout).nodes if args.state is not None else ()
    document = []
    for group_id in groups:
        group = descriptions[group_id]
        fields: dict[str, Any] = {"group": group.group_id, "state": group.state}
        if args.members:
            fields["members"] = [_member_as_json(member) for member in group.members]
            _print_members(output, group, verbose=args.verbose)
        elif args.state is not None:
            fields |= _print_state(output, group, nodes, verbose=args.verbose)
        else:
            rows = _offset_rows(admin, group, args.timeout) if group.members else []
            fields["offsets"] = [row._asdict() for row in rows]
            _print_offsets(output, group, rows, verbose=args.verbose)
        document.append(fields)
    return document


def _offset_rows(admin: KafkaAdminClient, group: StreamsGroupDescription, timeout_ms: float) -> list[PartitionRow]:
    """Return the rows of the active tasks' partitions. The lag is counted from the committed offset or, without one,
    from the earliest offset.
    """
    read = sorted({tp for member in group.members for tp in group.partitions_of(member)})
    earliest, latest = (
        admin.list_offsets(dict.fromkeys(read, spec), timeout_ms)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    committed = admin.list_streams_group_offsets(group.group_id, None, timeout_ms)
    rows = []
    for tp in read:
        current, end = committed.get(tp), latest[tp].offset
        since = earliest[tp].offset if current is None else current.offset
        epoch = None if current is None or current.leader_epoch < 0 else current.leader_epoch
        rows.append(PartitionRow(*tp, None if current is None else current.offset, epoch, end, end - since))
    return rows


def _print_offsets(output: Output, group: StreamsGroupDescription, rows: list[PartitionRow], *, verbose: bool) -> None:
    if not group.members:
        return
    if verbose:
        header = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG")
        table = [(group.group_id, *row) for row in rows]
        # the last column is padded, too
        padded = columns((*header, ""), ((*row, "") for row in table), [_MIN, _MIN, 10, _MIN, _MIN, _MIN, _MIN])
        output.text(*(line[:-1] for line in padded))
    else:
        short = ((group.group_id, row.topic, row.partition, row.lag) for row in rows)
        output.text(*columns(("GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"), short, [_MIN, _MIN, 10]))


def _print_members(output: Output, group: StreamsGroupDescription, *, verbose: bool) -> None:
    if not group.members:
        return
    if not verbose:
        rows = [(group.group_id, m.member_id, m.process_id, m.client_id, _shown(m.assignment)) for m in group.members]
        output.text(*columns(("GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"), rows, [_MIN] * 4))
        return
    header = (
        *("GROUP", "TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER", "MEMBER-PROTOCOL", "MEMBER-EPOCH"),
        *("PROCESS", "CLIENT-ID", "ASSIGNMENTS"),
    )
    table = [_verbose_row(group, member) for member in group.members]
    lines = columns(header, table, [_MIN, 25, _MIN, *[_MIN] * 5])
    # Kafka's tool leaves out the space after this column
    cut = max(_MIN, len(group.group_id)) + 1 + 25 + 1 + _MIN
    output.text(*(line[:cut] + line[cut + 1 :] for line in lines))


def _verbose_row(group: StreamsGroupDescription, member: StreamsGroupMember) -> tuple[object, ...]:
    return (
        *(group.group_id, group.target_assignment_epoch, group.topology_epoch, member.member_id),
        *("classic" if member.is_classic else "streams", member.member_epoch, member.process_id, member.client_id),
        _shown(member.assignment) + _shown(member.target_assignment, "TARGET-"),
    )


def _shown(tasks: StreamsTasks, prefix: str = "") -> str:
    return "".join(f"{prefix}{role.upper()}: {_listed(some)}" for role, some in tasks._asdict().items() if some)


def _listed(tasks: Tasks) -> str:
    return "".join(f"{name}:[{','.join(map(str, partitions))}]; " for name, partitions in tasks.items())


def _member_as_json(member: StreamsGroupMember) -> dict[str, Any]:
    fields = member._asdict()
    return fields | {
        "client_tags": dict(member.client_tags),
        "assignment": member.assignment._asdict(),
        "target_assignment": member.target_assignment._asdict(),
    }


def _print_state(
    output: Output, group: StreamsGroupDescription, nodes: Iterable[Node], *, verbose: bool
) -> dict[str, Any]:
    if group.state == "Empty":
        output.text(f"\nError: Streams group '{group.group_id}' has no active members.")
    address, coordinator = coordinator_of(group, nodes)
    epochs: Mapping[str, int] = {
        "GROUP-EPOCH": group.group_epoch,
        "TARGET-ASSIGNMENT-EPOCH": group.target_assignment_epoch,
    }
    shown = epochs if verbose else {}
    header = ["GROUP", "COORDINATOR (ID)", "STATE", *shown, "#MEMBERS"]
    row = (group.group_id, f"{address} ({group.coordinator_id})", group.state, *shown.values(), len(group.members))
    output.text(*columns(header, [row], [_MIN, 25, 25, *([_MIN, 25] if verbose else [])]))
    return {
        "coordinator": coordinator,
        "members": len(group.members),
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.target_assignment_epoch,
    }


def delete(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete groups without members and, with `--delete-all-internal-topics`, their internal topics. The exit code is 0
    even if some are rejected, as with Kafka's tool.
    """
    groups = _groups(admin, args)
    failed = _undeletable(admin, groups, args.timeout)
    deletable = [group for group in groups if group not in failed]
    internal: dict[str, list[str]] = {}
    if deletable and args.delete_all_internal_topics:
        internal = _internal_topics(admin, deletable, args.timeout, output)
    failures: dict[Any, KafkaError] = {}
    admin.delete_streams_groups(deletable, args.timeout, errors=failures)
    failed |= {group: f"{java_class(error)}: {error}" for group, error in failures.items()}
    deleted = [group for group in groups if group not in failed]
    topic_errors = _delete_topics_of(admin, {g: internal[g] for g in deleted if g in internal}, args.timeout, output)
    names = "', '".join(deleted)
    if not failed:
        output.text(f"Deletion of requested streams groups ('{names}') was successful.")
    else:
        output.text("\nError: Deletion of some streams groups failed:")
        output.text(*(f"* Group '{group}' could not be deleted due to: {reason}" for group, reason in failed.items()))
        if deleted:
            output.text(f"\nThese streams groups were deleted successfully: '{names}'.")
    if internal and deleted:
        _print_deleted_topics(output, [group for group in deleted if group in internal], topic_errors)
    return {"deleted": deleted, "errors": [{"group": g, "message": reason} for g, reason in failed.items()]}


def _undeletable(admin: KafkaAdminClient, groups: list[str], timeout_ms: float) -> dict[str, str]:
    """Return the reasons why groups cannot be deleted, in the words of Kafka's tool: a group is not a streams group, or
    is not empty.
    """
    states = {group.group_id: group.state for group in admin.list_streams_groups(timeout_ms)}
    failed = {}
    for group in groups:
        if group not in states:
            reason = f"Group '{group}' does not exist or is not a streams group."
            failed[group] = f"java.lang.IllegalArgumentException: {reason}"
        elif states[group] != "Empty":
            failed[group] = f"{java_class(NonEmptyGroupError())}: Streams group '{group}' is not EMPTY."
    return failed


def _internal_topics(
    admin: KafkaAdminClient, groups: list[str], timeout_ms: float, output: Output
) -> dict[str, list[str]]:
    """Return the internal topics to delete, by group. Topics whose names Kafka Streams would not give to the group's
    internal topics are reported and left out.
    """
    internal: dict[str, list[str]] = {}
    for group in admin.describe_streams_groups(groups, timeout_ms).values():
        sources = {topic for s in group.subtopologies for topic in s.source_topics}
        topics = {
            topic for s in group.subtopologies for topic in (*s.repartition_source_topics, *s.state_changelog_topics)
        }
        own = []
        for topic in sorted(topics - sources):
            if topic.startswith(f"{group.group_id}-") and INTERNAL.fullmatch(topic):
                own.append(topic)
            else:
                output.text(
                    f"\nError: The internal topic '{topic}' is not inferred as internal and thus will not be deleted "
                    f"with the group '{group.group_id}'."
                )
        if own:
            internal[group.group_id] = own
    return internal


def _delete_topics_of(
    admin: KafkaAdminClient, topics: Mapping[str, list[str]], timeout_ms: float, output: Output
) -> dict[str, KafkaError]:
    """Delete internal topics, and print those that cannot be deleted. Return the first error of each group that has
    one.
    """
    first: dict[str, KafkaError] = {}
    for group, names in topics.items():
        failed: dict[Any, KafkaError] = {}
        admin.delete_topics(names, timeout_ms, errors=failed)
        output.text(*(f"Failed to delete internal topic: {topic}" for topic in failed))
        if failed:
            first[group] = next(iter(failed.values()))
    return first


def _print_deleted_topics(output: Output, groups: list[str], errors: Mapping[str, KafkaError]) -> None:
    if not errors:
        names = "', '".join(groups)
        output.text(f"Deletion of associated internal topics of the streams groups ('{names}') was successful.")
        return
    output.text("Deletion of some associated internal topics failed:")
    output.text(
        *(
            f"* Internal topics of the streams group '{group}' could not be deleted due to: {java_class(e)}: {e}"
            for group, e in errors.items()
        )
    )


def delete_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete the group's committed offsets of input topics. The exit code is 0 even if some are rejected, as with
    Kafka's tool.
    """
    (group,) = args.group
    unknown: dict[Any, KafkaError] = {}
    if args.all_input_topics:
        partitions = _input_partitions(admin, group, args.timeout)
    else:
        partitions, topics = scope(args.input_topic)
        infos = admin.describe_topics(topics, args.timeout, errors=unknown) if topics else {}
        partitions += [TopicPartition(topic.name, p.partition) for topic in infos.values() for p in topic.partitions]
    return delete_partitions(admin, group, partitions, unknown, args.timeout, output)


def _input_partitions(admin: KafkaAdminClient, group_id: str, timeout_ms: float) -> list[TopicPartition]:
    """Return those partitions of the source topics for which the group has a committed offset."""
    group = admin.describe_streams_groups([group_id], timeout_ms)[group_id]
    sources = {topic for s in group.subtopologies for topic in s.source_topics}
    committed = admin.list_streams_group_offsets(group_id, None, timeout_ms)
    return sorted(tp for tp in committed if tp.topic in sources)


def reset_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Compute the new offsets, commit them with `--execute`, and print them. The exit code is 0 even if a group is
    rejected, as with Kafka's tool.
    """
    request = _request(args)
    plan: Plan = {}
    rejected: dict[str, str] = {}
    for group in _groups(admin, args):
        plan[group] = {}
        reason = _not_resettable(admin, group, request)
        if reason is not None:
            rejected[group] = reason
            continue
        scoped = _scoped(admin, group, request)
        if scoped is None:
            rejected[group] = f"One or more topics are not part of the group '{group}'."
        else:
            plan[group] = resets.new_offsets(admin, group, scoped)
    output.text(*(f"\nError: {reason}" for reason in rejected.values()))
    if args.execute:
        for group, offsets in plan.items():
            _execute(admin, group, offsets, args, output, internal=group not in rejected)
    output.text(exported(plan, alone=len(args.group) == 1) if args.export else _table(plan))
    errors = [{"group": group, "message": reason} for group, reason in rejected.items()]
    return {"offsets": as_rows(plan), "errors": errors}


def _not_resettable(admin: KafkaAdminClient, group: str, request: resets.ResetRequest) -> str | None:
    try:
        state = admin.describe_streams_groups([group], request.timeout_ms)[group].state
    except GroupIdNotFoundError:
        state = "Dead"
    if state not in resets.INACTIVE:
        return f"Assignments can only be reset if the group '{group}' is inactive, but the current state is {state}."
    if request.args.from_file is not None and group not in request.file:
        return f"No reset plan for group {group} found"
    return None


def _scoped(admin: KafkaAdminClient, group: str, request: resets.ResetRequest) -> resets.ResetRequest | None:
    """Return the request with the partitions of one group; unchanged with --from-file. Return None if the group has no
    committed offset for one of the partitions.
    """
    args = request.args
    if args.from_file is not None:
        return request
    if args.all_input_topics:
        partitions = _input_partitions(admin, group, request.timeout_ms)
    else:
        infos = admin.describe_topics(request.topics, request.timeout_ms) if request.topics else {}
        whole = [TopicPartition(topic.name, p.partition) for topic in infos.values() for p in topic.partitions]
        partitions = list(dict.fromkeys([*request.partitions, *whole]))
        resets.check_partitions(admin, partitions, request.timeout_ms)
        committed = admin.list_streams_group_offsets(group, None, request.timeout_ms)
        if any(tp not in committed for tp in partitions):
            return None
    scoped = argparse.Namespace(**(vars(args) | {"all_topics": False}))
    return request._replace(args=scoped, partitions=partitions, topics=[])


def _execute(
    admin: KafkaAdminClient,
    group: str,
    offsets: Mapping[TopicPartition, int],
    args: argparse.Namespace,
    output: Output,
    *,
    internal: bool,
) -> None:
    """Commit the new offsets of one group. With `internal`, also delete the topics that the options select."""
    if offsets:
        admin.alter_streams_group_offsets(group, offsets, args.timeout)
    topics = list(args.delete_internal_topic)
    if args.delete_all_internal_topics and internal:
        topics += [t for t in _internal_topics(admin, [group], args.timeout, output).get(group, []) if t not in topics]
    if not topics or not internal:
        return
    failed: dict[Any, KafkaError] = {}
    admin.delete_topics(topics, args.timeout, errors=failed)
    for error in list(failed.values())[:1]:
        reason = f"due to {error}"
        if isinstance(error, UnknownTopicOrPartitionError):
            reason = "because the topics do not exist."
        output.text(f"\nError: Deleting internal topics for group '{group}' failed {reason}")


def _table(plan: Plan) -> str:
    """Return the new offsets as a table, like that of Kafka's tool, whose columns have fixed minimum widths."""
    rows = [(group, tp.topic, tp.partition, plan[group][tp]) for group in plan for tp in sorted(plan[group])]
    header = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plan else []
    return "".join(f"\n{g:<30} {t:<30} {p:<10} {o:<15}" for g, t, p, o in [*header, *rows])


_RESET_OPTIONS: Final = tuple(
    option for option in resets.OPTIONS if option.names[-1] not in ("--all-topics", "--dry-run")
)

COMMAND = AdminCommand(
    error=ERROR,
    usage_error=ERROR,
    check=_check,
    actions=(
        Action("list", "list streams groups", list_),
        Action("describe", "print the lag of groups, their members with tasks, or their state", describe),
        Action(_DELETE, "delete groups without members", delete),
        Action(_RESET, "change the offsets of groups without members", reset_offsets, check=_check_reset),
        Action("delete-offsets", "delete the offsets of input topics", delete_offsets, check=_check_delete_offsets),
    ),
    options=(
        *connection(),
        Repeatable("--group", "id of a streams group to describe, delete or change"),
        Flag("--all-groups", "describe, delete or reset all streams groups"),
        Repeatable(
            "--input-topic TOPIC[:P,P…]",
            "input topic whose offsets are reset or deleted, or some of its partitions, such as orders:0,2",
            actions=f"{_RESET} delete-offsets",
        ),
        Flag(
            "--all-input-topics",
            "reset or delete the offsets of all source topics of the group's topology that have committed offsets",
            actions=f"{_RESET} delete-offsets",
        ),
        *_RESET_OPTIONS,
        Flag(
            "--dry-run",
            "print the new offsets without changing anything; this or --execute is required",
            actions=_RESET,
        ),
        Repeatable(
            "--delete-internal-topic TOPIC",
            "with --execute: also delete this topic, without checking that it is an internal topic of the group",
            actions=_RESET,
        ),
        Flag(
            "--delete-all-internal-topics",
            "delete all internal topics of the groups; with --reset-offsets it needs --execute",
            actions=f"{_RESET} {_DELETE}",
        ),
        Option(
            "--state STATE,…",
            "with --list: also print states, and only groups in these states if some are named; with --describe, "
            "without a value: print the state and the coordinator of the group",
            nargs="?",
            const="",
        ),
        Flag("--members", "with --describe: print the members of the group with their tasks"),
        Flag("--offsets", "with --describe: print the lag of each partition (the default)"),
        Flag("--verbose", "with --describe: also print epochs, offsets and target assignments"),
        Option(
            "--timeout MS",
            "maximum time in milliseconds of each request to the cluster, including its retries",
            int,
            default=30_000,
        ),
        JSON,
    ),
)
