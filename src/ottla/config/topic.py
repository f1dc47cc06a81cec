"""A topic's options: Kafka's, with its defaults, and those of its table (`ottla.table.*`). `BROKER_SYNONYMS` has the
broker configs from which topics get defaults.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from ottla.config.options import Config, Option, boolean, gzip_level, integer, number, one_of, text, words
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
    """Parse a version of Kafka as in message.format.version: 0.9.0, 0.10.2-IV0, 3.0."""
    version = text(value)
    if not _VERSION.fullmatch(version):
        raise ValueError("expected a Kafka version such as 0.10.2 or 3.0-IV1")
    return version


def message_format(version: str) -> int:
    """Return the message format that brokers of this version write: 0 before 0.10, 1 before 0.11, then 2."""
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    return 0 if numbers < (0, 10) else 1 if numbers < (0, 11) else 2


NO_TABLE: Final = "none"
SCHEMAS: Final = ("bytes", "text", "json", "registry")
_PARTITION_FIELD: Final = re.compile(r"[^\s,()\[\]]+|(year|month|day|hour)\([^\s,()]+\)")


def table_schema(value: Any) -> str:
    """Parse ottla.table.schema: the kind of the values.

    It may be followed by a colon and the fields (`json:NAME TYPE,…`) or the schema registry's URL (`registry:URL`).
    """
    declared = text(value).strip()
    kind, _, argument = (part.strip() for part in declared.partition(":"))
    if kind not in SCHEMAS or (argument and kind not in ("json", "registry")):
        raise ValueError(f"expected one of {', '.join(SCHEMAS)}, json:NAME TYPE,… or registry:URL")
    if kind == "registry" and argument and not argument.startswith(("http://", "https://")):
        raise ValueError("expected registry:http://HOST:PORT")
    if kind == "json" and argument:
        from ottla.table_fields import declared_fields  # a start without tables does not load it

        declared_fields(argument)
    return declared


def partition_fields(value: Any) -> tuple[str, ...]:
    """Parse ottla.table.partition.by: names of columns, or transforms of Iceberg such as day(timestamp)."""
    fields = words()(value)
    for field in fields:
        if not _PARTITION_FIELD.fullmatch(field):
            raise ValueError(f"{field!r} is neither a column nor a transform such as day(timestamp)")
    return fields


class TableConfig(Config, subject="table"):
    """The configs of a topic's table. Brokers check them like all topic configs; `ottla tables` uses them."""

    ottla_table_format = Option(
        NO_TABLE,
        one_of(NO_TABLE, "iceberg", "delta", "parquet"),
        "Format of the table to which `ottla tables` writes the topic's records: iceberg, delta or parquet; none: it "
        "writes no table.",
    )
    ottla_table_location = Option(
        "",
        text,
        "Directory or URL of the table, such as s3://bucket/tables/t, gs://bucket/t or "
        "abfss://container@account.dfs.core.windows.net/t; by default tables/TOPIC below the broker's first log "
        "directory.",
    )
    ottla_table_catalog = Option(
        "",
        text,
        "Catalog of an Iceberg table: the URL of a REST catalog (http://, https://), or an SQLAlchemy URL "
        "(postgresql+psycopg://…); by default the SQLite file tables/catalog.db below the first log directory.",
    )
    ottla_table_schema = Option(
        "bytes",
        table_schema,
        "Columns for the values in the table: bytes or text for one column `value`; json for a column per field, where "
        "the fields are inferred, or declared as in json:id bigint,name string,price double; registry, or "
        "registry:http://HOST:PORT, for a column per field of the latest schema in a schema registry.",
    )
    ottla_table_partition_by = Option[tuple[str, ...]](
        (),
        partition_fields,
        "Columns by which the table is partitioned; for Iceberg also transforms, such as day(timestamp). Empty: it is "
        "not partitioned.",
    )
    ottla_table_mode = Option(
        "append",
        one_of("append", "upsert"),
        "append: the table has a row per record; upsert: it has a row per key, that of the key's last record, and a "
        "tombstone deletes the row.",
    )
    ottla_table_flush_ms = Option(
        60_000,
        integer(0, LONG_MAX),
        "Time in milliseconds after which `ottla tables` writes new records to the table, unless "
        "ottla.table.flush.bytes is reached earlier.",
    )
    ottla_table_flush_bytes = Option(
        128 << 20,
        integer(1, LONG_MAX),
        "Size in bytes of new records in the log at which `ottla tables` writes them to the table before "
        "ottla.table.flush.ms has passed. It is also the approximate maximum size of the records in one commit.",
    )
    ottla_table_compact_files = Option(
        16,
        integer(0, LONG_MAX),
        "Number of small files in a partition of the table (in all of it if it is not partitioned) at which `ottla "
        "tables` merges them after a write; 0: never; 1 is the same as 2. A file counts as small below half of "
        "ottla.table.flush.bytes.",
    )
    ottla_table_retention_ms = Option(
        86_400_000,
        integer(-1, LONG_MAX),
        "Time in milliseconds for which old snapshots of the table, and the files that only they use, are retained; "
        "-1: no limit.",
    )


