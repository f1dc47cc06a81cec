"""One broker: all of its parts are put together here, in `BrokerNode.start`, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ottla.broker.dispatch import Dispatch
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.live_config import LiveConfig, connection_limits
from ottla.broker.quotas import Quotas
from ottla.broker.services import Services
from ottla.broker.share_sessions import ShareSessions
from ottla.broker.telemetry import Telemetry, receivers_of
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.adoption import adopt
from ottla.cluster.controller import Controller
from ottla.cluster.embedded import EmbeddedRegistry
from ottla.cluster.metadata import BrokerImage, ClusterImage
from ottla.cluster.old_offsets import OldOffsets
from ottla.cluster.producer_ids import ProducerIds
from ottla.config.broker import BrokerConfig, Endpoint
from ottla.config.topic import LogConfig, TopicConfig, topic_defaults
from ottla.coordinator.runtime import GroupRuntime
from ottla.coordinator.share.states import ShareStates
from ottla.coordinator.transaction_markers import LocalMarkers
from ottla.coordinator.transaction_runtime import TransactionRuntime
from ottla.errors import KafkaError, StartupError
from ottla.model import TopicPartition
from ottla.net.admission import Admission
from ottla.net.frame_memory import FrameMemory
from ottla.net.listener import Listener
from ottla.replication.partitions import Partitions
from ottla.storage.log_dir import LogDir, UnusableDirectoryError, owner_of

log = logging.getLogger("ottla.broker")

DRAIN_SECONDS = 2.0
"""How long a stopping broker lets requests finish that are being worked on."""
DRAIN_STEP_SECONDS = 0.01


class BrokerNode:
    """A broker on the running event loop."""

    def __init__(self, config: BrokerConfig, clock: Clock = SYSTEM_CLOCK) -> None:
        if config.zookeeper_connect is not None:
            raise StartupError("zookeeper.connect: clusters are not served by this version; leave it out for one node")
        self.broker_id = config.id if config.id >= 0 else _stored_id(config.data_dirs)
        self.config = config = config.replace({"broker.id": self.broker_id})
        self.endpoints: tuple[Endpoint, ...] = ()
        self.failed = asyncio.Event()
        """Set when the data directory with the registry has failed: nothing can be served any more."""
        self._clock = clock
        self._workers = ThreadPoolExecutor(config.num_io_threads, thread_name_prefix="ottla-worker")
        self._live = LiveConfig(config, self.broker_id)
        self._defaults = topic_defaults(config.given)
        self._log_dirs: list[LogDir] = []
        self._listeners: list[Listener] = []
        self._registry: EmbeddedRegistry | None = None
        self._admission = Admission()
        self._quotas = Quotas(self._live, clock.monotonic)
        self._services: Services | None = None
        self._housekeeping: Housekeeping | None = None

    async def start(self) -> None:
        """Take the data directory and the addresses, read what is there, and serve. StartupError says what is wrong."""
        config, clock = self.config, self._clock
        try:
            all_dirs = self._open_log_dirs()
            self._registry = EmbeddedRegistry(self._log_dirs[0].path)
            self._registry.open()
            controller = Controller(self._registry, self.broker_id)
            partitions = Partitions(
                self.broker_id, self._log_dirs, self._workers, self.log_config, self._min_insync_replicas
            )
            groups = GroupRuntime(config, clock, partitions, lambda: controller.image)
            producer_ids = ProducerIds(self._registry, self.broker_id)
            markers = LocalMarkers(clock, partitions, lambda: controller.image, groups.transaction_ended)
            transactions = TransactionRuntime(
                config, clock, partitions, lambda: controller.image, producer_ids.next_id, markers
            )
            self._services = Services(
                live=self._live,
                quotas=self._quotas,
                telemetry=Telemetry(receivers_of(config.metric_reporters), config.telemetry_max_bytes, clock.monotonic),
                clock=clock,
                controller=controller,
                partitions=partitions,
                producer_ids=producer_ids,
                groups=groups,
                markers=markers,
                transactions=transactions,
                old_offsets=OldOffsets(self._registry),
                share_states=ShareStates(config, clock, partitions, lambda: controller.image),
                share_sessions=ShareSessions(
                    config.group_share_max_share_sessions, config.group_share_session_timeout_ms, clock
                ),
                sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, clock.monotonic),
            )
            self._bind(Dispatch(self._services))
            await adopt(self._registry, self._log_dirs, self.broker_id)
            await controller.start(
                BrokerImage(self.broker_id, self._advertised(), config.broker_rack), self._log_dirs[0].cluster_id
            )
            await self._take_options(ClusterImage(""), controller.image)
            for log_dir in self._log_dirs:
                log_dir.load(
                    lambda tp: self._config_of(controller.image, tp),
                    recovery_threads=config.num_recovery_threads_per_data_dir,
                )
            partitions.on_fatal = self.failed.set
            await partitions.start(controller.image, all_dirs=all_dirs)
            groups.start()
            transactions.start()
            self._services.share_states.start()
            if len(partitions):
                await producer_ids.skip_past(_highest_producer_id(partitions, transactions))
            controller.on_change(self._take_options)
            controller.on_change(partitions.change)
            controller.on_change(self._forget_deleted)
            self._housekeeping = Housekeeping(
                self._live, clock, self._log_dirs, partitions, transactions, self._workers
            )
            self._housekeeping.start()
            for listener in self._listeners:
                listener.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Controlled shutdown: finish what is being answered, flush, mark the data as clean."""
        for listener in self._listeners:
            listener.stop_accepting()
        if self._housekeeping is not None:
            await self._housekeeping.close()
        if self._services is not None:
            self._services.groups.close()
            self._services.transactions.close()
            self._services.share_states.close()
            await self._services.partitions.close()
        await self._drain()
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._workers.shutdown(wait=True)
        for log_dir in self._log_dirs:
            try:
                log_dir.close()
            except KafkaError as error:
                log.error("%s", error)  # the others are closed all the same
        self._log_dirs.clear()
        if self._registry is not None:
            await self._registry.close()
            self._registry = None

    def log_config(self, options: Mapping[str, str]) -> LogConfig:
        """A log's settings: what is set on the topic, over what this broker's options say."""
        return LogConfig.from_topic(TopicConfig({**self._defaults, **options}))

    def _min_insync_replicas(self, options: Mapping[str, str]) -> int:
        return TopicConfig({**self._defaults, **options}).min_insync_replicas

    def _config_of(self, image: ClusterImage, tp: TopicPartition) -> LogConfig:
        topic = image.topics.get(tp.topic)
        return self.log_config(topic.options if topic is not None else {})

    def _open_log_dirs(self) -> bool:
        """Open the data directories; those whose disk is at fault are left out, but for the first (KIP-112).

        The first one holds the registry (Kafka's metadata.log.dir), without which nothing is known of the others.
        """
        config = self.config
        faults: list[UnusableDirectoryError] = []
        for path in config.data_dirs:
            try:
                opened = LogDir.open(
                    path,
                    broker_id=self.broker_id,
                    clock=self._clock,
                    producer_expiration_ms=config.producer_id_expiration_ms,
                )
            except UnusableDirectoryError as error:
                if not self._log_dirs:
                    raise
                log.error("%s; going on without it", error.message)
                faults.append(error)
            else:
                self._log_dirs.append(opened)
        return not faults

    def _bind(self, dispatch: Dispatch) -> None:
        config = self.config
        bound = []
        memory = FrameMemory(config.queued_max_request_bytes)
        for endpoint in config.listeners:
            listener = Listener(
                endpoint.name,
                dispatch,
                admission=self._admission,
                memory=memory,
                max_frame_bytes=config.socket_request_max_bytes,
                idle_ms=config.connections_max_idle_ms,
                send_buffer_bytes=config.socket_send_buffer_bytes,
                receive_buffer_bytes=config.socket_receive_buffer_bytes,
            )
            self._listeners.append(listener)
            port = listener.bind(endpoint.host, endpoint.port, config.socket_listen_backlog_size)
            bound.append(endpoint._replace(port=port, protocol=config.security_protocol(endpoint.name)))
        self.endpoints = tuple(bound)

    def _advertised(self) -> tuple[Endpoint, ...]:
        """Addresses for clients: those that are set, and the bound ones for listeners without."""
        told = {e.name: e for e in self.config.advertised_listeners}
        addresses = []
        for bound in self.endpoints:
            host = bound.host if bound.host not in ("", "0.0.0.0", "::") else _own_host_name()
            addresses.append(told.get(bound.name, bound._replace(host=host))._replace(protocol=bound.protocol))
        return tuple(addresses)

    async def _take_options(self, before: ClusterImage, after: ClusterImage) -> None:
        """Work by the options that were set while the broker runs."""
        if before.options is after.options:
            return  # the change was about topics
        if self._live.follow(after):
            config = self._live.current
            self._defaults = topic_defaults(config.given)
            if self._services is not None:
                self._services.partitions.reconfigure(after)
            if self._housekeeping is not None:
                self._housekeeping.staff_cleaners()
        if self._services is not None:
            limit = self._live.current.replica_alter_log_dirs_io_max_bytes_per_second
            self._services.partitions.relocation_limit = limit
        self._quotas.follow(after)
        self._admission.limits = connection_limits(self._live.current, after)

    async def _forget_deleted(self, before: ClusterImage, after: ClusterImage) -> None:
        gone = frozenset(before.topics.keys() - after.topics.keys())
        if gone and self._services is not None:
            self._services.groups.topics_deleted(gone)
            self._services.share_states.topics_deleted()

    async def _drain(self) -> None:
        """Let the answers out that are due; who waited for a group or a partition was answered when these closed."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline:
            if not any(c.busy for listener in self._listeners for c in listener.connections):
                return
            await asyncio.sleep(DRAIN_STEP_SECONDS)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _stored_id(data_dirs: Sequence[str]) -> int:
    """The id that the data directories were written with; 0 for new ones."""
    found = (owner_of(path) for path in data_dirs)
    return next((owner for owner in found if owner is not None), 0)


def _highest_producer_id(partitions: Partitions, transactions: TransactionRuntime) -> int:
    in_logs = max((partition.log.producers.highest_id for partition in partitions), default=-1)
    return max(in_logs, transactions.highest_producer_id)


def _own_host_name() -> str:
    import socket

    return socket.getfqdn() or os.uname().nodename
