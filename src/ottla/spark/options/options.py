"""The options of reads with `format("ottla")`, and their validation. They include those of reads with Spark's Kafka
connector.

The docs and the check for unknown options are derived from the table `OPTIONS`.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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

log: Final = logging.getLogger("ottla.spark")


class OptionRow(NamedTuple):
    """An option in the table of the docs. `applies_to` is batch, stream or both; an empty `default` stands for none."""

    name: str
    default: str
    applies_to: str
    doc: str


OPTIONS = (
    OptionRow("assign", "", "both", 'Partitions to read: {"topicA": [0, 1]}.'),
    OptionRow("subscribe", "", "both", "Topics to read, separated by commas."),
    OptionRow(
        "subscribePattern",
        "",
        "both",
        "Regular expression: topics whose names contain a match are read, except internal topics.",
    ),
    OptionRow(
        "startingOffsets",
        "earliest (batch), latest (stream)",
        "both",
        "earliest, latest (only streams) or offsets as JSON, with -2 for earliest and -1 for latest. A stream with a "
        "checkpoint continues there instead.",
    ),
    OptionRow(
        "endingOffsets",
        "latest",
        "batch",
        "latest or offsets as JSON, which are exclusive, with -1 for latest; a stream has no end.",
    ),
    OptionRow(
        "startingTimestamp",
        "",
        "both",
        "Timestamp in milliseconds since 1970 at which to start; overrides startingOffsetsByTimestamp and "
        "startingOffsets.",
    ),
    OptionRow(
        "endingTimestamp",
        "",
        "batch",
        "Timestamp in milliseconds since 1970 before which to end; overrides endingOffsetsByTimestamp and "
        "endingOffsets.",
    ),
    OptionRow(
        "startingOffsetsByTimestamp",
        "",
        "both",
        "Timestamp in milliseconds since 1970 per partition, as JSON; overrides startingOffsets.",
    ),
    OptionRow(
        "endingOffsetsByTimestamp",
        "",
        "batch",
        "Timestamp in milliseconds since 1970 per partition, as JSON; overrides endingOffsets.",
    ),
    OptionRow(
        "startingOffsetsByTimestampStrategy",
        "error",
        "both",
        "For partitions without a record at or after the timestamp: error, or latest (start at the end).",
    ),
    OptionRow(
        "minPartitions",
        "",
        "both",
        "Desired minimum number of Spark tasks: large ranges are split to have about this many.",
    ),
    OptionRow("maxRecordsPerPartition", "", "stream", "Maximum number of records per task: larger ranges are split."),
    OptionRow(
        "maxOffsetsPerTrigger",
        "",
        "stream",
        "Approximate maximum number of offsets per micro-batch, divided among the partitions in proportion to their "
        "lag. Requires Spark 4.2.",
    ),
    OptionRow(
        "minOffsetsPerTrigger",
        "",
        "stream",
        "Minimum number of offsets per micro-batch: a micro-batch is delayed until there are as many, or for "
        "maxTriggerDelay. Requires Spark 4.2.",
    ),
    OptionRow(
        "maxTriggerDelay",
        "15m",
        "stream",
        "Maximum time after the previous micro-batch for which minOffsetsPerTrigger delays the next one, such as 30s "
        "or 15m.",
    ),
    OptionRow(
        "commitGroupId",
        "",
        "stream",
        "Consumer group for which processed offsets are committed, so that tools can show the lag.",
    ),
    OptionRow("includeHeaders", "false", "both", "Whether rows have the column headers."),
    OptionRow(
        "failOnDataLoss",
        "true",
        "both",
        "Whether the query fails if offsets are missing; if false, it logs a warning and continues.",
    ),
    OptionRow(
        "filterPushdown",
        "false",
        "batch",
        "Whether offsets are skipped that conditions on topic, partition, offset and timestamp exclude; only for "
        "DataFrames that are used once.",
    ),
    OptionRow("ottla.log.dirs", "", "batch", "Log directories to read instead of brokers, separated by commas."),
    OptionRow(
        "ottla.table",
        "false",
        "batch",
        "Whether the topic in subscribe is read with its table (ottla.table.format): rows of the table, and of the log "
        "after it, with the columns of the table.",
    ),
    OptionRow(
        "ottla.table.catalog.config",
        "",
        "batch",
        "Properties file with credentials of catalogs, object stores and schema registries, as for `ottla tables`.",
    ),
    OptionRow(
        "ottla.table.directory",
        "",
        "batch",
        "Directory of tables without ottla.table.location, if it is not below the first log directory.",
    ),
    OptionRow(
        "groupIdPrefix",
        "",
        "both",
        "No effect (accepted for compatibility): records are read without a consumer group.",
    ),
    OptionRow(
        "kafkaConsumer.pollTimeoutMs",
        "120000",
        "both",
        "Maximum time in milliseconds for which a task waits for the next record before it fails.",
    ),
    OptionRow(
        "fetchOffset.numRetries",
        "3",
        "both",
        "Maximum number of retries after a failed lookup of partitions or offsets.",
    ),
    OptionRow("fetchOffset.retryIntervalMs", "10", "both", "Time in milliseconds before each retry."),
)
"""The options of reads, except those that begin with kafka., which are passed to the consumer."""

# Options of Spark, and one of the connector for a feature that this source lacks. They are accepted without a warning.
_WITHOUT_EFFECT = (
    "kafka.consumer.cache.capacity",
    "checkpointLocation",
    "path",
    "queryName",
)

FORBIDDEN_KAFKA = {
    "auto.offset.reset": "set the option startingOffsets to earliest or latest; Spark manages offsets",
    "key.deserializer": "keys are binary; cast or parse the column key",
    "value.deserializer": "values are binary; cast or parse the column value",
    "enable.auto.commit": "remove it; Spark stores offsets in its checkpoint",
    "interceptor.classes": "remove it; interceptors could change what Spark reads",
}
"""Consumer configs that are rejected, and what to do instead."""
_BOOTSTRAP = "kafka.bootstrap.servers"


@dataclass(frozen=True)
class Subscription:
    """The topics or partitions to read. Exactly one of the three attributes is set."""

    assigned: frozenset[TopicPartition] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    def matches(self, topic: str) -> bool:
        """Return whether a topic is subscribed. As in the connector, a pattern may match anywhere in its name."""
        if self.assigned is not None:
            return any(tp.topic == topic for tp in self.assigned)
        if self.topics is not None:
            return topic in self.topics
        return re.search(self.pattern or "", topic) is not None


@dataclass(frozen=True)
class SourceOptions:
    """The validated options of a read."""

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
    """The columns of the rows; empty for the default columns."""
    fail_on_data_loss: bool = True
    retries: int = 3
    retry_interval_ms: int = 10
    poll_timeout_ms: int = 120_000
    filter_pushdown: bool = False
    """Whether offsets that the query's conditions exclude are skipped."""
    log_dirs: tuple[str, ...] = ()
    """Log directories to read instead of brokers."""
    table: bool = False
    """Whether the topic is read with its table."""
    table_catalog_config: str = ""
    table_directory: str = ""
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Consumer configs with Kafka's names. Without log directories, bootstrap.servers is one of them."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of brokers, separated by commas."""
        return self.kafka["bootstrap.servers"]


