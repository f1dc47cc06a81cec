"""Options of `format("ottla")`: those of Spark's Kafka connector, validated into one frozen value.

`OPTIONS` is the table from which the docs and the check for unknown names are derived.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.config.options import nearest
from ottla.errors import ConfigurationError
from ottla.model import TopicPartition
from ottla.spark.options.offset_range_limit import (
    EARLIEST_MARK,
    LATEST_MARK,
    AtTimestamp,
    AtTimestamps,
    Earliest,
    Latest,
    OffsetRangeLimit,
    Specific,
    parse_numbers,
    parse_partitions,
)
from ottla.spark.options.option_values import (
    boolean,
    duration_ms,
    get,
    get_or,
    group,
    not_negative,
    paths,
    positive,
    strategy,
)

log = logging.getLogger("ottla.spark")


class OptionRow(NamedTuple):
    """A row of the options' documentation."""

    name: str
    default: str
    applies_to: str
    doc: str


OPTIONS = (
    OptionRow("assign", "", "both", 'Partitions to read: {"topicA": [0, 1]}.'),
    OptionRow("subscribe", "", "both", "Topics to read, separated by commas."),
    OptionRow("subscribePattern", "", "both", "Regular expression: topics that contain a match are read."),
    OptionRow("startingOffsets", "earliest (batch), latest (stream)", "both", "earliest, latest or offsets as JSON."),
    OptionRow("endingOffsets", "latest", "batch", "latest or offsets as JSON; a stream has no end."),
    OptionRow("startingTimestamp", "", "both", "Milliseconds since 1970; wins over the two other starts."),
    OptionRow("endingTimestamp", "", "batch", "Milliseconds since 1970; wins over the two other ends."),
    OptionRow(
        "startingOffsetsByTimestamp", "", "both", "Milliseconds per partition as JSON; wins over startingOffsets."
    ),
    OptionRow("endingOffsetsByTimestamp", "", "batch", "Milliseconds per partition as JSON; wins over endingOffsets."),
    OptionRow(
        "startingOffsetsByTimestampStrategy",
        "error",
        "both",
        "For partitions without such a record: error, or latest (the partition's end).",
    ),
    OptionRow(
        "minPartitions",
        "",
        "both",
        "Minimum number of Spark tasks: large ranges are split until there are about as many.",
    ),
    OptionRow("maxRecordsPerPartition", "", "stream", "Maximum records per task: larger ranges are split."),
    OptionRow(
        "maxOffsetsPerTrigger",
        "",
        "stream",
        "Maximum offsets per micro-batch, shared among the partitions in proportion.",
    ),
    OptionRow(
        "minOffsetsPerTrigger",
        "",
        "stream",
        "Minimum offsets per micro-batch; waits for them, but no longer than maxTriggerDelay.",
    ),
    OptionRow("maxTriggerDelay", "15m", "stream", "Longest time that minOffsetsPerTrigger may delay a micro-batch."),
    OptionRow(
        "commitGroupId", "", "stream", "Consumer group to which read offsets are committed, for tools that show lag."
    ),
    OptionRow("includeHeaders", "false", "both", "Whether rows have the column headers."),
    OptionRow(
        "failOnDataLoss", "true", "both", "Whether missing offsets fail the query; false logs a warning and reads on."
    ),
    OptionRow(
        "filterPushdown",
        "false",
        "batch",
        "Whether conditions on topic, partition, offset and timestamp skip ranges; for DataFrames used once.",
    ),
    OptionRow("ottla.log.dirs", "", "batch", "Data directories to read instead of brokers, separated by commas."),
    OptionRow(
        "groupIdPrefix", "", "both", "Accepted for compatibility, without effect: nothing is read through a group."
    ),
    OptionRow(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "both",
        "Longest time in milliseconds that a task waits for the next record.",
    ),
    OptionRow("fetchOffset.numRetries", "3", "both", "Number of retries of a lookup of offsets."),
    OptionRow("fetchOffset.retryIntervalMs", "10", "both", "Time in milliseconds before each retry."),
)
"""All options except kafka.*, which are passed to the consumer unchanged."""

