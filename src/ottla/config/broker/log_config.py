"""Logs, the defaults of topics, and replication."""

from __future__ import annotations

from os.path import normpath

from ottla.config.options import Config, Option, boolean, gzip_level, integer, nullable, number, one_of, text, words
from ottla.config.topic import DAY_MS, INT_MAX, LONG_MAX, format_version
from ottla.errors import ConfigurationError

ALL_DIRS = "*"
"""Value of cordoned.log.dirs for all directories."""
RACK_AWARE = "RackAwareReplicaSelector"
SELECTORS = {
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": RACK_AWARE,
    "org.apache.kafka.common.replica.LeaderSelector": "LeaderSelector",
}
"""The names of the replica selectors, by Kafka's class names."""


class ServerLogConfig(Config):
    """Options of log directories and logs, most of which are defaults of topics."""

    log_dir = Option("./ottla-data", text, "Directory of the broker's logs. No effect if log.dirs is set.")
    log_dirs = Option[tuple[str, ...]](
        (),
        words(),
        "Directories of the broker's logs, separated by commas; a new partition goes to the one with the fewest "
        "partitions that is not in cordoned.log.dirs. Empty: log.dir applies.",
    )

    cordoned_log_dirs = Option[tuple[str, ...]](
        (),
        words(),
        "Log directories, separated by commas, that get no new replicas while a directory that is not "
        "cordoned is in service (KIP-1066); *: all of this broker's. A broker "
        "whose directories are all cordoned gets no replicas from new topics and partitions or from reassignments.",
    )
    num_partitions = Option(
        1,
        integer(1),
        "Number of partitions of a topic that is created automatically or by a request without a number. Internal "
        "topics have their own configs.",
    )
    default_replication_factor = Option(
        1,
        integer(1),
        "Number of replicas of a topic that is created automatically or by a request without a number. Internal "
        "topics have their own configs.",
    )
    auto_create_topics_enable = Option(
        True,
        boolean,
        "Whether a missing topic is created when a client requests its metadata. The request can forbid it.",
    )
    delete_topic_enable = Option(
        True, boolean, "Whether clients can delete topics; if false, such requests fail with TOPIC_DELETION_DISABLED."
    )
    min_insync_replicas = Option(
        1,
        integer(1),
        "Minimum number of in-sync replicas for writes with acks=all; with fewer they fail. If a partition has fewer "
        "replicas than this, all of them must be in sync.",
    )
    compression_type = Option(
        "producer",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "Codec of stored batches. producer: the broker stores batches as they were sent; a codec or uncompressed: it "
        "converts batches that differ.",
    )
    compression_gzip_level = Option(
        -1,
        gzip_level,
        "Level, 1 to 9, at which the broker compresses batches that it converts to gzip (compression.type); -1: the "
        "codec's default.",
    )
    compression_lz4_level = Option(
        9,
        integer(1, 17),
        "Level, 1 to 17, at which the broker compresses batches that it converts to lz4 (compression.type).",
    )
    compression_zstd_level = Option(
        3,
        integer(-131072, 22),
        "Level, -131072 to 22, at which the broker compresses batches that it converts to zstd (compression.type).",
    )
    message_max_bytes = Option(
        1048588,
        integer(0),
        "Maximum size in bytes of a record batch, after compression; a larger one fails with MESSAGE_TOO_LARGE.",
    )
    message_max_decompressed_bytes = Option(
        16777216,
        integer(1, INT_MAX),
        "Maximum size in bytes of a producer's batch after decompression; a larger one fails with MESSAGE_TOO_LARGE. "
        "If ottla.validate.records is crc, only checked for batches that the broker compresses again or stores in an "
        "older message format.",
    )
    ottla_validate_records = Option(
        "all",
        one_of("all", "crc"),
        "What the leader validates of a producer's batch: all of its records, as Kafka does, or only its header and "
        "CRC (crc), which is cheaper and trusts producers to encode records, timestamps and keys correctly. Batches "
        "that the broker compresses again or stores in an older message format are always validated completely.",
    )
    unclean_leader_election_enable = Option(
        False,
        boolean,
        "Whether a replica that is not in sync can become the leader if no in-sync replica is available. The "
        "partition is then available again sooner, but records may be lost.",
    )
    log_segment_bytes = Option(
        1073741824,
        integer(14),
        "Maximum size in bytes of a segment: a batch that does not fit rolls a new one, and a batch larger than a "
        "whole segment is rejected.",
    )
    log_roll_ms = Option[int | None](
        None,
        nullable(integer(1)),
        "Age of a segment in milliseconds at which the next append rolls a new one; for compacted topics at most "
        "log.cleaner.max.compaction.lag.ms. Not set: log.roll.hours applies.",
    )
    log_roll_hours = Option(
        168,
        integer(1),
        "Age of a segment in hours at which the next append rolls a new one; for compacted topics at most "
        "log.cleaner.max.compaction.lag.ms. No effect if log.roll.ms is set.",
    )
    log_roll_jitter_ms = Option[int | None](
        None,
        nullable(integer(0)),
        "Maximum random time in milliseconds by which segments are rolled before they reach the age of log.roll.ms or "
        "log.roll.hours, so that partitions do not all roll them at the same time. Not set: log.roll.jitter.hours "
        "applies.",
    )
    log_roll_jitter_hours = Option(
        0,
        integer(0),
        "Maximum random time in hours by which segments are rolled before they reach the age of log.roll.ms or "
        "log.roll.hours, so that partitions do not all roll them at the same time. No effect if log.roll.jitter.ms is "
        "set.",
    )
    log_retention_ms = Option[int | None](
        None,
        nullable(integer(-1)),
        "Time in milliseconds to retain records, if the cleanup policy includes delete; -1: no limit. Not set: "
        "log.retention.minutes applies or, if that is not set either, log.retention.hours.",
    )
    log_retention_minutes = Option[int | None](
        None,
        nullable(integer(-1)),
        "Time in minutes to retain records, if the cleanup policy includes delete; -1: no limit. No effect if "
        "log.retention.ms is set. Not set: log.retention.hours applies.",
    )
    log_retention_hours = Option(
        168,
        integer(-1),
        "Time in hours to retain records, if the cleanup policy includes delete; -1: no limit. No effect if "
        "log.retention.ms or log.retention.minutes is set.",
    )
    log_local_retention_ms = Option(
        -2,
        integer(-2),
        "Age in milliseconds from which brokers delete records of tiered topics that are in remote storage, for topics "
        "without local.retention.ms; -1: no limit, -2: the topic's retention.ms.",
    )
    log_local_retention_bytes = Option(
        -2,
        integer(-2),
        "Size in bytes of a tiered partition on a broker above which its oldest segments are deleted there once they "
        "are in remote storage, for topics without local.retention.bytes; -1: no limit, -2: the topic's "
        "retention.bytes.",
    )
    log_retention_bytes = Option(
        -1,
        integer(-1),
        "Size in bytes above which a partition's oldest segments are deleted, if the cleanup policy includes delete; "
        "-1: no limit.",
    )
    log_retention_check_interval_ms = Option(
        300000,
        integer(1),
        "Interval in milliseconds at which the broker checks whether segments are due for deletion by the retention "
        "configs.",
    )
    log_cleanup_policy = Option[tuple[str, ...]](
        ("delete",),
        words("delete", "compact"),
        "How old records are removed: delete removes segments by log.retention.ms and log.retention.bytes, compact "
        "retains the last record of each key; both can be set. Empty: neither applies.",
    )
    log_cleaner_enable = Option(
        True,
        boolean,
        "Whether the broker compacts topics whose cleanup.policy includes compact. Internal topics need it.",
    )
    log_cleaner_backoff_ms = Option(
        15000,
        integer(0),
        "Time in milliseconds, at least 100, that a thread of the cleaner sleeps after it has compacted all logs that "
        "are due.",
    )
    log_cleaner_dedupe_buffer_size = Option(
        134217728,
        integer(1024),
        "Memory in bytes for the offsets of keys that the cleaner has read, for all its threads together. With more, "
        "a log is compacted in fewer passes.",
    )
    log_cleaner_threads = Option(
        1, integer(1), "Maximum number of logs that are compacted at the same time; num.io.threads limits it, too."
    )
    log_cleaner_io_buffer_load_factor = Option(
        0.9,
        number(0, 1),
        "Maximum share, from 0 to 1, of a cleaner thread's part of log.cleaner.dedupe.buffer.size that is filled with "
        "keys in one pass. With a higher share, a log is compacted in fewer passes.",
    )
    log_cleaner_io_max_bytes_per_second = Option(
        1.7976931348623157e308,
        number(1),
        "Maximum rate in bytes per second at which all threads of the cleaner together read and write; by default "
        "there is no limit.",
    )
    log_cleaner_min_cleanable_ratio = Option(
        0.5,
        number(0, 1),
        "Share of a log's bytes, from 0 to 1, that must be uncompacted before the log is compacted, unless "
        "log.cleaner.max.compaction.lag.ms is exceeded.",
    )
    log_cleaner_delete_retention_ms = Option(
        DAY_MS,
        integer(0),
        "Minimum time in milliseconds for which tombstones of compacted topics remain after they are first compacted, "
        "so that slow consumers still see them, unless a later record replaces them.",
    )
    log_cleaner_min_compaction_lag_ms = Option(
        0, integer(0), "Minimum age in milliseconds of a record before it is compacted."
    )
    log_cleaner_max_compaction_lag_ms = Option(
        LONG_MAX,
        integer(1),
        "Maximum age in milliseconds of an uncompacted record before its log becomes due for compaction, whatever "
        "log.cleaner.min.cleanable.ratio is; by default there is no limit.",
    )
    log_index_size_max_bytes = Option(
        10 * 1024 * 1024,
        integer(4),
        "Maximum size in bytes of a segment's offset index and of its time index; when one of them is full, a new "
        "segment is rolled.",
    )
    log_index_interval_bytes = Option(
        4096, integer(0), "Minimum number of bytes of records between two entries of an offset index."
    )
    log_segment_delete_delay_ms = Option(
        60000,
        integer(0),
        "Minimum time in milliseconds between the deletion of a segment or partition and the removal of its files.",
    )
    log_flush_interval_messages = Option(
        LONG_MAX,
        integer(1),
        "Number of unflushed records at which a partition is flushed with fsync, for which acknowledgements wait. By "
        "default there is no limit, and segments are flushed after they are rolled; with replication that is usually "
        "enough.",
    )
    log_flush_interval_ms = Option[int | None](
        None,
        nullable(integer(0)),
        "Time in milliseconds since a partition's last flush after which its unflushed records are flushed. It is "
        "checked every log.flush.scheduler.interval.ms, which is also the default.",
    )
    log_flush_scheduler_interval_ms = Option(
        LONG_MAX,
        integer(1),
        "Interval in milliseconds at which the broker checks whether flushes are due by log.flush.interval.ms; by "
        "default, it never does.",
    )
    log_flush_offset_checkpoint_interval_ms = Option(
        60000,
        integer(0),
        "No effect (accepted for compatibility): recovery points are written with "
        "replica.high.watermark.checkpoint.interval.ms.",
    )
    log_flush_start_offset_checkpoint_interval_ms = Option(
        60000,
        integer(0),
        "No effect (accepted for compatibility): log start offsets are written with "
        "replica.high.watermark.checkpoint.interval.ms.",
    )
    replica_high_watermark_checkpoint_interval_ms = Option(
        5000,
        integer(1),
        "Interval in milliseconds at which high watermarks, recovery points and log start offsets are written to "
        "checkpoint files.",
    )
    log_message_timestamp_type = Option(
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Which timestamp records get: CreateTime (that of the producer) or LogAppendTime (the time when the leader "
        "appends them).",
    )
    log_message_timestamp_before_max_ms = Option(
        LONG_MAX,
        integer(0),
        "Maximum time in milliseconds by which a record's timestamp may be behind the broker's clock; otherwise its "
        "batch is rejected. Not checked with LogAppendTime or, for batches that the broker does not convert, if "
        "ottla.validate.records is crc.",
    )
    log_message_timestamp_after_max_ms = Option(
        3600000,
        integer(0),
        "Maximum time in milliseconds by which a record's timestamp may be ahead of the broker's clock; otherwise its "
        "batch is rejected. Not checked with LogAppendTime or, for batches that the broker does not convert, if "
        "ottla.validate.records is crc.",
    )
    log_message_timestamp_difference_max_ms = Option(
        LONG_MAX,
        integer(0),
        "The older config for both log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms, in "
        "milliseconds: it sets each of them that is not set itself.",
    )
    log_message_format_version = Option(
        "3.0-IV1",
        format_version,
        "Kafka version that determines the message format in which the broker stores producers' batches: 0 if it is "
        "below 0.10, 1 if it is 0.10, and 2 from 0.11 on. The broker's own batches, such as those of committed "
        "offsets, always have format 2.",
    )
    log_message_downconversion_enable = Option(
        True,
        boolean,
        "Whether the broker converts batches for consumers that only read older message formats; if false, their "
        "fetches fail with UNSUPPORTED_VERSION.",
    )
    log_preallocate = Option(
        False,
        boolean,
        "Whether the file of a new segment is allocated at its full size (log.segment.bytes); the unused rest is "
        "released when the segment is closed or idle.",
    )
    num_recovery_threads_per_data_dir = Option(
        2,
        integer(1),
        "Maximum number of logs per log directory that are recovered at the same time when the broker starts after an "
        "unclean shutdown. After a clean one, a single thread per log directory loads the logs.",
    )
    producer_id_expiration_ms = Option(
        DAY_MS,
        integer(1),
        "Time in milliseconds since the last batch or transaction marker of a producer after which the broker removes "
        "the producer's state from a partition, unless a transaction is open there. It is checked every "
        "producer.id.expiration.check.interval.ms.",
    )

    def check(self) -> None:
        """Raise ConfigurationError if a cordoned directory is not a log directory."""
        super().check()
        missing = self.cordoned_dirs.difference(map(normpath, self.data_dirs))
        if missing:
            raise ConfigurationError(f"cordoned.log.dirs: {', '.join(sorted(missing))} is not in log.dirs")

    @property
    def cordoned_dirs(self) -> frozenset[str]:
        """The normalized paths of the log directories that get no new replicas."""
        cordoned = self.cordoned_log_dirs
        return frozenset(map(normpath, self.data_dirs if ALL_DIRS in cordoned else cordoned))

    @property
    def data_dirs(self) -> tuple[str, ...]:
        """The log directories: those of log.dirs, or else that of log.dir."""
        return self.log_dirs or (self.log_dir,)


class ReplicationConfig(Config):
    """Options of followers, replica fetching, throttling, and the movement of leaders."""

    replica_lag_time_max_ms = Option(
        30000,
        integer(1),
        "Time in milliseconds for which a follower may be behind its leader before the leader removes it from the ISR. "
        "The leader checks this at intervals of half this time.",
    )
    replica_fetch_wait_max_ms = Option(
        500,
        integer(0),
        "Maximum time in milliseconds that a leader waits for replica.fetch.min.bytes of records before it answers "
        "this broker's fetch as a follower.",
    )
    replica_fetch_min_bytes = Option(
        1,
        integer(1),
        "Minimum number of bytes for which a leader waits before it answers this broker's fetch as a follower; after "
        "replica.fetch.wait.max.ms, it answers with less.",
    )
    replica_fetch_max_bytes = Option(
        1024 * 1024,
        integer(0),
        "Maximum number of bytes per partition in a response when this broker fetches as a follower. If the first "
        "batch of the response is larger, it is returned nevertheless.",
    )
    replica_fetch_response_max_bytes = Option(
        10 * 1024 * 1024,
        integer(0),
        "Maximum number of bytes of a whole response when this broker fetches as a follower; fetch.max.bytes of the "
        "leader limits it, too. If the first batch of the response is larger, it is returned nevertheless.",
    )
    replica_fetch_backoff_ms = Option(
        1000,
        integer(0),
        "Maximum delay in milliseconds before a follower fetches again after an error of a partition or of the whole "
        "request. The delay begins at 20 ms for a partition and 50 ms for a request, and doubles with each consecutive "
        "failure.",
    )
    replica_socket_timeout_ms = Option(
        30000,
        integer(1),
        "Time in milliseconds that a follower waits for a leader's response before its request fails; for a fetch, "
        "replica.fetch.wait.max.ms is added.",
    )
    num_replica_fetchers = Option(
        1,
        integer(1),
        "Maximum number of fetchers per leader, over which this broker distributes the partitions that it follows. "
        "Each fetcher sends its own requests over its own connections.",
    )
    replica_selector_class = Option[str | None](
        None,
        nullable(one_of(*SELECTORS.values(), aliases=SELECTORS)),
        "Class that selects the replica from which a consumer reads (KIP-392): RackAwareReplicaSelector selects an "
        "in-sync replica in the rack of the consumer's client.rack. LeaderSelector, or not set: consumers read from "
        "the leader.",
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Option(
        LONG_MAX,
        integer(1),
        "Maximum rate in bytes per second at which this broker copies replicas from one of its log directories to "
        "another.",
    )
    leader_replication_throttled_rate = Option(
        LONG_MAX,
        integer(1),
        "Maximum rate in bytes per second at which this broker, as a leader, sends data of the replicas in "
        "leader.replication.throttled.replicas of their topics. Followers in the ISR are not throttled.",
    )
    follower_replication_throttled_rate = Option(
        LONG_MAX,
        integer(1),
        "Maximum rate in bytes per second at which this broker, as a follower, fetches data of the replicas in "
        "follower.replication.throttled.replicas of their topics. It is not throttled in partitions where it is in the "
        "ISR.",
    )
    controlled_shutdown_enable = Option(
        True,
        boolean,
        "Whether the controller moves this broker's leaderships to other in-sync replicas before the broker stops. No "
        "effect on a standalone broker.",
    )
    controlled_shutdown_max_retries = Option(
        3,
        integer(0),
        "Number of times that a stopping broker repeats its request for a controlled shutdown if the request fails or "
        "some leaders could not be moved; after that it stops nevertheless.",
    )
    controlled_shutdown_retry_backoff_ms = Option(
        5000,
        integer(0),
        "Delay in milliseconds before a stopping broker repeats its request for a controlled shutdown "
        "(controlled.shutdown.max.retries).",
    )
    auto_leader_rebalance_enable = Option(
        True,
        boolean,
        "Whether the controller moves leadership back to the preferred replicas, for example after a failed broker has "
        "returned. It checks this every leader.imbalance.check.interval.seconds.",
    )
    leader_imbalance_check_interval_seconds = Option(
        300,
        integer(1),
        "Interval in seconds at which the controller checks whether to move leadership back to preferred replicas. No "
        "effect if auto.leader.rebalance.enable is false.",
    )
    leader_imbalance_per_broker_percentage = Option(
        10,
        integer(0),
        "Percentage of the partitions that prefer a broker as their leader up to which other brokers may lead them. If "
        "it is exceeded, the controller moves their leadership back to this broker, unless "
        "auto.leader.rebalance.enable is false.",
    )
