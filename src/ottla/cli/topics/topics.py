"""Create, list, describe, alter and delete topics, as kafka-topics.sh does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.framework.topic_filter import topic_filter
from ottla.cli.topics import topic_options
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.configs import TOPIC, ConfigResource
from ottla.client.admin.partitions import PartitionReassignment
from ottla.client.admin.topics import NewPartitions, NewTopic
from ottla.client.core.metadata import PartitionInfo, TopicInfo
from ottla.cluster.store.znodes import uuid_text
from ottla.config import properties
from ottla.errors import ConfigurationError, KafkaError, TopicAlreadyExistsError
from ottla.model import TopicPartition

Moves = Mapping[TopicPartition, PartitionReassignment]
MOVES_MS = 2_000
"""How long the controller may take to tell of them."""

SET_ON_TOPIC = 1
"""The source of an option that is set on the topic itself."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla topics`."""
    add_connection(parser, zookeeper=True)
    action = parser.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("create", "create a topic"),
        ("list", "list topics"),
        ("describe", "tell partitions, leaders, replicas and options"),
        ("alter", "give a topic more partitions"),
        ("delete", "delete topics"),
    ):
        action.add_argument(f"--{name}", action="store_const", const=name, dest="action", help=text)
    parser.add_argument("--topic", help="a topic; but for --create a regular expression")
    parser.add_argument("--partitions", type=int, help="number of partitions")
    parser.add_argument("--replication-factor", type=int, help="number of replicas of each partition")
    parser.add_argument("--replica-assignment", metavar="B:B,…", help="brokers by hand: partitions with commas")
    parser.add_argument(
        "--config", action="append", default=[], metavar="name=value", help="with --create: an option; repeatable"
    )
    parser.add_argument("--if-not-exists", action="store_true", help="with --create: an existing topic is no error")
    parser.add_argument("--if-exists", action="store_true", help="a missing topic is no error")
    parser.add_argument("--exclude-internal", action="store_true", help="leave out the broker's own topics")
    parser.add_argument("--topics-with-overrides", action="store_true", help="only topics with options set")
    parser.add_argument("--under-replicated-partitions", action="store_true", help="only partitions short of replicas")
    parser.add_argument("--unavailable-partitions", action="store_true", help="only partitions without a leader")
    parser.add_argument("--json", action="store_true", help="answer in JSON; names of topics, but --describe tells all")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 with one line where the broker refuses."""
    if args.action in ("create", "alter", "delete") and not args.topic:
        print(f'Missing required argument "[topic]" for --{args.action}', file=sys.stderr)
        return 2
    topic_options.check(args)
    try:
        with KafkaAdminClient(client_options(args)) as admin:
            return ACTIONS[args.action](admin, args)
    except KafkaError as error:
        print(f"Error while executing topic command : {error}", file=sys.stderr)
        return 1


def create(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """`--create`."""
    topic = NewTopic(
        args.topic,
        -1 if args.partitions is None else args.partitions,
        -1 if args.replication_factor is None else args.replication_factor,
        assignment(args.replica_assignment) if args.replica_assignment else None,
        dict(properties.override(text) for text in args.config),
    )
    if "." in args.topic or "_" in args.topic:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both.",
            file=sys.stderr if args.json else sys.stdout,
        )
    try:
        admin.create_topics([topic])
    except TopicAlreadyExistsError:
        if not args.if_not_exists:
            raise
        return _tell_changed(args, [])
    return _tell_changed(args, [args.topic], f"Created topic {args.topic}.")


def list_(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """`--list`."""
    names = [topic.name for topic in _matching(admin, args)]
    print(json.dumps(names) if args.json else "\n".join(names), end="\n" if names or args.json else "")
    return 0


def describe(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """`--describe`."""
    found = _matching(admin, args)
    if args.topic and not found and not args.if_exists:
        raise ConfigurationError(f"Topic '{args.topic}' does not exist as expected")
    options = _options(admin, found)
    moves = moves_of(admin, [partition for topic in found for partition in topic.partitions])
    only_partitions = args.under_replicated_partitions or args.unavailable_partitions
    shown = [(topic, [p for p in topic.partitions if not only_partitions or _lacks(p, moves, args)]) for topic in found]
    if only_partitions:
        shown = [(topic, partitions) for topic, partitions in shown if partitions]
    if args.topics_with_overrides:
        shown = [(topic, partitions) for topic, partitions in shown if options[topic.name]]
    if args.json:
        print(json.dumps([_as_json(topic, options[topic.name], partitions, moves) for topic, partitions in shown]))
        return 0
    for topic, partitions in shown:
        if not only_partitions:
            print(_topic_line(topic, options[topic.name]))
        if not args.topics_with_overrides:
            for partition in partitions:
                print(_partition_line(partition, moves.get(TopicPartition(topic.name, partition.partition))))
    return 0


def alter(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """`--alter`."""
    found = _matching(admin, args)
    if not found and not args.if_exists:
        raise ConfigurationError(f"Topic '{args.topic}' does not exist as expected")
    new = list(assignment(args.replica_assignment).values()) if args.replica_assignment else None
    for topic in found:
        added = new[len(topic.partitions) :] if new else None
        admin.create_partitions({topic.name: NewPartitions(args.partitions, added)})
    return _tell_changed(args, [topic.name for topic in found])


def delete(admin: KafkaAdminClient, args: argparse.Namespace) -> int:
    """`--delete`."""
    found = _matching(admin, args)
    if not found and not args.if_exists:
        raise ConfigurationError(f"Topic '{args.topic}' does not exist as expected")
    names = [topic.name for topic in found]
    admin.delete_topics(names)
    return _tell_changed(args, names)


ACTIONS = {"create": create, "list": list_, "describe": describe, "alter": alter, "delete": delete}


def _tell_changed(args: argparse.Namespace, names: list[str], text: str = "") -> int:
    """Topics that were created, altered or deleted: Kafka says nothing of the latter two, JSON has their names."""
    if args.json:
        print(json.dumps(names))
    elif text:
        print(text)
    return 0


def _matching(admin: KafkaAdminClient, args: argparse.Namespace) -> list[TopicInfo]:
    """Topics whose whole name matches one of the expressions in --topic, in the order of their names."""
    wanted = topic_filter("--topic", args.topic) if args.topic else None
    topics = admin.describe_topics().values()
    return sorted(
        (
            topic
            for topic in topics
            if (wanted is None or wanted.fullmatch(topic.name)) and not (args.exclude_internal and topic.is_internal)
        ),
        key=lambda topic: topic.name,
    )


def _options(admin: KafkaAdminClient, topics: Iterable[TopicInfo]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(TOPIC, topic.name) for topic in topics]
    if not resources:
        return {}
    return {
        resource.name: {e.name: e.value or "" for e in entries.values() if e.source == SET_ON_TOPIC}
        for resource, entries in admin.describe_configs(resources).items()
    }


def moves_of(admin: KafkaAdminClient, partitions: Iterable[PartitionInfo]) -> Moves:
    """What is on its way to other brokers, of partitions that lack a replica: others need not be asked for.

    Nothing where the cluster does not say: before 2.4, not to everybody, and not while its controller does not answer.
    """
    short = [TopicPartition(p.topic, p.partition) for p in partitions if len(p.isr) < len(p.replicas)]
    try:
        return admin.list_partition_reassignments(short, timeout_ms=MOVES_MS) if short else {}
    except KafkaError:
        return {}


def assignment(text: str) -> dict[int, list[int]]:
    """Brokers by partition, of `0:1,1:2`."""
    try:
        return {i: [int(b) for b in part.split(":")] for i, part in enumerate(text.split(","))}
    except ValueError:
        raise ConfigurationError(f"--replica-assignment: {text!r} is not allowed: broker:broker,… is wanted") from None


def _lacks(partition: PartitionInfo, moves: Moves, args: argparse.Namespace) -> bool:
    """Whether it lacks something that was asked for; with both flags either counts."""
    short = args.under_replicated_partitions and is_under_replicated(partition, moves)
    return bool(short or (args.unavailable_partitions and partition.leader < 0))


def is_under_replicated(partition: PartitionInfo, moves: Moves) -> bool:
    """Whether replicas are out of sync; those that a move adds and that have not caught up yet lack nothing."""
    move = moves.get(TopicPartition(partition.topic, partition.partition))
    return len(partition.isr) < len(partition.replicas) - (len(move.adding_replicas) if move else 0)


def _topic_line(topic: TopicInfo, options: Mapping[str, str]) -> str:
    replicas = len(topic.partitions[0].replicas) if topic.partitions else 0
    return (
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {replicas}\tConfigs: {','.join(f'{k}={v}' for k, v in options.items())}"
    )


def _partition_line(partition: PartitionInfo, move: PartitionReassignment | None) -> str:
    leader = "none" if partition.leader < 0 else partition.leader
    moved = _move_text(move) if move else ""
    return (
        f"\tTopic: {partition.topic}\tPartition: {partition.partition}\tLeader: {leader}"
        f"\tReplicas: {_ids(partition.replicas)}\tIsr: {_ids(partition.isr)}{moved}\tElr: \tLastKnownElr: "
    )


def _move_text(move: PartitionReassignment) -> str:
    return f"\tAdding Replicas: {_ids(move.adding_replicas)}\tRemoving Replicas: {_ids(move.removing_replicas)}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _as_json(
    topic: TopicInfo, options: Mapping[str, str], partitions: Iterable[PartitionInfo], moves: Moves
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "configs": dict(options),
        "partitions": [_partition_as_json(p, moves.get(TopicPartition(topic.name, p.partition))) for p in partitions],
    }


def _partition_as_json(partition: PartitionInfo, move: PartitionReassignment | None) -> dict[str, Any]:
    told = {name: getattr(partition, name) for name in ("partition", "leader", "replicas", "isr")}
    if move:
        told |= {"adding_replicas": move.adding_replicas, "removing_replicas": move.removing_replicas}
    return told