# Options of the connector for features that this source lacks: accepted, so that jobs need only change the format.
_WITHOUT_EFFECT = (
    "kafka.consumer.cache.capacity",
    "checkpointLocation",
    "path",
    "queryName",
)

FORBIDDEN_KAFKA = {
    "auto.offset.reset": "set the option startingOffsets to earliest or latest; Spark keeps track of offsets itself",
    "key.deserializer": "keys arrive as binary; cast or parse the column key",
    "value.deserializer": "values arrive as binary; cast or parse the column value",
    "enable.auto.commit": "leave it out; offsets live in Spark's checkpoint",
    "interceptor.classes": "leave it out; interceptors could change what Spark reads",
}
"""Consumer options that Spark controls, and what to use instead."""
_BOOTSTRAP = "kafka.bootstrap.servers"


@dataclass(frozen=True)
class Subscription:
    """The topics or partitions to read: exactly one of the three is set."""

    assigned: frozenset[TopicPartition] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    def matches(self, topic: str) -> bool:
        """Return whether a topic is subscribed. As in the connector, a pattern may match anywhere in the name."""
        if self.assigned is not None:
            return any(tp.topic == topic for tp in self.assigned)
        if self.topics is not None:
            return topic in self.topics
        return re.search(self.pattern or "", topic) is not None


@dataclass(frozen=True)
class SourceOptions:
    """The validated options of one read."""

    subscription: Subscription
    starting: OffsetRangeLimit
    ending: OffsetRangeLimit
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60 * 1000
    commit_group_id: str | None = None
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    """The columns of the query's own schema; empty means all."""
    fail_on_data_loss: bool = True
    retries: int = 3
    retry_interval_ms: int = 10
    poll_timeout_ms: int = 120_000
    filter_pushdown: bool = False
    """Whether offsets that the query's conditions exclude are skipped."""
    log_dirs: tuple[str, ...] = ()
    """Data directories to read without a broker."""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Consumer options under Kafka's names, including bootstrap.servers."""

    @property
    def bootstrap_servers(self) -> str:
        """host:port of one or more brokers."""
        return self.kafka["bootstrap.servers"]


def read_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Validate the user's options. Names are case-insensitive. Raises ConfigurationError with the option."""
    warn_of_unknown(options, [row.name for row in OPTIONS], "source")
    return _checked(options, streaming)


def check_early(options: Mapping[str, str]) -> None:
    """Raise the ConfigurationErrors that batches and streams have in common, before Spark creates either reader."""
    faults = []
    for streaming in (False, True):
        try:
            _checked(options, streaming)
        except ConfigurationError as error:
            faults.append(error)
    if len(faults) == 2 and str(faults[0]) == str(faults[1]):
        raise faults[0]


def _checked(options: Mapping[str, str], streaming: bool) -> SourceOptions:
    # Spark may pass a dictionary with a name twice, as written and in lower case.
    lowered = {name.lower(): value for name, value in options.items()}
    log_dirs = get(lowered, "ottla.log.dirs", paths) or ()
    kafka = kafka_options(lowered, FORBIDDEN_KAFKA, with_brokers=not log_dirs)
    most_records = get(
        lowered, "maxRecordsPerPartition", positive
    )  # A batch ignores the value but rejects an invalid one.
    source_options = SourceOptions(
        subscription=_subscription(lowered),
        starting=_starting(lowered, streaming),
        ending=Latest() if streaming else _ending(lowered),
        min_partitions=get(lowered, "minPartitions", positive),
        max_records_per_partition=most_records if streaming else None,
        max_offsets_per_trigger=get(lowered, "maxOffsetsPerTrigger", positive),
        min_offsets_per_trigger=get(lowered, "minOffsetsPerTrigger", not_negative),
        max_trigger_delay_ms=get_or(lowered, "maxTriggerDelay", duration_ms, 15 * 60 * 1000),
        commit_group_id=get(lowered, "commitGroupId", group),
        include_headers=get_or(lowered, "includeHeaders", boolean, False),
        fail_on_data_loss=get_or(lowered, "failOnDataLoss", boolean, True),
        retries=get_or(lowered, "fetchOffset.numRetries", not_negative, 3),
        retry_interval_ms=get_or(lowered, "fetchOffset.retryIntervalMs", not_negative, 10),
        poll_timeout_ms=get_or(lowered, "kafkaConsumer.pollTimeoutMs", positive, 120_000),
        filter_pushdown=get_or(lowered, "filterPushdown", boolean, False),
        log_dirs=log_dirs,
        kafka=kafka,
    )
    _check_stream(lowered, source_options, streaming)
    _check_order(source_options.starting, source_options.ending)
    return source_options