def read_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Validate the options of a read, and return them. Their names are case-insensitive, and unknown ones are logged.
    Raises ConfigurationError, which names the option.
    """
    warn_of_unknown(options, [row.name for row in OPTIONS], "source")
    return _checked(options, streaming)


def check_early(options: Mapping[str, str]) -> None:
    """Raise ConfigurationError if batch reads and streaming reads reject the options with the same error."""
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
        table=get_or(lowered, "ottla.table", boolean, False),
        table_catalog_config=lowered.get("ottla.table.catalog.config", ""),
        table_directory=lowered.get("ottla.table.directory", ""),
        kafka=kafka,
    )
    _check_stream(lowered, source_options, streaming)
    _check_table(source_options)
    _check_order(source_options.starting, source_options.ending)
    return source_options


def kafka_options(
    lowered: Mapping[str, str], forbidden: Mapping[str, str], *, with_brokers: bool = True
) -> dict[str, str]:
    """Return the client configs with Kafka's names.

    Raises ConfigurationError for a config in `forbidden`, and, if brokers are needed (`with_brokers`), if
    bootstrap.servers is missing or empty.
    """
    kafka = {name.removeprefix("kafka."): value for name, value in lowered.items() if name.startswith("kafka.")}
    for name, remedy in forbidden.items():
        if name in kafka:
            raise ConfigurationError(f"kafka.{name} ({kafka[name]!r}) is not supported: {remedy}")
    if with_brokers and not kafka.get("bootstrap.servers", "").strip():
        raise ConfigurationError(f'{_BOOTSTRAP} is required: .option("{_BOOTSTRAP}", "host:9092")')
    kafka.pop("consumer.cache.capacity", None)
    return kafka


def connection_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the configs that another client needs to reach the same cluster with the same timeout."""
    shared = ("bootstrap.servers", "security.", "ssl.", "sasl.", "client.", "request.timeout.ms")
    return {name: value for name, value in kafka.items() if name.startswith(shared)}


def warn_of_unknown(options: Mapping[str, str], names: Iterable[str], side: str, source: str = "ottla") -> None:
    """Log a warning for each unknown option, with the most similar known one if there is one. Options that begin with
    kafka. are not checked.
    """
    names_by_lower_case = {name.lower(): name for name in (*names, *_WITHOUT_EFFECT)}
    for name in options:
        if name.lower() not in names_by_lower_case and not name.lower().startswith("kafka."):
            log.warning(
                "Ignoring the unknown option %s of the %s %s%s",
                name,
                source,
                side,
                nearest(name, names_by_lower_case.values()),
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
    """Return the start or end that the options specify, in the connector's order of precedence; None if no option is
    set.
    """
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
    """Raise ConfigurationError if the start is after the end. Only a start and an end of the same form are compared."""
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
            f"starting{name} is after ending{name} ({', '.join(wrong)}): set a start that is not after the end"
        )


def _reversed(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[str]:
    # Negative offsets are symbolic, and partitions named on one side only are checked when the partitions are known.
    both = [(tp, start, ends[tp]) for tp, start in sorted(starts.items()) if tp in ends]
    return [f"{tp}: {start} and {end}" for tp, start, end in both if start > end >= 0]


def _has_mark(bound: OffsetRangeLimit, mark: int) -> bool:
    return isinstance(bound, Specific) and mark in bound.offsets.values()


def _check_table(options: SourceOptions) -> None:
    if not options.table:
        return
    if options.log_dirs:
        raise ConfigurationError("ottla.table and ottla.log.dirs exclude each other")
    if not isinstance(options.starting, Earliest) or not isinstance(options.ending, Latest):
        raise ConfigurationError(
            "ottla.table: the table and the log are read as a whole; leave startingOffsets and endingOffsets out, and "
            "use conditions on the columns"
        )


def _check_stream(lowered: Mapping[str, str], options: SourceOptions, streaming: bool) -> None:
    if streaming and options.table:
        raise ConfigurationError("ottla.table: a stream reads the log; leave it out, or read a batch")
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
