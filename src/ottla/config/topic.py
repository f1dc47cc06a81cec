"""A topic's options: all of Kafka's, with its defaults, and the broker option that each takes its default from."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from ottla.config.options import Config, Option, boolean, integer, number, one_of, text, words
from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.config")

LONG_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1
DAY_MS: Final = 86_400_000
_VERSION: Final = re.compile(r"\d+(\.\d+){1,3}(-IV\d+)?")

long_ = integer(0, LONG_MAX)
int_ = integer(0, INT_MAX)
long_or_none = integer(-1, LONG_MAX)


def format_version(value: Any) -> str:
    """A version of Kafka as message.format.version has it: 0.9.0, 0.10.2-IV0, 3.0."""
    version = text(value)
    if not _VERSION.fullmatch(version):
        raise ValueError("a version of Kafka such as 0.10.2 or 3.0-IV1 is wanted")
    return version


def message_format(version: str) -> int:
    """The message format that brokers of this version write: 0 before 0.10, 1 before 0.11, then 2."""
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    return 0 if numbers < (0, 10) else 1 if numbers < (0, 11) else 2


class TopicConfig(Config, subject="topic"):
    """What `kafka-configs --entity-type topics` can set."""

    cleanup_policy = Option[tuple[str, ...]](
        ("delete",),
        words("delete", "compact"),
        "What happens to old records: delete drops segments past their time or size, compact keeps each key's last.",
    )
    compression_gzip_level = Option(
        -1, integer(-1, 9), "Level when the broker compresses with gzip; -1 is the codec's default."
    )
    compression_lz4_level = Option(9, integer(1, 17), "Level when the broker compresses with lz4.")
    compression_zstd_level = Option(3, integer(-131072, 22), "Level when the broker compresses with zstd.")
    compression_type = Option(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "How batches are stored; producer keeps them as they came.",
    )
    delete_retention_ms = Option(DAY_MS, long_, "How long a compacted log keeps tombstones, in milliseconds.")
    file_delete_delay_ms = Option(60_000, long_, "How long files wait under another name before they are deleted.")
    flush_messages = Option(LONG_MAX, integer(1, LONG_MAX), "Unflushed records at which the log is flushed.")
    flush_ms = Option(LONG_MAX, long_, "Time after which unflushed records are flushed, in milliseconds.")
    follower_replication_throttled_replicas = Option(
        "", text, "Followers to throttle: partition:broker pairs with commas, or *."
    )
    index_interval_bytes = Option(4096, int_, "Bytes of log per index entry.")
    leader_replication_throttled_replicas = Option(
        "", text, "Leaders to throttle: partition:broker pairs with commas, or *."
    )
    local_retention_bytes = Option(-2, integer(-2, LONG_MAX), "Tiered storage, which is not offered; kept for tools.")
    local_retention_ms = Option(-2, integer(-2, LONG_MAX), "Tiered storage, which is not offered; kept for tools.")
    max_compaction_lag_ms = Option(
        LONG_MAX, integer(1, LONG_MAX), "The longest that a record may stay uncompacted, in milliseconds."
    )
    max_message_bytes = Option(1_048_588, int_, "The largest batch that is accepted, after compression.")
    message_downconversion_enable = Option(True, boolean, "Answer old consumers in old message formats.")
    message_format_version = Option(
        "3.0-IV1",
        format_version,
        "Below 0.11 batches are stored as messages of format 1, below 0.10 of format 0; else it has no effect.",
    )
    message_timestamp_after_max_ms = Option(
        3_600_000, long_, "How far a record's time may lie ahead of the broker's, in milliseconds."
    )
    message_timestamp_before_max_ms = Option(
        LONG_MAX, long_, "How far a record's time may lie behind the broker's, in milliseconds."
    )
    message_timestamp_difference_max_ms = Option(
        LONG_MAX, long_, "The older name of both message.timestamp.before.max.ms and message.timestamp.after.max.ms."
    )
    message_timestamp_type = Option(
        "CreateTime", one_of("CreateTime", "LogAppendTime"), "Whose clock counts: the producer's or the broker's."
    )
    min_cleanable_dirty_ratio = Option(0.5, number(0, 1), "Share of uncleaned bytes at which a log is compacted.")
    min_compaction_lag_ms = Option(0, long_, "How long a record stays uncompacted at least, in milliseconds.")
    min_insync_replicas = Option(1, integer(1, INT_MAX), "Replicas that must have a record that is sent with acks=all.")
    preallocate = Option(
        False,
        boolean,
        "Reserve a segment's bytes on the disk while it is written; given back when it is closed or idle.",
    )
    remote_log_copy_disable = Option(False, boolean, "Tiered storage, which is not offered; kept for tools.")
    remote_log_delete_on_disable = Option(False, boolean, "Tiered storage, which is not offered; kept for tools.")
    remote_storage_enable = Option(False, boolean, "Tiered storage, which is not offered; kept for tools.")
    retention_bytes = Option(-1, long_or_none, "Size of a partition beyond which old segments go; -1 is no limit.")
    retention_ms = Option(7 * DAY_MS, long_or_none, "Age at which segments go, in milliseconds; -1 is no limit.")
    segment_bytes = Option(1 << 30, integer(14, INT_MAX), "Size at which a segment is closed and a new one begun.")
    segment_index_bytes = Option(10 << 20, integer(4, INT_MAX), "The most that an index of a segment may take.")
    segment_jitter_ms = Option(0, long_, "Random time taken from segment.ms, so that segments do not roll together.")
    segment_ms = Option(7 * DAY_MS, integer(1, LONG_MAX), "Age at which a segment is closed, in milliseconds.")
    unclean_leader_election_enable = Option(
        False, boolean, "Let a replica that is not in sync become leader, at the price of lost records."
    )

    @classmethod
    def usable(cls, defaults: Mapping[str, Any], options: Mapping[str, str]) -> Self:
        """What is set on a topic, over the defaults of the broker.

        What is not allowed is left out, and told: people write into ZooKeeper by hand, where nobody checks it.
        """
        try:
            return cls({**defaults, **options})
        except ConfigurationError:
            return cls({**defaults, **{key: value for key, value in options.items() if cls._allows(key, value)}})

    @classmethod
    def _allows(cls, key: str, value: str) -> bool:
        option = cls.options.get(key)
        try:
            if option is not None:
                option.read(value)
        except ConfigurationError as error:
            log.error("an option of a topic is left out: %s", error.message)
            return False
        return True


BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "compression.type": ("compression.type",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.format.version": ("log.message.format.version",),
    "message.downconversion.enable": ("log.message.downconversion.enable",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "preallocate": ("log.preallocate",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""Topic option → the broker options that give its default, the one that counts first at the front."""

