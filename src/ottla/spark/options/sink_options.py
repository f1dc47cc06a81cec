"""The options of writes with `format("ottla")`, and the columns that they accept, which are those of Spark's Kafka
connector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.config.producer import ProducerConfig
from ottla.errors import ConfigurationError
from ottla.spark.options.option_values import get, not_negative
from ottla.spark.options.options import OptionRow, connection_options, kafka_options, warn_of_unknown

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ONCE_OPTIONS: Final = (
    OptionRow(
        "sinkId",
        "",
        "batch",
        "In foreachBatch: a name for this write, which then happens exactly once per micro-batch.",
    ),
    OptionRow(
        "batchId",
        "",
        "batch",
        "With Spark Connect in foreachBatch: the id of the micro-batch; sinkId must then be unique among all queries.",
    ),
)
"""The options of all sinks for writes in foreachBatch."""
SINK_OPTIONS: Final = (
    OptionRow("topic", "", "both", "The topic to write to; overrides the column topic."),
    OptionRow(
        "transactionalIdPrefix",
        "ottla-sink",
        "both",
        "The prefix of transactional ids, and of the consumer groups whose offsets mark the written micro-batches.",
    ),
    OptionRow(
        "topic.creation.default.*",
        "",
        "both",
        "Configs with which the topic in the option topic is created if it is missing, as in Kafka Connect (KIP-158): "
        "partitions and replication.factor (-1, the default: the brokers' default), and any topic config, such as "
        "topic.creation.default.ottla.table.format.",
    ),
    *ONCE_OPTIONS,
)
"""The options of the sink, except those that begin with kafka., which are passed to the producer."""

FORBIDDEN: Final = {
    "key.serializer": "cast the column key to string or binary",
    "value.serializer": "cast the column value to string or binary",
    "transactional.id": "set transactionalIdPrefix; the ids consist of it, the query and the partition",
    "enable.idempotence": "remove it or set it to true; the sink writes in transactions",
    "interceptor.classes": "remove it; interceptors could change what Spark writes",
}
IDEMPOTENCE: Final = "kafka.enable.idempotence"
CREATION: Final = "topic.creation.default."
"""The prefix of options with which a missing topic is created."""
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The default of kafka.transaction.timeout.ms: the maximum that brokers accept by default, because a transaction is
open as long as its task computes rows.
"""


class Creation(NamedTuple):
    """The properties of a new topic. A number of -1 stands for the brokers' default."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


@dataclass(frozen=True)
class SinkOptions:
    """The validated options of a write."""

    topic: str | None = None
    prefix: str = "ottla-sink"
    sink_id: str | None = None
    batch_id: int | None = None
    kafka: Mapping[str, str] = field(default_factory=dict)
    """Producer configs with Kafka's names, including bootstrap.servers."""
    creation: Creation | None = None
    """The properties with which the sink creates a missing topic; None if it does not create topics."""

    @property
    def transaction_timeout_ms(self) -> int:
        """The time in milliseconds after which brokers abort the transaction of a task that has not committed it."""
        return int(self.kafka["transaction.timeout.ms"])

    @property
    def connection(self) -> dict[str, str]:
        """The configs that any client needs in order to connect to the cluster, without those of the producer."""
        return connection_options(self.kafka)


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Validate the options of a write, and return them. Their names are case-insensitive, and unknown ones are logged.
    Raises ConfigurationError, which names the option.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    if lowered.get(IDEMPOTENCE, "").strip().lower() == "true":
        lowered.pop(IDEMPOTENCE)  # Many jobs set it; transactions require it anyway.
    creation = {name: value for name, value in lowered.items() if name.startswith(CREATION)}
    others = {name: value for name, value in options.items() if name.lower() not in creation}
    warn_of_unknown(others, [row.name for row in SINK_OPTIONS], "sink")
    kafka = {"transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS), **kafka_options(lowered, FORBIDDEN)}
    _check_fits_transactions(kafka)
    return SinkOptions(
        topic=_text(lowered, "topic"),
        prefix=_text(lowered, "transactionalIdPrefix") or SinkOptions.prefix,
        sink_id=_text(lowered, "sinkId"),
        batch_id=batch_id(lowered),
        kafka=kafka,
        creation=_creation(lowered, {name.removeprefix(CREATION): value for name, value in creation.items()}),
    )


def _creation(lowered: Mapping[str, str], configs: dict[str, str]) -> Creation | None:
    if not configs:
        return None
    if "topic" not in lowered:
        raise ConfigurationError(f"{CREATION}{next(iter(configs))} needs the option topic, which names the topic")
    return Creation(_size(configs, "partitions"), _size(configs, "replication.factor"), configs)


def _size(configs: dict[str, str], name: str) -> int:
    text = configs.pop(name, "-1")
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size < 1 and size != -1:
        raise ConfigurationError(f"{CREATION}{name}: {text!r} is not allowed: expected at least 1, or -1")
    return size


def _check_fits_transactions(kafka: Mapping[str, str]) -> None:
    """Raise ConfigurationError if acks, retries or max.in.flight.requests.per.connection do not allow transactions."""
    decisive = ("bootstrap.servers", "acks", "retries", "max.in.flight.requests.per.connection")
    conflicting = {name: kafka[name] for name in decisive if name in kafka}
    for name, _, allowed in ProducerConfig.from_kafka(conflicting).idempotence_conflicts():
        raise ConfigurationError(
            f"kafka.{name} ({kafka[name]!r}) is not supported: leave it out or set it to {allowed};"
            " the sink writes in transactions"
        )


def batch_id(lowered: Mapping[str, str]) -> int | None:
    """Return the option batchId, for a foreachBatch in which Spark does not report the micro-batch; None if it is not
    set. Raises ConfigurationError if it is invalid, or if sinkId is missing.
    """
    value = get(lowered, "batchId", not_negative)
    if value is not None and not lowered.get("sinkid", "").strip():
        raise ConfigurationError(f"batchId ({value}) needs the option sinkId, which names the write")
    return value


def _text(lowered: Mapping[str, str], name: str) -> str | None:
    text = lowered.get(name.lower())
    if text is not None and not text.strip():
        raise ConfigurationError(f"{name}: it is empty")
    return None if text is None else text.strip()


HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS_TYPE,),
}
"""The columns that are written, with their types. Other columns are ignored."""


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise ConfigurationError, which says what to do, if a DataFrame with this schema cannot be written."""
    types: dict[str, Any] = {f.name.lower(): f.dataType.simpleString() for f in schema.fields}
    if "value" not in types:
        raise ConfigurationError(f"the column value is missing (there are {', '.join(types) or 'none'}); name it so")
    if options.topic is None and "topic" not in types:
        raise ConfigurationError('no topic is named: set .option("topic", "…") or add a column topic')
    for name, allowed in COLUMNS.items():
        if name in types and types[name] not in allowed:
            raise ConfigurationError(f"the column {name} is of type {types[name]}, not {' or '.join(allowed)}: cast it")
