"""Create, list, describe, alter and delete topics, as kafka-topics.sh does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.command import Action, CommandFailedError
from ottla.cli.framework.connection import connection
from ottla.cli.framework.options import JSON, Flag, Option, Repeatable
from ottla.cli.framework.output import Output, ids
from ottla.cli.framework.topic_filter import topic_filter
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla.client.admin.topics.partitions import PartitionReassignment
from ottla.client.admin.topics.topics import NewPartitions, NewTopic
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.cluster.store.znodes import uuid_text
from ottla.config import properties
from ottla.errors import ConfigurationError, KafkaError, TopicAlreadyExistsError
from ottla.model import TopicPartition

Reassignments = Mapping[TopicPartition, PartitionReassignment]
MIN_ISR = "min.insync.replicas"
REASSIGNMENTS_MS = 2_000
"""Timeout in milliseconds of the request for active reassignments."""

HEALTH = ("under_replicated_partitions", "unavailable_partitions", "under_min_isr_partitions", "at_min_isr_partitions")
"""Flags that select unhealthy partitions. If several are set, a partition is printed if any of them applies."""
SET_ON_TOPIC = 1
"""The source DYNAMIC_TOPIC_CONFIG of configs that are set on the topic itself."""


def create(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[str]:
    """Create the topic of `--topic`. Return a list with its name; an empty list if the topic exists and
    `--if-not-exists` is set.
    """
    topic = NewTopic(
        args.topic,
        -1 if args.partitions is None else args.partitions,
        -1 if args.replication_factor is None else args.replication_factor,
        parse_assignment(args.replica_assignment) if args.replica_assignment else None,
        dict(properties.override(text) for text in args.config),
    )
    if "." in args.topic or "_" in args.topic:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both.",
            file=sys.stderr if args.json else sys.stdout,
        )
    try:
        admin.create_topics([topic], retry_on_quota_violation=False)
    except TopicAlreadyExistsError:
        if not args.if_not_exists:
            raise
        return []
    output.text(f"Created topic {args.topic}.")
    return [args.topic]


def list_topics(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[str]:
    """Print and return the names of the topics that `--topic` and `--exclude-internal` select."""
    names = [topic.name for topic in _matching(admin, args)]
    output.text(*names)
    return names


def describe(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the topics or partitions that the options select. Return the selected topics, with the selected partitions,
    for JSON.
    """
    topics = _matching(admin, args, must_exist=bool(args.topic))
    configs = _configs(admin, topics)
    reassignments = reassignments_of(admin, [partition for topic in topics for partition in topic.partitions])
    only_partitions = any(getattr(args, flag) for flag in HEALTH)
    least = _least_isr(admin, topics) if args.under_min_isr_partitions or args.at_min_isr_partitions else {}
    document = []
    for topic in topics:
        partitions = [
            p for p in topic.partitions if not only_partitions or _is_unhealthy(p, reassignments, least, args)
        ]
        if (only_partitions and not partitions) or (args.topics_with_overrides and not configs[topic.name]):
            continue
        document.append(_as_json(topic, configs[topic.name], partitions, reassignments))
        if not only_partitions:
            output.text(_topic_line(topic, configs[topic.name]))
        if not args.topics_with_overrides:
            output.text(
                *(_partition_line(p, reassignments.get(TopicPartition(topic.name, p.partition))) for p in partitions)
            )
    return document


