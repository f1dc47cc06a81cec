"""Reset a Kafka Streams application, as kafka-streams-application-reset.sh does: set its offsets, and delete its
internal topics.

Stop all instances first, and try it with --dry-run. The local state of the instances is not changed: call
KafkaStreams#cleanUp() in each, or delete its `state.dir`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, Final

from ottla.cli.consumer_groups import reset_offsets
from ottla.cli.consumer_groups.reset_offsets import INACTIVE, SPECS, TIMEOUT_MS
from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, OneOf, Option, is_set
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.offsets import OffsetSpec
from ottla.errors import ConfigurationError, NonEmptyGroupError
from ottla.model import TopicPartition

INTERNAL: Final = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)
"""Matches names that Kafka Streams gives to the internal topics of applications."""


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Set the offsets of input and intermediate topics, and delete internal topics; with --dry-run, only print what
    would be done. The exit code is 1 if an input or intermediate topic does not exist.

    Raises a KafkaError, such as ConfigurationError for invalid options, or NonEmptyGroupError if the consumer group has
    members and --force, which removes them, is not set.
    """
    if args.dry_run:
        output.text("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
    _require_inactive(admin, args, output)
    existing = set(admin.list_topics())
    document: dict[str, Any] = {"offsets": _reset(admin, args, output, existing)}
    document["deleted"] = _delete_internal(admin, args, output, existing)
    return document


def _require_inactive(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> None:
    streams = next(
        (g for g in admin.list_groups() if g.group_id == args.application_id and g.group_type.lower() == "streams"),
        None,
    )
    if streams is not None and streams.state not in INACTIVE:
        raise NonEmptyGroupError(
            f"Streams group '{args.application_id}' is still active. Make sure to stop all running application "
            "instances before running the reset tool."
        )
    group = admin.describe_consumer_groups([args.application_id])[args.application_id]
    if group.state in INACTIVE:
        return
    if not args.force:
        members = ", ".join(member.member_id for member in group.members)
        raise NonEmptyGroupError(
            f"Consumer group '{args.application_id}' is still active and has following members: {members}. Make sure "
            "to stop all running application instances before running the reset tool. You can use option '--force' to "
            "remove active members from the group."
        )
    output.text(f"Force deleting all active members in the group: {args.application_id}")
    if not args.dry_run:
        admin.remove_members_from_consumer_group(args.application_id)


def _reset(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, existing: set[str]
) -> list[dict[str, Any]]:
    inputs, intermediate = _names(args.input_topics), _names(args.intermediate_topics)
    if not inputs and not intermediate:
        output.text("No input or intermediate topics specified. Skipping seek.")
        return []
    if intermediate:
        output.text("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    if inputs:
        output.text(f"Reset-offsets for input topics {_listed(inputs)}")
    if intermediate:
        output.text(f"Seek-to-end for intermediate topics {_listed(intermediate)}")
    offsets = {
        **_input_offsets(admin, args, output, _present(inputs, existing, "input", output)),
        **_ends(admin, args, output, _present(intermediate, existing, "intermediate", output)),
    }
    if not args.dry_run and offsets:
        admin.alter_consumer_group_offsets(args.application_id, offsets)
    output.text("Done.")
    return [{**tp._asdict(), "offset": offset} for tp, offset in sorted(offsets.items())]


def _present(topics: list[str], existing: set[str], kind: str, output: Output) -> list[str]:
    missing = [topic for topic in topics if topic not in existing]
    if missing:
        output.exit_code = 1
        output.text(f"Following {kind} topics are not found, skipping them", *(f"Topic: {topic}" for topic in missing))
    return [topic for topic in topics if topic in existing]


def _input_offsets(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, topics: list[str]
) -> dict[TopicPartition, int]:
    if not topics:
        return {}
    offsets = reset_offsets.new_offsets(admin, args.application_id, _request(args, topics))
    output.text(f"Following input topics offsets will be reset to (for consumer group {args.application_id})")
    output.text(*(f"Topic: {tp.topic} Partition: {tp.partition} Offset: {o}" for tp, o in sorted(offsets.items())))
    return offsets


def _request(args: argparse.Namespace, topics: list[str]) -> reset_offsets.ResetRequest:
    """Convert the options to those of `consumer-groups --reset-offsets`. If none of SPECS is set, the earliest offsets
    are selected. Raises ConfigurationError like `reset_offsets.read`, and if the file of --from-file has no offsets for
    the application. Lines for topics other than the input topics are ignored, as with Kafka's tool.
    """
    specs = {spec: getattr(args, spec, None) for spec in SPECS}
    if not any(is_set(args, spec) for spec in SPECS if hasattr(args, spec)):
        specs["to_earliest"] = True
    more = {
        "all_topics": False,
        "all_groups": False,
        "export": False,
        "execute": False,
        "dry_run": True,
        "timeout": TIMEOUT_MS,
    }
    group = [args.application_id]
    request = reset_offsets.read(argparse.Namespace(**specs, **more, group=group, topic=topics, json=args.json))
    if args.from_file is not None and args.application_id not in request.file:
        raise ConfigurationError(
            f"--from-file {args.from_file}: no offsets for {args.application_id}; expected lines topic,partition,offset"
        )
    plan = {
        group: {tp: offset for tp, offset in offsets.items() if tp.topic in topics}
        for group, offsets in request.file.items()
    }
    return request._replace(file=plan)


def _ends(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, topics: list[str]
) -> dict[TopicPartition, int]:
    if not topics:
        return {}
    output.text(
        f"Following intermediate topics offsets will be reset to end (for consumer group {args.application_id})",
        *(f"Topic: {topic}" for topic in topics),
    )
    infos = admin.describe_topics(topics)
    partitions = [TopicPartition(topic.name, p.partition) for topic in infos.values() for p in topic.partitions]
    return {tp: at.offset for tp, at in admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())).items()}


def _delete_internal(
    admin: KafkaAdminClient, args: argparse.Namespace, output: Output, existing: set[str]
) -> list[str]:
    inferred = sorted(t for t in existing if t.startswith(f"{args.application_id}-") and INTERNAL.fullmatch(t))
    chosen = _names(args.internal_topics)
    if {*chosen} - {*inferred}:
        raise ConfigurationError(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all "
            "internal topics. Do a dry run without the --internal-topics option to see the list of all internal "
            "topics that can be deleted."
        )
    topics = chosen or inferred
    output.text(f"Deleting {'specified' if chosen else 'inferred'} internal topics {_listed(topics)}")
    if topics and not args.dry_run:
        admin.delete_topics(topics)
    output.text("Done.")
    return topics


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _listed(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"


COMMAND = AdminCommand(
    run=run,
    error="ERROR: {}",
    options=(
        *connection(required=False),
        Option(
            "--application-id ID", "application.id of the Streams application, which is also its group", required=True
        ),
        Option("--input-topics TOPIC,…", "topics whose offsets are reset, to the earliest by default"),
        Option("--intermediate-topics TOPIC,…", "topics whose offsets are set to the end (deprecated)"),
        Option("--internal-topics TOPIC,…", "internal topics of the application to delete (default: all that it has)"),
        OneOf(
            Flag("--to-earliest", "reset input topics to the earliest offset (the default)"),
            Flag("--to-latest", "reset input topics to the latest offset"),
            Option(
                "--to-datetime YYYY-MM-DDTHH:mm:SS.sss[Z]",
                "reset input topics to the first record at or after a time (UTC, unless a time zone follows)",
            ),
            Option(
                "--by-duration PnDTnHnMnS",
                "reset input topics to the first record within this duration before now, such as P7D or PT1H30M",
            ),
            Option(
                "--to-offset N",
                "reset input topics to offset N, limited to the range from the earliest to the latest offset",
                int,
            ),
            Option(
                "--shift-by N",
                "add N, which may be negative, to the committed offsets of input topics; the result is limited to the "
                "range from the earliest to the latest offset",
                int,
            ),
            Option(
                "--from-file CSV",
                "with --input-topics: reset to the offsets in a CSV file with lines topic,partition,offset",
            ),
            required=False,
        ),
        Flag(
            "--force",
            "remove all members from the consumer group first; without it, the command fails if the group has members, "
            "such as stopped instances before their session timeout. No effect on a streams group, which must have no "
            "members",
        ),
        Flag("--dry-run", "print what would be done, without changing anything"),
        Option("--config-file FILE", "same as --command-config", dest="command_config"),
        JSON,
    ),
)