def kafka_options(
    lowered: Mapping[str, str], forbidden: Mapping[str, str], *, with_brokers: bool = True
) -> dict[str, str]:
    """Return the client's options under Kafka's names. Raises ConfigurationError for one that Spark controls."""
    kafka = {name.removeprefix("kafka."): value for name, value in lowered.items() if name.startswith("kafka.")}
    for name, remedy in forbidden.items():
        if name in kafka:
            raise ConfigurationError(f"kafka.{name} ({kafka[name]!r}) is not supported: {remedy}")
    if with_brokers and not kafka.get("bootstrap.servers", "").strip():
        raise ConfigurationError(f'{_BOOTSTRAP} is required: .option("{_BOOTSTRAP}", "host:9092")')
    kafka.pop("consumer.cache.capacity", None)
    return kafka


def connection_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options that another client needs to reach the same cluster with the same timeout."""
    shared = (
        "bootstrap.servers",
        "security.",
        "ssl.",
        "sasl.",
        "client.",
        "request.timeout.ms",
        "default.api.timeout.ms",
    )
    return {name: value for name, value in kafka.items() if name.startswith(shared)}


def warn_of_unknown(options: Mapping[str, str], names: Iterable[str], side: str, source: str = "ottla") -> None:
    """Log unknown names, with the nearest known one."""
    names_by_lower_case = {name.lower(): name for name in (*names, *_WITHOUT_EFFECT)}
    for name in options:
        if name.lower() not in names_by_lower_case and not name.lower().startswith("kafka."):
            log.warning(
                "Unknown option %s of the %s %s%s", name, side, source, nearest(name, names_by_lower_case.values())
            )


def _subscription(lowered: Mapping[str, str]) -> Subscription:
    names = ("assign", "subscribe", "subscribePattern")
    chosen = [name for name in names if name.lower() in lowered]
    if len(chosen) != 1:
        problem = f"{' and '.join(chosen)} exclude each other" if chosen else "nothing to read is named"
        raise ConfigurationError(
            f'{problem}: set exactly one of {", ".join(names)}, as in .option("subscribe", "topic")'
        )
    name, text = chosen[0], lowered[chosen[0].lower()].strip()
    if name == "assign":
        return Subscription(assigned=parse_partitions(name, text))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(t.strip() for t in text.split(",") if t.strip()))
        if not topics:
            raise ConfigurationError(f"subscribe: {text!r} names no topic; separate topics by commas")
        return Subscription(topics=topics)
    return Subscription(pattern=_pattern(text))


def _pattern(text: str) -> str:
    if not text:
        raise ConfigurationError("subscribePattern: the pattern is empty; .* reads every topic")
    try:
        with warnings.catch_warnings():
            # Java's nested sets, such as [a-z&&[^x]], mean something else in Python, which warns about them.
            warnings.simplefilter("error", FutureWarning)
            re.compile(text)
    except (re.error, FutureWarning) as error:
        raise ConfigurationError(f"subscribePattern: {text!r} is not a regular expression: {error}") from None
    return text


def _starting(lowered: Mapping[str, str], streaming: bool) -> OffsetRangeLimit:
    latest_if_none = get(lowered, "startingOffsetsByTimestampStrategy", strategy) == "latest"
    bound = _bound(lowered, "starting", latest_if_none) or (Latest() if streaming else Earliest())
    if not streaming and (isinstance(bound, Latest) or _has_mark(bound, LATEST_MARK)):
        raise ConfigurationError(
            "startingOffsets: a batch cannot start at latest (-1), it would be empty; set earliest (-2) or offsets"
        )
    return bound


def _ending(lowered: Mapping[str, str]) -> OffsetRangeLimit:
    bound = _bound(lowered, "ending", latest_if_none=True) or Latest()
    if isinstance(bound, Earliest) or _has_mark(bound, EARLIEST_MARK):
        raise ConfigurationError(
            "endingOffsets: a batch cannot end at earliest (-2), it would be empty; set latest (-1) or offsets"
        )
    return bound


def _bound(lowered: Mapping[str, str], side: str, latest_if_none: bool) -> OffsetRangeLimit | None:
    """Return the limit of one side in the connector's order of precedence; None if no option is set."""
    timestamp = get(lowered, f"{side}Timestamp", not_negative)
    if timestamp is not None:
        return AtTimestamp(timestamp, latest_if_none)
    by_time = f"{side}OffsetsByTimestamp"
    if by_time.lower() in lowered:
        return AtTimestamps(parse_numbers(by_time, lowered[by_time.lower()]), latest_if_none)
    name = f"{side}Offsets"
    text = lowered.get(name.lower())
    if text is None:
        return None
    text = text.strip()
    simple: dict[str, OffsetRangeLimit] = {"earliest": Earliest(), "latest": Latest()}
    if text.lower() in simple:
        return simple[text.lower()]
    if not text.startswith("{"):
        raise ConfigurationError(f"{name}: {text!r} is not allowed; it must be earliest, latest or offsets as JSON")
    offsets = parse_numbers(name, text)
    if offsets and min(offsets.values()) < EARLIEST_MARK:
        raise ConfigurationError(f"{name}: {text!r} is not allowed: no offset is below -2, which stands for earliest")
    return Specific(offsets)


