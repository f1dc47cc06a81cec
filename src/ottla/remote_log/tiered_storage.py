"""Builds the parts of tiered storage of one broker, and closes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from ottla.clock import Clock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.interbroker.client import RequestSender
from ottla.config.broker.broker_config import BrokerConfig
from ottla.remote_log.chunk_cache import ChunkCache, ChunkReader
from ottla.remote_log.metadata_manager import RemoteLogMetadataManager
from ottla.remote_log.metadata_topic import RemoteLogMetadataTopic
from ottla.remote_log.remote_log_manager import RemoteLogManager, TopicExists
from ottla.remote_log.remote_storage import ObjectStorage, RemoteStorage
from ottla.remote_log.segment_copier import SegmentCopier
from ottla.remote_log.segment_deletion import SegmentDeleter
from ottla.replication.partitions import Partitions
from ottla.replication.replication_quota import ReplicationQuota


class TieredStorage:
    """The remote log manager of a broker, and its collaborators."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        broker_id: int,
        clock: Clock,
        partitions: Partitions,
        image: Callable[[], ClusterImage],
        sender: RequestSender,
        create_topic: Callable[[], Awaitable[object]],
        topic_exists: TopicExists,
        storage: RemoteStorage | None = None,
    ) -> None:
        """`create_topic`: creates `__remote_log_metadata`. `storage`: None for the one in rsm.config.url."""
        initial = config()
        self._config = config
        if storage is None:
            assert initial.rsm_config_url is not None, "checked with the config"
            storage = ObjectStorage(initial.rsm_config_url, initial.store_options)
        self.storage = storage
        self._copy_quota, self._fetch_quota = ReplicationQuota(), ReplicationQuota()
        self.update_quotas()
        threads = initial.remote_log_reader_threads
        self._readers = ThreadPoolExecutor(threads, "ottla-remote-read")
        self._copiers = ThreadPoolExecutor(initial.remote_log_manager_copier_thread_pool_size, "ottla-remote-copy")
        self._deleters = ThreadPoolExecutor(
            initial.remote_log_manager_expiration_thread_pool_size, "ottla-remote-delete"
        )
        timeout = initial.request_timeout_ms / 1000
        topic = RemoteLogMetadataTopic(partitions, image, sender, clock, timeout)
        metadata = RemoteLogMetadataManager(
            broker_id, topic, create_topic, initial.remote_log_metadata_consume_wait_ms / 1000
        )
        chunks = ChunkReader(
            storage,
            self._readers,
            clock,
            chunk_bytes=initial.rsm_config_chunk_bytes,
            data_cache=ChunkCache(initial.rsm_config_cache_bytes),
            index_cache=ChunkCache(initial.remote_log_index_file_cache_total_size_bytes),
            max_pending=threads + initial.remote_log_reader_max_pending_tasks,
            quota=self._fetch_quota,
        )
        deleter = SegmentDeleter(broker_id, storage, metadata, self._deleters, clock)
        copier = SegmentCopier(broker_id, storage, metadata, deleter, self._copiers, clock, self._copy_quota)
        self.manager = RemoteLogManager(
            config, clock, partitions, image, metadata, chunks, copier, deleter, topic_exists
        )

    def update_quotas(self) -> None:
        """Apply the current limits of copying and reading."""
        config = self._config()
        self._copy_quota.bytes_per_second = config.remote_log_manager_copy_max_bytes_per_second
        self._fetch_quota.bytes_per_second = config.remote_log_manager_fetch_max_bytes_per_second

    async def close(self) -> None:
        """Stop all tasks, and wait at most CLOSE_SECONDS of `remote_log_manager` for uploads in progress."""
        await self.manager.close()
        for pool in (self._readers, self._copiers, self._deleters):
            pool.shutdown(wait=False, cancel_futures=True)
