"""`consumer-groups --delete-offsets`: a group forgets where it was in topics that it does not read any more."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Final

from ottla.cli.consumer_groups import reset_plan as resets
from ottla.cli.consumer_groups.reset_offsets import TIMEOUT_MS
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.json_answers import partition_errors
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import (
    ConfigurationError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidGroupIdError,
    KafkaError,
    NonEmptyGroupError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from ottla.model import TopicPartition

OF_GROUPS: Final[Mapping[type[KafkaError], str]] = {
    InvalidGroupIdError: "The configured groupId is invalid.",
    GroupIdNotFoundError: "The group id does not exist.",
    GroupAuthorizationFailedError: "Group authorization failed.",
    NonEmptyGroupError: "The group is not empty.",
}
"""Errors of a whole group, in the words of Kafka's tool."""
OF_PARTITIONS: Final[Mapping[type[KafkaError], str]] = {
    GroupSubscribedToTopicError: "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
    TopicAuthorizationFailedError: "Topic authorization failed.",
    UnknownTopicOrPartitionError: "This server does not host this topic-partition.",
}
WHOLE: Final = -1
"""In place of a partition's number: a topic that could not be looked up."""
Results = dict[TopicPartition, KafkaError | None]


def delete_offsets(admin: KafkaAdminClient, group: str, args: argparse.Namespace) -> int:
    """`--delete-offsets`; 0 also where something was refused, which is told, as Kafka's tool has it."""
    timeout_ms = TIMEOUT_MS if args.timeout is None else args.timeout
    partitions, topics = resets.scope(args.topic)
    unknown: dict[Any, KafkaError] = {}
    described = admin.describe_topics(topics, timeout_ms, errors=unknown) if topics else {}
    partitions += [TopicPartition(topic.name, p.partition) for topic in described.values() for p in topic.partitions]
    failed: dict[Any, KafkaError] = {}
    admin.delete_consumer_group_offsets(group, partitions, timeout_ms, errors=failed)
    results: Results = {tp: failed.get(tp) for tp in partitions}
    results |= {TopicPartition(topic, WHOLE): error for topic, error in unknown.items()}
    if args.json:
        print(json.dumps(_as_json(group, results)))
    else:
        print(_outcome(group, next(iter(failed.values()), None)))
        print(_table(results))
    return 0


def check(args: argparse.Namespace) -> None:
    """ConfigurationError unless it is one group, and topics."""
    if len(args.group) != 1 or args.all_groups or not args.topic:
        raise ConfigurationError("--delete-offsets takes one --group, and --topic")
    resets.scope(args.topic)


def _outcome(group: str, error: KafkaError | None) -> str:
    if error is None:
        return f"Request succeeded for deleting offsets from group {group}."
    if type(error) in OF_GROUPS:
        return f"\nError: {OF_GROUPS[type(error)]}"
    if type(error) in OF_PARTITIONS:
        return "\nError: Encountered some partition-level error, see the follow-up details."
    return f"\nError: Encountered some unknown error: {error.name}"


def _table(results: Results) -> str:
    width = max([15, *(len(tp.topic) for tp in results)])
    rows = [
        (tp.topic, "-" if tp.partition == WHOLE else str(tp.partition), _status(error))
        for tp, error in sorted(results.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    return "".join(f"\n{t:<{width}} {p:<10} {s:<15}" for t, p, s in [("TOPIC", "PARTITION", "STATUS"), *rows])


def _status(error: KafkaError | None) -> str:
    if error is None:
        return "Successful"
    words = OF_GROUPS.get(type(error)) or OF_PARTITIONS.get(type(error)) or str(error)
    return f"Error: {java_class(error)}: {words}"


def _as_json(group: str, results: Results) -> dict[str, Any]:
    return {
        "group": group,
        "deleted": [tp._asdict() for tp, error in sorted(results.items(), key=lambda one: one[0]) if error is None],
        "errors": partition_errors({tp: error for tp, error in results.items() if error is not None}),
    }