def alter(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[str]:
    """Add partitions to the topics that `--topic` matches, and return their names. Like Kafka's tool, it prints no
    text.
    """
    topics = _matching(admin, args, must_exist=True)
    replicas = list(parse_assignment(args.replica_assignment).values()) if args.replica_assignment else None
    for topic in topics:
        added = replicas[len(topic.partitions) :] if replicas else None
        admin.create_partitions({topic.name: NewPartitions(args.partitions, added)}, retry_on_quota_violation=False)
    return [topic.name for topic in topics]


def delete(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[str]:
    """Delete the topics that `--topic` matches, and return their names. Like Kafka's tool, it prints no text."""
    names = [topic.name for topic in _matching(admin, args, must_exist=True)]
    admin.delete_topics(names, retry_on_quota_violation=False)
    return names


def _check(args: argparse.Namespace) -> None:
    if args.delete_config:
        raise ConfigurationError(
            "--delete-config is no longer supported: ottla configs --alter --topic TOPIC --delete-config NAME"
        )
    if args.topic_id and args.topic:
        raise ConfigurationError("--topic and --topic-id cannot be used together")
    if args.action in ("create", "alter", "delete") and not args.topic:
        raise CommandFailedError(f'Missing required argument "[topic]" for --{args.action}', exit_code=2)


COMMAND = AdminCommand(
    check=_check,
    error="Error while executing topic command : {}",
    actions=(
        Action(
            "create", "create a topic", create, conflicts=(("replica_assignment", "partitions", "replication_factor"),)
        ),
        Action("list", "list topics", list_topics),
        Action(
            "describe",
            "print the partitions, leaders, replicas and configs of topics",
            describe,
            conflicts=(("topics_with_overrides", *HEALTH),),
        ),
        Action("alter", "add partitions to topics", alter, requires=("partitions",)),
        Action("delete", "delete topics", delete),
    ),
    options=(
        *connection(zookeeper=True),
        Option("--topic", "topic to create; for other actions, a regular expression that matches whole names"),
        Option(
            "--partitions",
            "number of partitions of the new topic (default: num.partitions of the broker); with --alter, which only "
            "adds partitions: the new number",
            int,
            actions="create alter",
        ),
        Option(
            "--replication-factor",
            "number of replicas of each partition (default: default.replication.factor of the broker)",
            int,
            actions="create",
        ),
        Option(
            "--replica-assignment B:B,…",
            "broker ids of each partition's replicas, with --alter also of the existing partitions: colons separate "
            "replicas, commas separate partitions",
            actions="create alter",
        ),
        Repeatable(
            "--config NAME=VALUE",
            "config of the new topic, such as retention.ms=3600000",
            actions="create",
            hint={"alter": "configs of topics are changed with ottla configs --alter --topic"},
        ),
        Flag("--if-not-exists", "do nothing, without an error, if the topic exists", actions="create"),
        Flag(
            "--if-exists",
            "do nothing, without an error, if no topic matches --topic or --topic-id",
            actions="describe alter delete",
        ),
        Flag("--exclude-internal", "leave out internal topics such as __consumer_offsets", actions="list describe"),
        Flag(
            "--topics-with-overrides",
            "print only topics on which configs are set; their partitions are printed with --json only",
            actions="describe",
        ),
        Flag(
            "--under-replicated-partitions",
            "print only partitions with fewer in-sync replicas than assigned replicas; the latter exclude those that a "
            "reassignment is adding",
            actions="describe",
        ),
        Flag("--unavailable-partitions", "print only partitions without a leader", actions="describe"),
        Flag(
            "--under-min-isr-partitions",
            "print only partitions with fewer in-sync replicas than min.insync.replicas",
            actions="describe",
        ),
        Flag(
            "--at-min-isr-partitions",
            "print only partitions with exactly min.insync.replicas in-sync replicas",
            actions="describe",
        ),
        Option("--topic-id ID", "id of the topic to describe, in place of --topic", actions="describe"),
        Option(
            "--partition-size-limit-per-response N",
            "no effect: all partitions are read in a single request",
            int,
            actions="describe",
        ),
        Option("--delete-config NAME", "no longer supported, as in Kafka: use ottla configs", actions="alter"),
        JSON,
    ),
)


def _matching(admin: KafkaAdminClient, args: argparse.Namespace, *, must_exist: bool = False) -> list[TopicInfo]:
    """Return the topics selected by --topic (a pattern for the whole name), --topic-id and --exclude-internal, sorted
    by name.

    Raises ConfigurationError for an invalid pattern, and if no topic is selected, although --topic-id or `must_exist`
    is set and --if-exists is not.
    """
    pattern = topic_filter("--topic", args.topic) if args.topic else None
    topics = sorted(
        (
            topic
            for topic in admin.describe_topics().values()
            if (pattern is None or pattern.fullmatch(topic.name))
            and (args.topic_id is None or uuid_text(topic.topic_id) == args.topic_id)
            and not (args.exclude_internal and topic.is_internal)
        ),
        key=lambda topic: topic.name,
    )
    if args.topic_id and not topics and not args.if_exists:
        raise ConfigurationError(f"TopicId '{args.topic_id}' does not exist as expected")
    if must_exist and not topics and not args.if_exists:
        raise ConfigurationError(f"Topic '{args.topic}' does not exist as expected")
    return topics


def _configs(admin: KafkaAdminClient, topics: Iterable[TopicInfo]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(TOPIC, topic.name) for topic in topics]
    if not resources:
        return {}
    return {
        resource.name: {e.name: e.value or "" for e in entries.values() if e.source == SET_ON_TOPIC}
        for resource, entries in admin.describe_configs(resources).items()
    }


def _least_isr(admin: KafkaAdminClient, topics: Iterable[TopicInfo]) -> dict[str, int]:
    """Return the value of min.insync.replicas by topic name."""
    resources = [ConfigResource(TOPIC, topic.name, [MIN_ISR]) for topic in topics]
    if not resources:
        return {}
    return {r.name: int(entries[MIN_ISR].value or 1) for r, entries in admin.describe_configs(resources).items()}


def reassignments_of(admin: KafkaAdminClient, partitions: Iterable[PartitionInfo]) -> Reassignments:
    """Return the active reassignments of those partitions that have replicas out of sync; others are not looked up.

    Return an empty dictionary if the request fails, for example before Kafka 2.4, without authorization, or without an
    active controller.
    """
    short = [TopicPartition(p.topic, p.partition) for p in partitions if len(p.isr) < len(p.replicas)]
    try:
        return admin.list_partition_reassignments(short, timeout_ms=REASSIGNMENTS_MS) if short else {}
    except KafkaError:
        return {}


def parse_assignment(text: str) -> dict[int, list[int]]:
    """Parse broker ids such as `0:1,1:2`, and return them by partition number. Raises ConfigurationError if one is not
    an integer.
    """
    try:
        return {i: [int(b) for b in part.split(":")] for i, part in enumerate(text.split(","))}
    except ValueError:
        raise ConfigurationError(f"--replica-assignment: {text!r} is not allowed: expected broker:broker,…") from None


def _is_unhealthy(
    partition: PartitionInfo, reassignments: Reassignments, least: Mapping[str, int], args: argparse.Namespace
) -> bool:
    """Return whether one of the flags in HEALTH is set and applies to the partition. `least` contains the values
    of min.insync.replicas by topic name.
    """
    spare = len(partition.isr) - least.get(partition.topic, 0)
    return any(
        (
            args.under_replicated_partitions and is_under_replicated(partition, reassignments),
            args.unavailable_partitions and partition.leader < 0,
            args.under_min_isr_partitions and spare < 0,
            args.at_min_isr_partitions and spare == 0,
        )
    )


def is_under_replicated(partition: PartitionInfo, reassignments: Reassignments) -> bool:
    """Return whether the ISR has fewer replicas than the partition has without those that a reassignment is adding."""
    reassignment = reassignments.get(TopicPartition(partition.topic, partition.partition))
    return len(partition.isr) < len(partition.replicas) - (len(reassignment.adding_replicas) if reassignment else 0)


def _topic_line(topic: TopicInfo, configs: Mapping[str, str]) -> str:
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {replicas}\tConfigs: {','.join(f'{k}={v}' for k, v in configs.items())}"
    )


def _partition_line(partition: PartitionInfo, reassignment: PartitionReassignment | None) -> str:
    leader = "none" if partition.leader < 0 else partition.leader
    moving = (
        f"\tAdding Replicas: {ids(reassignment.adding_replicas)}"
        f"\tRemoving Replicas: {ids(reassignment.removing_replicas)}"
        if reassignment
        else ""
    )
    return (
        f"\tTopic: {partition.topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}{moving}\tElr: \tLastKnownElr: "
    )


def _as_json(
    topic: TopicInfo, configs: Mapping[str, str], partitions: Iterable[PartitionInfo], reassignments: Reassignments
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "configs": dict(configs),
        "partitions": [
            _partition_as_json(p, reassignments.get(TopicPartition(topic.name, p.partition))) for p in partitions
        ],
    }


def _partition_as_json(partition: PartitionInfo, reassignment: PartitionReassignment | None) -> dict[str, Any]:
    fields = {name: getattr(partition, name) for name in ("partition", "leader", "replicas", "isr")}
    if reassignment:
        fields["adding_replicas"] = reassignment.adding_replicas
        fields["removing_replicas"] = reassignment.removing_replicas
    return fields
