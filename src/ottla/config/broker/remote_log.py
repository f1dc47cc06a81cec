"""Options of tiered storage (KIP-405): Kafka's names, and `rsm.config.*` for the object store.

In Kafka, `rsm.config.*` are the options of the class in `remote.log.storage.manager.class.name`, which users choose.
Here the store follows from the scheme of `rsm.config.url`. Options with the prefix that are not declared here are
passed to the library that accesses it, so that credentials have the names that its users know, such as
`rsm.config.aws_access_key_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.options import Config, Option, boolean, integer, nullable, text
from ottla.errors import ConfigurationError

RSM_PREFIX: Final = "rsm.config."
RLMM_PREFIX: Final = "rlmm.config."
"""The prefix that Kafka's metadata manager requires before `remote.log.metadata.topic.*`. Here these options are also
accepted without it.
"""
BUCKETS: Final = ("s3", "gs", "az", "abfss")
SCHEMES: Final = (*BUCKETS, "file", "memory")
OWN: Final = frozenset({"rsm.config.url", "rsm.config.chunk.bytes", "rsm.config.cache.bytes"})
MAX_LONG: Final = 2**63 - 1
CLASSES: Final = "rsm.config.url determines the store"
CLIENTS: Final = "brokers access the topic __remote_log_metadata as they access each other"
RATES: Final = "a quota is measured continuously"
THREADS: Final = "remote.log.manager.copier.thread.pool.size and .expiration.thread.pool.size are the limits"


def store_url(value: Any) -> str:
    """Check and return the URL of an object store: s3://, gs://, az://, abfss://, file:/// or memory://."""
    url = text(value)
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES or (scheme in BUCKETS and not rest.strip("/")):
        raise ValueError(
            "expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,"
            " abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX or file:///PATH"
        )
    if scheme == "file" and not rest.startswith("/"):
        raise ValueError("expected file:///PATH with an absolute path")
    return url