class TopicConfig(TableConfig, subject="topic"):
    """The configs that `kafka-configs --entity-type topics` can set."""

    cleanup_policy = Option[tuple[str, ...]](
        ("delete",),
        words("delete", "compact"),
        "What happens to old segments: delete removes them by retention.ms and retention.bytes, compact keeps the last "
        "record of each key; with delete,compact both apply.",
    )
    compression_gzip_level = Option(
        -1,
        gzip_level,
        "Level at which the broker compresses batches if compression.type is gzip and the producer sent them with "
        "another codec, 1 to 9; -1: the default level of gzip.",
    )
    compression_lz4_level = Option(
        9,
        integer(1, 17),
        "Level at which the broker compresses batches if compression.type is lz4 and the producer sent them with "
        "another codec, 1 to 17.",
    )
    compression_zstd_level = Option(
        3,
        integer(-131072, 22),
        "Level at which the broker compresses batches if compression.type is zstd and the producer sent them with "
        "another codec, -131072 to 22.",
    )
    compression_type = Option(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of stored batches. With producer, the broker stores them as they were sent; with uncompressed or a "
        "codec, it converts batches that differ.",
    )
    delete_retention_ms = Option(
        DAY_MS,
        long_,
        "Time in milliseconds for which a tombstone in a compacted topic is retained after the first compaction that "
        "includes it; a later compaction removes it.",
    )
    file_delete_delay_ms = Option(
        60_000,
        long_,
        "Time in milliseconds before the files of a deleted segment or partition are removed from the disk.",
    )
    flush_messages = Option(
        LONG_MAX,
        integer(1, LONG_MAX),
        "Number of unflushed records in a partition at which the broker flushes it to disk with fsync.",
    )
    flush_ms = Option(
        LONG_MAX,
        long_,
        "Time in milliseconds after the last flush of a partition at which the broker flushes its new records to disk "
        "with fsync. It is only checked every log.flush.scheduler.interval.ms of the broker, by default never.",
    )
    follower_replication_throttled_replicas = Option(
        "",
        text,
        "Replicas to throttle while they are followers outside the ISR, as partition:broker pairs separated by commas, "
        "or * for all; empty: none. Together, those of a broker fetch at no more than its "
        "follower.replication.throttled.rate.",
    )
    index_interval_bytes = Option(
        4096, int_, "Minimum number of bytes of the log between two entries of a segment's offset index."
    )
    leader_replication_throttled_replicas = Option(
        "",
        text,
        "Replicas to throttle while they are leaders, as partition:broker pairs separated by commas, or * for all; "
        "empty: none. Together, those of a broker send to followers outside the ISR at no more than its "
        "leader.replication.throttled.rate.",
    )
    local_retention_bytes = Option(
        -2,
        integer(-2, LONG_MAX),
        "Size in bytes of the local log of a tiered partition above which a broker deletes the oldest segments that "
        "are in remote storage already; at most retention.bytes. -1: no limit; -2: the value of retention.bytes.",
    )
    local_retention_ms = Option(
        -2,
        integer(-2, LONG_MAX),
        "Time in milliseconds for which brokers retain records of a tiered topic that are in remote storage already; "
        "at most retention.ms. -1: no limit; -2: the value of retention.ms.",
    )
    max_compaction_lag_ms = Option(
        LONG_MAX,
        integer(1, LONG_MAX),
        "Age in milliseconds of an uncompacted record at which the log of a compacted topic becomes due for "
        "compaction, whatever min.cleanable.dirty.ratio is. A segment of such a topic is also rolled at this age if "
        "segment.ms is longer.",
    )
    max_message_bytes = Option(
        1_048_588,
        int_,
        "Maximum size in bytes of a record batch, after compression; producers of a larger one get MESSAGE_TOO_LARGE.",
    )
    message_downconversion_enable = Option(
        True,
        boolean,
        "Whether the broker converts batches for consumers that can only read older message formats; if false, such "
        "consumers get UNSUPPORTED_VERSION.",
    )
    message_format_version = Option(
        "3.0-IV1",
        format_version,
        "Kafka version that determines the message format in which the broker stores new batches: format 0 for a "
        "version below 0.10, format 1 for 0.10, and format 2 for 0.11 and all later versions.",
    )
    message_timestamp_after_max_ms = Option(
        3_600_000,
        long_,
        "Maximum time in milliseconds by which a record's timestamp may be ahead of the broker's clock; the broker "
        "rejects records that exceed it. Ignored with LogAppendTime, and for batches that ottla.validate.records=crc "
        "of the broker leaves unchecked.",
    )
    message_timestamp_before_max_ms = Option(
        LONG_MAX,
        long_,
        "Maximum time in milliseconds by which a record's timestamp may be behind the broker's clock; the broker "
        "rejects records that exceed it. Ignored with LogAppendTime, and for batches that ottla.validate.records=crc "
        "of the broker leaves unchecked.",
    )
    message_timestamp_difference_max_ms = Option(
        LONG_MAX,
        long_,
        "Deprecated name that sets both message.timestamp.before.max.ms and message.timestamp.after.max.ms, in "
        "milliseconds; if one of them is set itself, its own value applies.",
    )
    message_timestamp_type = Option(
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Timestamp that stored records get: CreateTime (that of the producer) or LogAppendTime (the broker's clock at "
        "the append).",
    )
    min_cleanable_dirty_ratio = Option(
        0.5,
        number(0, 1),
        "Share of the log, from 0 to 1, that must be uncompacted before a compacted topic's log is compacted; it is "
        "compacted earlier if max.compaction.lag.ms is exceeded.",
    )
    min_compaction_lag_ms = Option(
        0,
        long_,
        "Minimum age in milliseconds of a record before it may be compacted; 0: no minimum, although the active "
        "segment is never compacted.",
    )
    min_insync_replicas = Option(
        1,
        integer(1, INT_MAX),
        "Minimum number of in-sync replicas, including the leader, that writes with acks=all require; with fewer they "
        "fail. If the partition has fewer replicas, all of them must be in sync.",
    )
    preallocate = Option(
        False,
        boolean,
        "Whether the file of a new segment is allocated at its full size (segment.bytes); the unused rest is released "
        "when the segment is closed or idle.",
    )
    remote_log_copy_disable = Option(
        False,
        boolean,
        "Whether to stop copying segments of a tiered topic to remote storage; segments that were copied stay readable "
        "(KIP-950).",
    )
    remote_log_delete_on_disable = Option(
        False,
        boolean,
        "Whether the topic's records in remote storage are deleted when remote.storage.enable is set to false "
        "(KIP-950). While this is false, remote.storage.enable of a tiered topic cannot be set to false.",
    )
    remote_storage_enable = Option(
        False,
        boolean,
        "Whether the topic is tiered: leaders copy its closed segments to remote storage (KIP-405). Requires "
        "remote.log.storage.system.enable on the brokers; not allowed for compacted topics.",
    )
    retention_bytes = Option(
        -1,
        long_or_none,
        "Size in bytes of a partition above which its oldest segments are deleted, if cleanup.policy includes delete; "
        "-1: no limit.",
    )
    retention_ms = Option(
        7 * DAY_MS,
        long_or_none,
        "Time in milliseconds to retain records, if cleanup.policy includes delete; a segment is deleted when its "
        "newest record is older. -1: no limit.",
    )
    segment_bytes = Option(
        1 << 30,
        integer(14, INT_MAX),
        "Maximum size in bytes of a segment; a new segment is rolled before an append that would exceed it.",
    )
    segment_index_bytes = Option(
        10 << 20,
        integer(4, INT_MAX),
        "Maximum size in bytes of a segment's offset index and of its time index; when one of them is full, a new "
        "segment is rolled.",
    )
    segment_jitter_ms = Option(
        0,
        long_,
        "Maximum random time in milliseconds by which a segment is rolled before it reaches the age segment.ms, so "
        "that not all segments are rolled at the same time.",
    )
    segment_ms = Option(
        7 * DAY_MS,
        integer(1, LONG_MAX),
        "Age in milliseconds of a segment at which the next write rolls a new one. In a compacted topic, "
        "max.compaction.lag.ms applies instead if it is shorter.",
    )
    unclean_leader_election_enable = Option(
        False,
        boolean,
        "Allow a replica that is not in sync to become the leader if no in-sync replica is available. The partition is "
        "available again sooner, but records may be lost.",
    )

    @classmethod
    def usable(cls, topic: str, defaults: Mapping[str, Any], configs: Mapping[str, str]) -> Self:
        """Return the config of the topic with this name: `configs`, which override the broker's `defaults`.

        Invalid configs are logged and ignored: configs that were written to ZooKeeper by hand were not validated.
        """
        try:
            return cls({**defaults, **configs})
        except ConfigurationError:
            return cls({**defaults, **{key: value for key, value in configs.items() if cls._allows(topic, key, value)}})

    @classmethod
    def _allows(cls, topic: str, key: str, value: str) -> bool:
        option = cls.options.get(key)
        try:
            if option is not None:
                option.read(value)
        except ConfigurationError as error:
            log.error(
                "Ignoring an invalid config of topic %s, for which the broker's default applies: %s. Correct it with "
                "`ottla configs`.",
                topic,
                error.message,
            )
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
    "local.retention.bytes": ("log.local.retention.bytes",),
    "local.retention.ms": ("log.local.retention.ms",),
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
"""By topic config: the broker configs that set its default, in order of precedence."""

_UNIT_MS: Final = {"minutes": 60_000, "hours": 3_600_000}


def topic_defaults(broker: Mapping[str, Any]) -> dict[str, Any]:
    """Return the topic configs that follow from a broker's own configs; `broker` has those that were set, by Kafka's
    name.

    Configs in minutes and hours become milliseconds (-1 stays -1). Configs that the broker does not set are left out.
    """
    defaults: dict[str, Any] = {}
    for key, synonyms in BROKER_SYNONYMS.items():
        for synonym in synonyms:
            if broker.get(synonym) is not None:
                defaults[key] = in_ms(synonym, broker[synonym])
                break
    return defaults


def in_ms(synonym: str, value: Any) -> Any:
    """Return a broker config's value, in milliseconds if its name ends in hours or minutes (-1 stays -1)."""
    unit = _UNIT_MS.get(synonym.rpartition(".")[2])
    if unit is None or int(value) < 0:
        return value
    return int(value) * unit


_TOPIC_FIELDS: Final = frozenset(name.replace(".", "_") for name in TopicConfig.options)


class LogConfig(NamedTuple):
    """The configs of a log, most of them of TopicConfig, as plain fields that are cheap to read."""

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
    remote_storage_enable: bool = False
    """Whether the topic is tiered, which also requires the broker's remote.log.storage.system.enable."""
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2
    message_downconversion_enable: bool = True
    message_format: int = 2
    """The magic in which batches are stored: 0, 1 or 2."""
    max_decompressed_bytes: int = 16 * 1024 * 1024
    """Maximum decompressed size of a producer's batch: the broker's message.max.decompressed.bytes."""
    validate_records: str = "all"
    """Level of validation of a producer's batch: the broker's ottla.validate.records."""

    @property
    def compacted(self) -> bool:
        """Whether the log is compacted, so that it keeps the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """Age in milliseconds at which a new segment is rolled; for compacted topics early enough for
        max.compaction.lag.ms.
        """
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacted else self.segment_ms

    @property
    def effective_local_retention_ms(self) -> int:
        """local.retention.ms, or retention.ms if local.retention.ms is -2."""
        return self.retention_ms if self.local_retention_ms == -2 else self.local_retention_ms

    @property
    def effective_local_retention_bytes(self) -> int:
        """local.retention.bytes, or retention.bytes if local.retention.bytes is -2."""
        return self.retention_bytes if self.local_retention_bytes == -2 else self.local_retention_bytes

    @property
    def deletes(self) -> bool:
        """Whether segments are deleted by retention.ms and retention.bytes."""
        return "delete" in self.cleanup_policy

    @classmethod
    def from_topic(cls, config: TopicConfig, **broker: int | str | bool) -> LogConfig:
        """Return the configs of a log from those of its topic.

        message.timestamp.difference.max.ms, if set, applies to each of message.timestamp.before.max.ms and
        message.timestamp.after.max.ms that is not set.

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
