"""Print offsets of partitions, such as the earliest, the latest or that for a time, as kafka-get-offsets.sh does."""

from __future__ import annotations

import argparse
import re
from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from ottla.cli.framework.admin_command import AdminCommand
from ottla.cli.framework.connection import connection
from ottla.cli.framework.json_file import MAX_INT, MAX_LONG
from ottla.cli.framework.options import JSON, Flag, Option
from ottla.cli.framework.output import Output
from ottla.cli.framework.topic_filter import topic_filter
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.topics.offsets import ListedOffset, OffsetSpec
from ottla.errors import ConfigurationError, InvalidTopicError, KafkaError
from ottla.model import TopicPartition

CLIENT_ID: Final = "GetOffsetShell"
"""The client id. As with Kafka's tool, it cannot be configured."""

SPECS: Final[Mapping[str, OffsetSpec]] = {
    "latest": OffsetSpec.latest(),
    "earliest": OffsetSpec.earliest(),
    "max-timestamp": OffsetSpec.max_timestamp(),
    "earliest-local": OffsetSpec.earliest_local(),
    "latest-tiered": OffsetSpec.latest_tiered(),
    "earliest-pending-upload": OffsetSpec.earliest_pending_upload(),
}
"""Offset specs by their names on the command line."""
NAMES: Final = " / ".join(f"{spec.timestamp} or {name}" for name, spec in SPECS.items())
UNKNOWN: Final = -1
"""The offset that brokers return for a partition without a matching record."""
ERROR: Final = "Error occurred: {}"

RULES: Final = "REGEX, REGEX:3, REGEX:1-3, REGEX:5- or REGEX:-3"
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]{0,10})|(?:([0-9]{0,10})-([0-9]{0,10}))))?")
"""Matches a rule of --topic-partitions: a topic, then a partition, or the first partition of a range and its (excluded)
end.
"""


class Rule(NamedTuple):
    """Selects partitions by topic name and number."""

    topics: re.Pattern[str]
    partitions: Container[int]

    def allows(self, tp: TopicPartition) -> bool:
        """Return whether the rule selects a partition."""
        return tp.partition in self.partitions and self.topics.fullmatch(tp.topic) is not None


def run(admin: KafkaAdminClient, args: argparse.Namespace, output: Output) -> list[dict[str, Any]]:
    """Print the offsets of the selected partitions, and return them for JSON. Partitions whose lookup fails, for
    example because they have no leader, are reported and skipped; those without a matching record are left out.
    """
    errors: dict[Any, KafkaError] = {}
    partitions = _partitions(admin, _rules(args), internal=not args.exclude_internal_topics)
    listed = admin.list_offsets(dict.fromkeys(partitions, _offset_spec(args.time)), errors=errors)
    for tp in sorted(errors, key=str):
        output.warn(f"Skip getting offsets for topic-partition {tp} due to error: {errors[tp]}")
    offsets = {tp: listed[tp] for tp in sorted(listed, key=str) if listed[tp].offset != UNKNOWN}
    output.text(*(f"{tp.topic}:{tp.partition}:{offset.offset}" for tp, offset in offsets.items()))
    return [_as_json(tp, offset) for tp, offset in offsets.items()]


def _check(args: argparse.Namespace) -> None:
    _offset_spec(args.time)
    _rules(args)


COMMAND = AdminCommand(
    run=run,
    check=_check,
    fixed_configs={"client.id": CLIENT_ID},
    error=ERROR,
    usage_error=ERROR,
    options=(
        *connection(),
        Option("--topic REGEX", "topics, as a regular expression that matches whole names (default: all)"),
        Option("--partitions N,N,…", "partition numbers of the topics, separated by commas (default: all)"),
        Option(
            "--topic-partitions T:P,…",
            f"rules that replace --topic and --partitions, separated by commas: {RULES}. The end of a range is "
            "excluded; a rule without a topic applies to all topics",
        ),
        Option(
            "--time MS", f"first offset at or after this time (milliseconds since 1970), or {NAMES}", default="latest"
        ),
        Flag("--exclude-internal-topics", "leave out internal topics such as __consumer_offsets"),
        JSON,
    ),
)


def _offset_spec(text: str) -> OffsetSpec:
    by_number = {spec.timestamp: spec for spec in SPECS.values()}
    if text in SPECS:
        return SPECS[text]
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
    # A comma at the end is ignored, as in Java; an empty text means every topic.
    return [_rule(text) for text in args.topic_partitions.rstrip(",").split(",")]


def _numbers(text: str) -> frozenset[int]:
    numbers = text.rstrip(",").split(",")
    if not all(re.fullmatch("[0-9]{1,10}", number) for number in numbers):
        raise ConfigurationError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        )
    return frozenset(map(int, numbers))


def _rule(text: str) -> Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--topic-partitions: Invalid rule specification: {text}: expected {RULES}")
    topic, one, first, end = match.groups()
    partitions = range(int(one), int(one) + 1) if one else range(int(first or 0), int(end or MAX_INT))
    return Rule(topic_filter("--topic-partitions", topic or ".*"), partitions)


def _partitions(admin: KafkaAdminClient, rules: list[Rule], *, internal: bool) -> list[TopicPartition]:
    topics = (topic for topic in admin.describe_topics().values() if internal or not topic.is_internal)
    every = (TopicPartition(topic.name, p.partition) for topic in topics for p in topic.partitions)
    partitions = [tp for tp in every if any(rule.allows(tp) for rule in rules)]
    if not partitions:
        raise InvalidTopicError("Could not match any topic-partitions with the specified filters")
    return partitions


def _as_json(tp: TopicPartition, offset: ListedOffset) -> dict[str, Any]:
    return {
        **tp._asdict(),
        "offset": offset.offset,
        "timestamp": None if offset.timestamp < 0 else offset.timestamp,
        "leader_epoch": None if offset.leader_epoch < 0 else offset.leader_epoch,
    }