class RemoteLogConfig(
    Config,
    no_effect={
        **dict.fromkeys(
            (
                "remote.log.storage.manager.class.name",
                "remote.log.storage.manager.class.path",
                "remote.log.storage.manager.impl.prefix",
                "remote.log.metadata.manager.class.name",
                "remote.log.metadata.manager.class.path",
                "remote.log.metadata.manager.impl.prefix",
                "remote.log.metadata.custom.metadata.max.bytes",
            ),
            CLASSES,
        ),
        **dict.fromkeys(
            (
                "remote.log.metadata.manager.listener.name",
                "remote.log.metadata.common.client.",
                "remote.log.metadata.producer.",
                "remote.log.metadata.consumer.",
                "remote.log.metadata.initialization.",
                "rlmm.config.",
            ),
            CLIENTS,
        ),
        **dict.fromkeys(("remote.log.manager.copy.quota.", "remote.log.manager.fetch.quota."), RATES),
        "remote.log.manager.thread.pool.size": THREADS,
        "remote.log.manager.follower.thread.pool.size": THREADS,
        "remote.log.manager.task.retry.jitter": "the delay before a retry varies by a fixed part",
    },
):
    """The brokers' options of tiered storage."""

    remote_log_storage_system_enable = Option(
        False,
        boolean,
        "Whether tiered storage is enabled on this broker, so that it can copy segments of topics with "
        "remote.storage.enable=true to the object store in rsm.config.url.",
    )
    rsm_config_url = Option[str | None](
        None,
        nullable(store_url),
        "The object store of tiered topics: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX "
        "or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PREFIX, file:///PATH (a directory that all brokers share) "
        "or memory:// (for tests). Required with remote.log.storage.system.enable. rsm.config.* options that Ottla "
        "does not have, such as rsm.config.aws_endpoint, are passed to the store's client; without them it takes "
        "credentials from the environment.",
    )
    rsm_config_chunk_bytes = Option(
        4 * 1024 * 1024,
        integer(64 * 1024, 256 * 1024 * 1024),
        "Size in bytes of the ranges in which the broker reads segments from remote storage; the last range of "
        "a segment may be smaller.",
    )
    rsm_config_cache_bytes = Option(
        128 * 1024 * 1024,
        integer(0),
        "Maximum size in bytes of this broker's cache, in memory, of ranges of segments that were read from remote "
        "storage; 0: no cache.",
    )
    remote_log_index_file_cache_total_size_bytes = Option(
        64 * 1024 * 1024,
        integer(1),
        "Maximum size in bytes of this broker's cache, in memory, of indexes that were read from remote storage. "
        "Kafka's default is 1 GiB, on disk.",
    )
    remote_log_manager_task_interval_ms = Option(
        30_000,
        integer(1),
        "Interval in milliseconds at which the leader of a tiered partition copies closed segments to remote storage "
        "and deletes expired ones there.",
    )
    remote_log_manager_copier_thread_pool_size = Option(
        10, integer(1), "Maximum number of segments that a broker copies to remote storage at the same time."
    )
    remote_log_manager_expiration_thread_pool_size = Option(
        10, integer(1), "Maximum number of segments that a broker deletes from remote storage at the same time."
    )
    remote_log_manager_task_retry_backoff_ms = Option(
        500,
        integer(1),
        "Initial delay in milliseconds before a leader retries after it failed to copy or delete segments of a "
        "partition; it grows up to remote.log.manager.task.retry.backoff.max.ms.",
    )
    remote_log_manager_task_retry_backoff_max_ms = Option(
        30_000,
        integer(1),
        "Maximum delay in milliseconds before a leader retries after repeated failures to copy or delete segments of a "
        "partition. It never waits longer than remote.log.manager.task.interval.ms.",
    )
    remote_log_manager_copy_max_bytes_per_second = Option(
        MAX_LONG, integer(1), "Maximum rate in bytes per second at which a broker copies segments to remote storage."
    )
    remote_log_manager_fetch_max_bytes_per_second = Option(
        MAX_LONG, integer(1), "Maximum rate in bytes per second at which a broker reads segments from remote storage."
    )
    remote_log_reader_threads = Option(
        10,
        integer(1),
        "Number of threads with which a broker reads from remote storage, and so the maximum number of its concurrent "
        "reads.",
    )
    remote_log_reader_max_pending_tasks = Option(
        100,
        integer(1),
        "Maximum number of reads from remote storage that wait for one of the remote.log.reader.threads; further "
        "fetches get no records and are repeated by their clients.",
    )
    remote_fetch_max_wait_ms = Option(
        500,
        integer(1),
        "Maximum time in milliseconds that a fetch waits for records in remote storage; after that it returns without "
        "them. A download in progress continues and is cached, so that a later fetch gets further.",
    )
    remote_list_offsets_request_timeout_ms = Option(
        30_000,
        integer(1),
        "Maximum time in milliseconds that a ListOffsets request waits for remote storage, if the client sends no "
        "timeout of its own. It also limits the look-up of the start offset of a share group whose "
        "share.auto.offset.reset is a duration.",
    )
    remote_log_metadata_topic_num_partitions = Option(
        50,
        integer(1),
        "Number of partitions with which the topic __remote_log_metadata is created; later changes have no effect on "
        "it.",
    )
    remote_log_metadata_topic_replication_factor = Option(
        3,
        integer(1),
        "Replication factor with which the topic __remote_log_metadata is created; on a standalone broker it has one "
        "replica. By default with ottla.brokers and without ZooKeeper: the number of brokers, at most 3.",
    )
    remote_log_metadata_topic_min_isr = Option(
        2,
        integer(1),
        "min.insync.replicas with which the topic __remote_log_metadata is created; if it exceeds the topic's "
        "replication factor, the latter applies. By default with ottla.brokers and without ZooKeeper: the number of "
        "brokers, at most 2.",
    )
    remote_log_metadata_topic_retention_ms = Option(
        -1,
        integer(-1),
        "Retention in milliseconds (retention.ms) with which the topic __remote_log_metadata is created; -1: no limit. "
        "Otherwise it must exceed the retention of all tiered topics.",
    )
    remote_log_metadata_consume_wait_ms = Option(
        120_000,
        integer(1),
        "Maximum time in milliseconds that a broker waits until it has read back a record that it wrote to "
        "__remote_log_metadata; after that, the copy or deletion fails and is retried.",
    )

    def check(self) -> None:
        super().check()
        if self.remote_log_storage_system_enable and self.rsm_config_url is None:
            raise ConfigurationError(
                "rsm.config.url is required with remote.log.storage.system.enable=true: such as s3://bucket/prefix"
            )

    @property
    def store_options(self) -> dict[str, str]:
        """The options that are passed to the object store's client, without their prefix."""
        return {
            key.removeprefix(RSM_PREFIX): str(value)
            for key, value in self.originals.items()
            if key.startswith(RSM_PREFIX) and key not in OWN
        }


def without_rlmm_prefix(configs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configs, with `rlmm.config.` removed from the names `rlmm.config.remote.log.metadata.*`."""
    prefix = f"{RLMM_PREFIX}remote.log.metadata."
    return {k.removeprefix(RLMM_PREFIX) if k.startswith(prefix) else k: v for k, v in configs.items()}
