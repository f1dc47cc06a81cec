"""The log directories of a broker, which are opened, loaded and closed together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from ottla.clock import Clock
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.topic import LogConfig
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.storage.append_writer import AppendWriter
from ottla.storage.log_dir import LogDir, UnusableDirectoryError

log = logging.getLogger("ottla.broker")


class LogDirs(list[LogDir]):
    """The log directories that could be opened (KIP-112), in the order of `log.dirs`."""

    def __init__(self) -> None:
        super().__init__()
        self.unopened: Mapping[str, str] = {}
        """The configured directories that could not be opened, each with the reason."""

    def open(self, config: BrokerConfig, broker_id: int, cluster_id: str | None, clock: Clock) -> None:
        """Open the log directories.

        Raises StartupError if none could be opened, if one belongs to another broker or cluster, or if the first one of
        a standalone broker could not be opened, because it has the metadata store, like Kafka's metadata.log.dir.
        """
        faults: dict[str, str] = {}
        for path in config.data_dirs:
            try:
                opened = LogDir.open(
                    path,
                    broker_id=broker_id,
                    cluster_id=cluster_id,
                    clock=clock,
                    producer_expiration_ms=config.producer_id_expiration_ms,
                    writer=AppendWriter(Path(path)),
                )
            except UnusableDirectoryError as error:
                faults[path] = error.message
                if len(faults) == len(config.data_dirs) or not (self or config.in_cluster):
                    raise
                log.error("%s; continuing without this log directory", error.message)
            else:
                self.append(opened)
        self.unopened = faults

    def load(self, config: BrokerConfig, log_config: Callable[[TopicPartition], LogConfig]) -> None:
        """Load all logs. This may run in a thread: see `LogDir.load`.

        Raises StartupError if no directory is left, or if the one with the metadata store is unusable, and
        LoadStoppedError if `stop_loading` has stopped it.
        """
        for log_dir in self:
            try:
                log_dir.load(log_config, recovery_threads=config.num_recovery_threads_per_data_dir)
            except UnusableDirectoryError as error:
                others = [other for other in self if other is not log_dir]
                if log_dir is self.store_dir(config) or all(other.offline for other in others):
                    raise
                log.error("%s; continuing without this log directory", error.message)
                log_dir.take_offline(error.message)

    def stop_loading(self) -> None:
        """Make `load` stop, because the broker is shutting down."""
        for log_dir in self:
            log_dir.stop_loading()

    @property
    def load_progress(self) -> str:
        """The progress of `load` as text: while a directory is loaded, its path and the number of loaded logs."""
        return next((log_dir.load_progress for log_dir in self if log_dir.load_progress), "loading the logs")

    def store_dir(self, config: BrokerConfig) -> LogDir | None:
        """Return the first log directory if the metadata store is on its disk; None if the store is elsewhere."""
        if config.zookeeper_connect is not None:
            return None
        first, store = self[0], config.ottla_metadata_dir
        on_same_disk = store is None or os.stat(store).st_dev == os.stat(first.path).st_dev
        return first if on_same_disk else None

    def close(self) -> None:
        """Close all log directories (see `LogDir.close`), even if one fails."""
        for log_dir in self:
            try:
                log_dir.close()
            except KafkaError as error:
                # the other log directories are closed nevertheless
                log.error(
                    "Cannot close log directory %s, so the next start may have to recover its logs: %s",
                    log_dir.path,
                    error,
                )
        self.clear()
