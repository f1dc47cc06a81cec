"""`consumer-groups --delete-offsets`: deletes the committed offsets of a group for topics or partitions. Brokers reject
the deletion for topics to which an active group is subscribed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from ottla import errors
from ottla.cli.consumer_groups.reset_plan import scope
from ottla.cli.framework.java_errors import java_class
from ottla.cli.framework.output import Output, partition_errors
from ottla.client.admin.admin import KafkaAdminClient
from ottla.model import TopicPartition

OF_GROUPS: Final[Mapping[type[errors.KafkaError], str]] = {
    errors.InvalidGroupIdError: "The configured groupId is invalid.",
    errors.GroupIdNotFoundError: "The group id does not exist.",
    errors.GroupAuthorizationFailedError: "Group authorization failed.",
    errors.NonEmptyGroupError: "The group is not empty.",
}
"""Messages of Kafka's tool for errors of the whole group."""
OF_PARTITIONS: Final[Mapping[type[errors.KafkaError], str]] = {
    errors.GroupSubscribedToTopicError: "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
    errors.TopicAuthorizationFailedError: "Topic authorization failed.",
    errors.UnknownTopicOrPartitionError: "This server does not host this topic-partition.",
}
NO_PARTITION: Final = -1
"""Stands for the partition in the error of a topic without metadata: `-` in the table, -1 in JSON."""
Results = dict[TopicPartition, errors.KafkaError | None]


def delete_offsets(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> dict[str, Any]:
    """Delete the group's offsets for the topics and partitions in `--topic`, print the results, and return them for
    JSON. The exit code is 0 even if some are rejected, as with Kafka's tool.
    """
    (group,) = args.group
    partitions, topics = scope(args.topic)
    unknown: dict[Any, errors.KafkaError] = {}
    infos = admin.describe_topics(topics, args.timeout, errors=unknown) if topics else {}
    partitions += [TopicPartition(topic.name, p.partition) for topic in infos.values() for p in topic.partitions]
    return delete_partitions(admin, group, partitions, unknown, args.timeout, output)


def delete_partitions(
    admin: KafkaAdminClient,
    group: str,
    partitions: list[TopicPartition],
    unknown: Mapping[Any, errors.KafkaError],
    timeout_ms: float,
    output: Output,
) -> dict[str, Any]:
    """Delete the group's offsets for partitions, print the results, and return them for JSON. `unknown`: the errors of
    topics without metadata, which are printed as well.
    """
    failed: dict[Any, errors.KafkaError] = {}
    admin.delete_consumer_group_offsets(group, partitions, timeout_ms, errors=failed)
    results: Results = {tp: failed.get(tp) for tp in partitions}
    results |= {TopicPartition(topic, NO_PARTITION): error for topic, error in unknown.items()}
    output.text(_summary(group, next(iter(failed.values()), None)), _table(results))
    return {
        "group": group,
        "deleted": [tp._asdict() for tp, error in sorted(results.items(), key=lambda one: one[0]) if error is None],
        "errors": partition_errors({tp: error for tp, error in results.items() if error is not None}),
    }


def _summary(group: str, error: errors.KafkaError | None) -> str:
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
        (tp.topic, "-" if tp.partition == NO_PARTITION else str(tp.partition), _status(error))
        for tp, error in sorted(results.items(), key=lambda item: f"{item[0].topic}{item[0].partition}")
    ]
    return "".join(f"\n{t:<{width}} {p:<10} {s:<15}" for t, p, s in [("TOPIC", "PARTITION", "STATUS"), *rows])


def _status(error: errors.KafkaError | None) -> str:
    if error is None:
        return "Successful"
    message = OF_GROUPS.get(type(error)) or OF_PARTITIONS.get(type(error)) or str(error)
    return f"Error: {java_class(error)}: {message}"