def _check_order(starting: OffsetRangeLimit, ending: OffsetRangeLimit) -> None:
    """Raise ConfigurationError for a start after the end, if this can be decided without brokers."""
    match starting, ending:
        case AtTimestamp(start), AtTimestamp(end):
            name, wrong = "Timestamp", [f"{start} and {end}"] if start > end else []
        case AtTimestamps(starts), AtTimestamps(ends):
            name, wrong = "OffsetsByTimestamp", _reversed(starts, ends)
        case Specific(starts), Specific(ends):
            name, wrong = "Offsets", _reversed(starts, ends)
        case _:
            return
    if wrong:
        raise ConfigurationError(
            f"starting{name} lies behind ending{name} ({', '.join(wrong)}): set a start that is not behind the end"
        )


def _reversed(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    # Negative offsets are symbolic, and partitions named on one side only are checked when the partitions are known.
    both = [(tp, start, ends[tp]) for tp, start in sorted(starts.items()) if tp in ends]
    return [f"{tp}: {start} and {end}" for tp, start, end in both if start > end >= 0]


def _has_mark(bound: OffsetRangeLimit, mark: int) -> bool:
    return isinstance(bound, Specific) and mark in bound.offsets.values()


def _check_stream(lowered: Mapping[str, str], options: SourceOptions, streaming: bool) -> None:
    if streaming and options.log_dirs:
        raise ConfigurationError("ottla.log.dirs: a stream needs brokers; leave it out, or read a batch")
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp"):
            if name.lower() in lowered:
                raise ConfigurationError(
                    f"{name}: a stream has no end; leave it out, or use .trigger(availableNow=True)"
                )
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise ConfigurationError(f"minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger ({most})")
