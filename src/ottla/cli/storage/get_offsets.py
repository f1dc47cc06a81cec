"""Tell the offsets of partitions: the first, the last, those of a time, as kafka-get-offsets.sh does."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.connection import add_connection, client_options
from ottla.cli.framework.json_file import MAX_INT, MAX_LONG
from ottla.cli.framework.topic_filter import topic_filter
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.offsets import ListedOffset, OffsetSpec
from ottla.errors import ConfigurationError, InvalidTopicError, KafkaError
from ottla.model import TopicPartition

CLIENT_ID: Final = "GetOffsetShell"
"""Whatever a properties file says, as in Kafka: quotas can be set for it."""

MOMENTS: Final[Mapping[str, OffsetSpec]] = {
    "latest": OffsetSpec.latest(),
    "earliest": OffsetSpec.earliest(),
    "max-timestamp": OffsetSpec.max_timestamp(),
    "earliest-local": OffsetSpec.earliest_local(),
    "latest-tiered": OffsetSpec.latest_tiered(),
    "earliest-pending-upload": OffsetSpec.earliest_pending_upload(),
}
"""By name."""
NAMES: Final = " / ".join(f"{moment.timestamp} or {name}" for name, moment in MOMENTS.items())
UNKNOWN: Final = -1
"""The offset where there is no such record."""

RULES: Final = "REGEX, REGEX:3, REGEX:1-3, REGEX:5- or REGEX:-3"
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]{0,10})|(?:([0-9]{0,10})-([0-9]{0,10}))))?")
"""Of --topic-partitions, as Kafka has it: a topic, then one partition, or the first, and the first that is not."""


class Rule(NamedTuple):
    """Partitions of topics that match."""

    topics: re.Pattern[str]
    partitions: Container[int]

    def allows(self, tp: TopicPartition) -> bool:
        """Whether it is one of them."""
        return tp.partition in self.partitions and self.topics.fullmatch(tp.topic) is not None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla get-offsets`."""
    add_connection(parser)
    parser.add_argument("--topic", metavar="REGEX", help="topics; all of them if not given")
    parser.add_argument("--partitions", metavar="N,N,…", help="partitions; all of them if not given")
    parser.add_argument(
        "--topic-partitions",
        metavar="T:P,…",
        help=f"in place of both, with commas between: {RULES}; 1-3 are 1 and 2, without a topic it is all of them",
    )
    parser.add_argument(
        "--time",
        default="latest",
        metavar="MS",
        help=f"the first offset at or after a time, or {NAMES}",
    )
    parser.add_argument("--exclude-internal-topics", action="store_true", help="leave out the broker's own topics")
    parser.add_argument("--json", action="store_true", help="answer in JSON")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 where nothing is meant, or nobody answers. A partition that has no leader, say, is told and left out."""
    errors: dict[Any, KafkaError] = {}
    try:
        moment, rules = _moment(args.time), _rules(args)
        with KafkaAdminClient({**client_options(args), "client.id": CLIENT_ID}) as admin:
            partitions = _partitions(admin, rules, internal=not args.exclude_internal_topics)
            listed = admin.list_offsets(dict.fromkeys(partitions, moment), errors=errors)
    except KafkaError as error:
        print(f"Error occurred: {error}", file=sys.stderr)
        return 1
    for tp in sorted(errors, key=str):
        print(f"Skip getting offsets for topic-partition {tp} due to error: {errors[tp]}", file=sys.stderr)
    found = {tp: listed[tp] for tp in sorted(listed, key=str) if listed[tp].offset != UNKNOWN}
    if args.json:
        print(json.dumps([_as_json(tp, at) for tp, at in found.items()]))
    else:
        for tp, at in found.items():
            print(f"{tp.topic}:{tp.partition}:{at.offset}")
    return 0


def _moment(text: str) -> OffsetSpec:
    by_number = {spec.timestamp: spec for spec in MOMENTS.values()}
    if text in MOMENTS:
        return MOMENTS[text]
    number = int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else None
    if number is None or number > MAX_LONG or (number < 0 and number not in by_number):
        raise ConfigurationError(
            f"Malformed time argument {text}. Please use {NAMES}, or a specified long format timestamp"
        )
    return by_number.get(number, OffsetSpec.for_timestamp(number))


def _rules(args: argparse.Namespace) -> list[Rule]:
    if args.topic_partitions is None:
        topics = topic_filter("--topic", ".*" if args.topic is None else args.topic)
        return [Rule(topics, _numbers(args.partitions) if args.partitions else range(MAX_INT))]
    if args.topic is not None or args.partitions is not None:
        raise ConfigurationError("--topic-partitions cannot be used with --topic or --partitions")
    # One comma at the end is nothing, as in Java; nothing at all is every topic.
    return [_rule(text) for text in args.topic_partitions.rstrip(",").split(",")]


def _numbers(text: str) -> frozenset[int]:
    numbers = text.rstrip(",").split(",")
    if not all(re.fullmatch("[0-9]{1,10}", number) for number in numbers):
        raise ConfigurationError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        )
    return frozenset(map(int, numbers))


def _rule(text: str) -> Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"--topic-partitions: Invalid rule specification: {text}: {RULES} is wanted")
    topic, one, first, end = found.groups()
    partitions = range(int(one), int(one) + 1) if one else range(int(first or 0), int(end or MAX_INT))
    return Rule(topic_filter("--topic-partitions", topic or ".*"), partitions)


def _partitions(admin: KafkaAdminClient, rules: list[Rule], *, internal: bool) -> list[TopicPartition]:
    topics = (topic for topic in admin.describe_topics().values() if internal or not topic.is_internal)
    every = (TopicPartition(topic.name, p.partition) for topic in topics for p in topic.partitions)
    found = [tp for tp in every if any(rule.allows(tp) for rule in rules)]
    if not found:
        raise InvalidTopicError("Could not match any topic-partitions with the specified filters")
    return found


def _as_json(tp: TopicPartition, at: ListedOffset) -> dict[str, Any]:
    """None where there is nothing to tell."""
    return {
        **tp._asdict(),
        "offset": at.offset,
        "timestamp": None if at.timestamp < 0 else at.timestamp,
        "leader_epoch": None if at.leader_epoch < 0 else at.leader_epoch,
    }