_UNIT_MS: Final = {"minutes": 60_000, "hours": 3_600_000}


def topic_defaults(broker: Mapping[str, Any]) -> dict[str, Any]:
    """The topic options that a broker's own options set: `broker` has those that were given, by Kafka's name.

    Options in minutes and hours become milliseconds (-1 stays -1). What the broker does not set is not in the result.
    """
    defaults: dict[str, Any] = {}
    for key, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            if broker.get(synonym) is not None:
                defaults[key] = in_ms(synonym, broker[synonym])
                break
    return defaults


def in_ms(synonym: str, value: Any) -> Any:
    """A broker option's value: hours and minutes, as its name ends, become milliseconds (-1 stays -1)."""
    unit = _UNIT_MS.get(synonym.rpartition(".")[2])
    if unit is None or int(value) < 0:
        return value
    return int(value) * unit


_TOPIC_FIELDS: Final = frozenset(name.replace(".", "_") for name in TopicConfig.options)


class LogConfig(NamedTuple):
    """The options that a log works by: those of TopicConfig, as plain fields that are cheap to read."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    cleanup_policy: tuple[str, ...] = ("delete",)
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    file_delete_delay_ms: int = 60_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    preallocate: bool = False
    message_downconversion_enable: bool = True
    message_format: int = 2
    """The format that batches are stored in."""
    max_decompressed_bytes: int = 16 * 1024 * 1024
    """What a producer's batch may decompress to: the broker's message.max.decompressed.bytes."""

    @property
    def compacted(self) -> bool:
        """Whether each key's last record is kept."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age at which a segment is closed; what must be compacted in time must be closed before."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    @property
    def deletes(self) -> bool:
        """Whether old segments are dropped."""
        return "delete" in self.cleanup_policy

    @classmethod
    def from_topic(cls, config: TopicConfig, **broker: int) -> LogConfig:
        """The log's part of a topic's options; the older timestamp option counts where the newer was not given.

        `broker` has the fields that only the broker can set.
        """
        values = {field: getattr(config, field) for field in cls._fields if field in _TOPIC_FIELDS}
        values.update(broker)
        values["message_format"] = message_format(config.message_format_version)
        if "message.timestamp.difference.max.ms" in config.originals:
            for side in ("before", "after"):
                if f"message.timestamp.{side}.max.ms" not in config.originals:
                    values[f"message_timestamp_{side}_max_ms"] = config.message_timestamp_difference_max_ms
        return cls(**values)
