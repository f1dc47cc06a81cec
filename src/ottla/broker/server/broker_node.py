"""The broker, whose parts are started in stages by `BrokerNode.start`."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from ottla import logs
from ottla.broker.broker_context import BrokerContext
from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.broker.coordinators import Coordinators
from ottla.broker.dispatch import Dispatch, Interceptor
from ottla.broker.event_loop_monitor import EventLoopMonitor
from ottla.broker.monitoring.broker_state import BrokerState
from ottla.broker.monitoring.request_stats import RequestStats
from ottla.broker.quotas.client_quotas import Quotas
from ottla.broker.request_time import MeteredWorkers, task_factory
from ottla.broker.scheduler import BackgroundTasks
from ottla.broker.security import certificates
from ottla.broker.server.broker_listeners import BrokerListeners
from ottla.broker.server.log_dirs import LogDirs
from ottla.broker.server.metadata_stores import shared_store, zookeeper_store
from ottla.broker.server.optional_parts import (
    build_add_partitions,
    build_authorizer,
    build_delegation_tokens,
    build_service,
)
from ottla.broker.sessions.fetch_sessions import FetchSessions
from ottla.broker.sessions.share_sessions import ShareSessions
from ottla.broker.telemetry import Telemetry, created_reporters, receivers_of
from ottla.clock import SYSTEM_CLOCK, Clock
from ottla.cluster.broker.lifecycle import BrokerLifecycle, agreed_cluster_id
from ottla.cluster.broker.producer_ids import MAX_PLAUSIBLE_ID, ProducerIds
from ottla.cluster.broker.registration import next_broker_id
from ottla.cluster.broker.zookeeper_offsets import ZooKeeperOffsets
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.image.store_reader import read_topic, read_topic_configs
from ottla.cluster.interbroker.membership_proof import shared_secret
from ottla.cluster.migration.data_dir_import import import_log_dirs
from ottla.cluster.store.metadata_store import MetadataStore
from ottla.cluster.store.sqlite_store import SqliteMetadataStore
from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.listener_config import Endpoint
from ottla.config.topic import LogConfig, TopicConfig, topic_defaults
from ottla.errors import IllegalStateError, StartupError
from ottla.model import REMOTE_LOG_METADATA
from ottla.net.server.memory_pool import MemoryPool
from ottla.replication.partitions import Partitions
from ottla.replication.replication_quota import ReplicationQuota
from ottla.storage.log_dir import cluster_of, first_stored, owner_of
from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.broker.http.http_listener import HttpListener
    from ottla.broker.monitoring.event_loop_time import EventLoopTime
    from ottla.broker.monitoring.scrape import MonitoredBroker
    from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore
    from ottla.model import TopicPartition
    from ottla.remote_log.auxiliary_state import AuxiliaryStateBuilder
    from ottla.remote_log.tiered_storage import TieredStorage
    from ottla.replication.alter_partition_manager import AlterPartitionManager
    from ottla.replication.fetcher import ReplicaFetcherManager

log = logging.getLogger("ottla.broker")


class BrokerNode:
    """A broker. It runs on the event loop that runs `start`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock = SYSTEM_CLOCK,
        *,
        loop_time: EventLoopTime | None = None,
        compacts_in_processes: bool = False,
    ) -> None:
        """`loop_time`: measures the idle time of the event loop. `compacts_in_processes`: large compactions run in
        processes of their own, which needs `sys.executable` to be Python.
        """
        stored = config.id if config.id >= 0 else first_stored(owner_of, config.data_dirs)
        self._has_id = stored is not None
        self.broker_id = stored or 0
        self.config = config = config.replace({"broker.id": self.broker_id})
        self.failed = asyncio.Event()
        """Set when this broker cannot continue: all log directories, or the one on the metadata store's disk, have
        failed, or another broker has registered with its id.
        """
        self.failure = ""
        logs.protect()
        self._clock = clock
        self._workers = MeteredWorkers(config.num_io_threads, thread_name_prefix="ottla-worker")
        self._dynamic_config = DynamicBrokerConfig(config, self.broker_id)
        self._topic_defaults = topic_defaults(config.originals)
        self._log_dirs = LogDirs()
        self._store: MetadataStore | None = None
        self._awaited_store: ZooKeeperMetadataStore | SqliteMetadataStore | None = None
        """The store that `start` opens, set before it is open, so that `waits_for` can report what the store waits for.
        """
        self._lifecycle: BrokerLifecycle | None = None
        self._quotas = Quotas(self._dynamic_config, clock.monotonic)
        self._context: BrokerContext | None = None
        self._dispatch: Dispatch | None = None
        self._background_tasks: BackgroundTasks | None = None
        self._tiered_storage: TieredStorage | None = None
        self._scram_secret = b""
        """Key for fake credentials of unknown users, so that SCRAM does not reveal which users exist."""
        self._fetchers: ReplicaFetcherManager | None = None
        self._isr_updates: AlterPartitionManager | None = None
        self._disk_report: asyncio.Task[None] | None = None
        """The task that reports a failed disk to the controller.

        It is referenced here because the event loop keeps only weak references to tasks.
        """
        self._moves_leaders = True
        self._state = BrokerState.NOT_RUNNING
        self._stage: Callable[[], str] = str
        self._are_logs_loaded = False
        self._loop_time = loop_time
        self._compacts_in_processes = compacts_in_processes
        self._http: HttpListener | None = None
        self._memory = MemoryPool(config.queued_max_request_bytes)
        self._listeners = BrokerListeners(self._memory)
        self._loop_monitor: EventLoopMonitor | None = None
        self._reporters: list[Any] = []
        self._exit = AsyncExitStack()
        """Closes what `start` has opened, in reverse order."""

    async def start(self) -> None:
        """Open the log directories, load the logs, join the cluster, and serve clients.

        Raises a KafkaError, such as StartupError. After an error or a cancellation, everything that was opened is
        closed again.
        """
        began = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        if loop.get_task_factory() is None:
            loop.set_task_factory(task_factory)
        self._state = BrokerState.STARTING
        async with AsyncExitStack() as stack:
            self._start_http(stack)
            self._stage = lambda: "opening the metadata store"
            store, secret = await self._open_storage(stack)
            self._store = store
            self._log_start()
            context, lifecycle = self._build_context(stack, store, secret)
            dispatch = self._dispatch = self._build_dispatch(stack, context)
            stack.callback(self._listeners.close)
            stack.push_async_callback(self._listeners.drain)
            self._listeners.bind(
                self.config,
                lambda listener: build_service(
                    self.config, listener, dispatch, lambda: self._dynamic_config.current, lambda: self._scram_secret
                ),
            )
            if self._http is not None:
                self._http.log_state()
            self._stage = lambda: "reading the metadata"
            await self._read_metadata(context, lifecycle, store)
            self._stage = lambda: self._log_dirs.load_progress
            await self._load_logs(store)
            self._stage = lambda: "joining the cluster"
            await self._join_cluster(lifecycle)
            self._stage = lambda: "starting the partitions and coordinators"
            await self._start_partitions(stack, context, lifecycle)
            self._stage = lambda: "waiting for the metadata of the controller"
            await self._serve(stack, context, lifecycle)
            self._stage = str
            self._exit = stack.pop_all()
        self._state = BrokerState.RUNNING
        log.info(
            "Broker %d serves clients at %s: partitions=%d cluster=%s controller=%d, started in %.2f s",
            self.broker_id,
            ", ".join(map(str, self.endpoints)),
            len(context.partitions),
            context.image.cluster_id,
            context.image.controller_id,
            self._clock.monotonic() - began,
        )

    async def stop(self, *, moves_leaders: bool = True) -> None:
        """Stop the broker: move leaders to other brokers, finish requests in progress, flush the logs, and mark them as
        clean.

        `moves_leaders`: False to leave leaders where they are, for example if all brokers of the cluster stop.
        """
        began = self._clock.monotonic()
        log.info("Stopping broker %d", self.broker_id)
        self._moves_leaders = moves_leaders
        self._state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        await self._exit.aclose()
        self._state = BrokerState.NOT_RUNNING
        log.info("Stopped broker %d in %.2f s", self.broker_id, self._clock.monotonic() - began)

    async def kill(self) -> None:
        """Stop like a killed process, as far as others can see: requests in progress get no response, and leaders are
        not moved away.

        Unlike a killed process, the broker ends its session, so that the other brokers notice it at once, and flushes
        its logs and marks them as clean, so that the next start does not recover them.
        """
        self._listeners.disconnect()
        await self.stop(moves_leaders=False)

    def intercept(self, interceptor: Interceptor | None) -> None:
        """Call an interceptor instead of the handlers; None: call the handlers again (see `Dispatch.intercept`).

        Raises IllegalStateError before `start`.
        """
        if self._dispatch is None:
            raise IllegalStateError("the broker has not started")
        self._dispatch.intercept(interceptor)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses to which the listeners are bound; empty before `start`."""
        return self._listeners.endpoints

    @property
    def context(self) -> BrokerContext:
        """The parts of the broker. Raises IllegalStateError before `start`."""
        if self._context is None:
            raise IllegalStateError("the broker has not started")
        return self._context

    def _log_start(self) -> None:
        log.info("Starting broker %d: Ottla %s, Python %d.%d.%d", self.broker_id, __version__, *sys.version_info[:3])
        if log.isEnabledFor(logging.INFO):
            log.info("Configs that differ from the defaults: %s", ", ".join(self.config.differences()))

    @property
    def http_url(self) -> str | None:
        """The URL of the HTTP listener; None if there is none, or its address could not be bound."""
        return None if self._http is None else self._http.url

    @property
    def request_memory(self) -> MemoryPool:
        """The memory pool of requests that are being received or processed."""
        return self._memory

    @property
    def waits_for(self) -> str:
        """The reason why the broker waits for the metadata store, such as a ZooKeeper that does not answer; empty if it
        does not wait.
        """
        return "" if self._awaited_store is None else self._awaited_store.waits_for

    @property
    def stage(self) -> str:
        """The stage of the start or the shutdown, such as loading the logs; empty while the broker runs."""
        return self._stage()

    @property
    def monitored(self) -> MonitoredBroker | None:
        """The parts from which metrics are read; None before they are created and the logs are loaded."""
        if self._context is None or self._store is None or not self._are_logs_loaded:
            return None
        from ottla.broker.monitoring.scrape import MonitoredBroker  # many brokers are never asked for metrics

        return MonitoredBroker(
            self._context,
            self._listeners,
            self._memory,
            self._store,
            lambda: self._state,
            self._isr_updates,
            self._fetchers,
            self._loop_time,
            self._loop_monitor,
        )

    def _start_http(self, stack: AsyncExitStack) -> None:
        """Start the HTTP listener, if configured.

        It is started first and stopped last, because health probes are also sent while a broker starts and stops.
        """
        endpoint = self.config.ottla_http_listener
        if endpoint is None:
            return
        from ottla.broker.http.http_listener import HttpListener  # many brokers have none

        self._http = HttpListener(self.config, endpoint, self)
        stack.push_async_callback(self._http.close)
        self._http.start()

    def _build_dispatch(self, stack: AsyncExitStack, context: BrokerContext) -> Dispatch:
        ratio = self.config.ottla_tracing_sample_ratio
        if not ratio:
            return Dispatch(context)
        from ottla.broker.monitoring.request_tracing import TracedDispatch  # few brokers have traces
        from ottla.broker.monitoring.trace_export import TraceExport

        export = TraceExport.from_environment()
        stack.push_async_callback(export.close)
        return TracedDispatch(context, ratio, loop_time=self._loop_time)

    def _fail(self, reason: str) -> None:
        """Report that this broker cannot continue, so that the program that runs it will stop it."""
        self.failure = reason
        self.failed.set()

    async def _open_storage(self, stack: AsyncExitStack) -> tuple[MetadataStore, bytes | None]:
        """Open the log directories and the metadata store.

        Return the store and the cluster's secret, which is None if the broker is standalone.
        """
        if not self.config.in_cluster:
            stack.callback(self._log_dirs.close)
            self._log_dirs.open(self.config, self.broker_id, None, self._clock)
            store = self._awaited_store = SqliteMetadataStore(self._log_dirs[0].path)
            stack.push_async_callback(store.close)
            await store.open()
            return store, None
        zookeeper = None if self.config.zookeeper_connect is None else zookeeper_store(self.config)
        shared: ZooKeeperMetadataStore | SqliteMetadataStore = zookeeper or shared_store(self.config)
        self._awaited_store = shared
        stack.push_async_callback(shared.close)
        await shared.open()
        stored = first_stored(cluster_of, self.config.data_dirs)
        cluster_id = await agreed_cluster_id(shared, stored)
        await self._assign_id(shared)
        stack.callback(self._log_dirs.close)
        self._log_dirs.open(self.config, self.broker_id, cluster_id, self._clock)
        if zookeeper is not None:
            from ottla.cluster.broker.stale_session import StaleSessionCleaner  # other brokers start without it

            # the session of an earlier run that was killed ends now, not when it expires
            stale_session = StaleSessionCleaner(self._log_dirs[0].path, zookeeper)
            stack.callback(stale_session.delete_file)
            await stale_session.clean()
        return shared, await shared_secret(shared)

    def _build_context(
        self, stack: AsyncExitStack, store: MetadataStore, secret: bytes | None
    ) -> tuple[BrokerContext, BrokerLifecycle]:
        """Create the parts of the broker without starting them, and return its context and its lifecycle. `stack`
        closes the parts.
        """
        config, clock = self.config, self._clock
        self._reporters = created_reporters(config.metric_reporters, config.originals)
        lifecycle = self._lifecycle = BrokerLifecycle(
            store,
            config,
            self.broker_id,
            stop=self._stop_replica,
            unclean_allowed=self._unclean_allowed,
            offline_replicas=self._offline_replicas,
            on_replaced=self._fail,
            secret=secret,
        )
        stack.push_async_callback(lifecycle.close)
        authorizer, acl_store = build_authorizer(config, store, clock)
        if acl_store is not None:
            stack.push_async_callback(acl_store.close)
        tokens = build_delegation_tokens(config, store, clock)
        if tokens is not None:
            stack.push_async_callback(tokens.close)
        # Before the lifecycle, which waits for the network, so that the logs are flushed and marked clean even if the
        # network hangs.
        stack.callback(self._log_dirs.close)
        stack.callback(self._workers.shutdown, wait=True)
        cache = lifecycle.metadata_cache
        partitions = self._build_partitions(lifecycle)
        producer_ids = ProducerIds(store, self.broker_id)
        coordinators = Coordinators(
            config, clock, lambda: cache.image, partitions, lifecycle.interbroker, producer_ids.next_id
        )
        partitions.add_listener(coordinators)
        tiered = self._tiered_storage = self._build_tiered_storage(partitions, lifecycle, store)
        self._context = BrokerContext(
            dynamic_config=self._dynamic_config,
            quotas=self._quotas,
            telemetry=Telemetry(receivers_of(self._reporters), config.telemetry_max_bytes, clock.monotonic),
            clock=clock,
            metadata_cache=cache,
            controller_requests=lifecycle.controller_requests,
            controller=lifecycle.controller,
            config_store=lifecycle.config_store,
            inter_broker=lifecycle.interbroker,
            partitions=partitions,
            producer_ids=producer_ids,
            coordinators=coordinators,
            add_partitions=build_add_partitions(config, lifecycle.interbroker),
            zookeeper_offsets=ZooKeeperOffsets(store),
            share_sessions=ShareSessions(
                config.group_share_max_share_sessions, config.group_share_session_timeout_ms, clock
            ),
            renew_certificates=self._renew_certificates,
            authorizer=authorizer,
            acl_store=acl_store,
            delegation_tokens=tokens,
            cluster_secret=secret,
            remote_log=None if tiered is None else tiered.manager,
            fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, clock.monotonic),
            request_stats=RequestStats(self._loop_time),
        )
        return self._context, lifecycle

    def _build_tiered_storage(
        self, partitions: Partitions, lifecycle: BrokerLifecycle, store: MetadataStore
    ) -> TieredStorage | None:
        """Create the parts of tiered storage; None if it is not enabled."""
        if not self.config.remote_log_storage_system_enable:
            return None
        from ottla.broker import topic_creation
        from ottla.remote_log.tiered_storage import TieredStorage  # other brokers start without it

        async def topic_exists(name: str, topic_id: UUID) -> bool:
            topic = await read_topic(store, name)
            return topic is not None and topic.id in (None, topic_id)

        return TieredStorage(
            lambda: self._dynamic_config.current,
            self.broker_id,
            self._clock,
            partitions,
            lambda: lifecycle.metadata_cache.image,
            lifecycle.interbroker,
            lambda: topic_creation.create_internal(self.context, REMOTE_LOG_METADATA),
            topic_exists,
        )

    async def _read_metadata(self, context: BrokerContext, lifecycle: BrokerLifecycle, store: MetadataStore) -> None:
        """Read cluster id, configs, secrets, ACLs and delegation tokens from the metadata store. Apply the configs."""
        config = self.config
        if not context.in_cluster:
            await import_log_dirs(store, self._log_dirs, self.broker_id)
        await lifecycle.prepare(self._log_dirs[0].cluster_id)
        if any(name.startswith("SCRAM") for e in config.listeners for name in config.mechanisms(e.name)):
            self._scram_secret = await shared_secret(store)
        if context.acl_store is not None:
            await context.acl_store.start()
        if context.delegation_tokens is not None:
            await context.delegation_tokens.start()
        await self._apply_dynamic_configs(ClusterImage(""), context.image)

    async def _load_logs(self, store: MetadataStore) -> None:
        """Load the logs in a worker. After a crash this may take minutes, during which health probes are answered."""
        topic_configs = await read_topic_configs(store)
        load = functools.partial(
            self._log_dirs.load, self.config, lambda tp: self.log_config(tp.topic, topic_configs.get(tp.topic, {}))
        )
        loading = asyncio.get_running_loop().run_in_executor(self._workers, load)
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:
            self._log_dirs.stop_loading()
            await asyncio.wait([loading])  # the log directories are closed next
            raise
        self._are_logs_loaded = True

    async def _join_cluster(self, lifecycle: BrokerLifecycle) -> None:
        """Register this broker, let clients connect, and wait until the controller is elected."""
        assert self._store is not None
        self._store.on_new_session(lifecycle.rejoin)
        config = self.config
        await lifecycle.register(
            BrokerImage(
                self.broker_id,
                self._listeners.advertised(config),
                config.broker_rack,
                log_dirs=config.data_dirs,
                cordoned_log_dirs=config.cordoned_log_dirs,
            )
        )
        self._listeners.listen(config.socket_listen_backlog_size)
        await lifecycle.join()

    async def _start_partitions(
        self, stack: AsyncExitStack, context: BrokerContext, lifecycle: BrokerLifecycle
    ) -> None:
        """Start the partitions as leaders and followers, load the coordinators, and start the background tasks."""
        partitions, cache = context.partitions, context.metadata_cache
        stack.callback(self._cancel_disk_report)
        if self._isr_updates is not None:
            stack.callback(self._isr_updates.close)
        stack.push_async_callback(partitions.close)
        if self._fetchers is not None:
            stack.callback(self._fetchers.close)
        stack.callback(context.coordinators.close)
        if lifecycle.controller.is_active or cache.image.topics:
            await partitions.start(cache.image)
        cache.on_change(self._apply_dynamic_configs)
        cache.on_change(lifecycle.interbroker.on_image_changed)
        cache.on_change(partitions.on_image_changed)
        cache.on_change(context.coordinators.on_image_changed)
        if self._tiered_storage is not None:
            stack.push_async_callback(self._tiered_storage.close)
            self._tiered_storage.manager.start()
            cache.on_change(self._tiered_storage.manager.on_image_changed)
        await context.coordinators.start()
        if len(partitions):
            await context.producer_ids.skip_past(_highest_producer_id(partitions, context.coordinators))
        tasks = self._background_tasks = BackgroundTasks(
            self._dynamic_config,
            self._clock,
            self._log_dirs,
            partitions,
            context.coordinators,
            self._workers,
            context.remove_expired_tokens,
            context.remote_log,
            compacts_in_processes=self._compacts_in_processes,
        )
        stack.push_async_callback(tasks.close)
        tasks.start()

    async def _serve(self, stack: AsyncExitStack, context: BrokerContext, lifecycle: BrokerLifecycle) -> None:
        """Start to accept requests.

        If the broker moves leaders away when it stops, it does so first, while it still serves requests.
        """
        if self.config.ottla_event_loop_stall_ms:
            monitor = self._loop_monitor = EventLoopMonitor(self.config.ottla_event_loop_stall_ms / 1000)
            stack.enter_context(monitor)
        stack.callback(self._listeners.stop_accepting)
        stack.push_async_callback(self._move_leaders_away, context.partitions, lifecycle)
        self._listeners.start()
        if not lifecycle.controller_requests.is_initialized:
            await lifecycle.controller_requests.wait_initialized()
        if self._reporters:
            from ottla.broker.monitoring.reporters import start_reporters  # few brokers have any

            await start_reporters(stack, self._reporters, self)

    async def _move_leaders_away(self, partitions: Partitions, lifecycle: BrokerLifecycle) -> None:
        partitions.begin_shutdown()
        if self._moves_leaders:
            began, cache = self._clock.monotonic(), lifecycle.metadata_cache
            self._stage = lambda: (
                f"moving leaders to other brokers for {self._clock.monotonic() - began:.0f} s "
                f"(controller: broker {cache.image.controller_id})"
            )
            await lifecycle.controlled_shutdown()
        self._stage = lambda: "closing the logs"

    def _build_partitions(self, lifecycle: BrokerLifecycle) -> Partitions:
        config, broker_id, cache = self.config, self.broker_id, lifecycle.metadata_cache
        build = functools.partial(
            Partitions,
            broker_id,
            self._log_dirs,
            self._workers,
            self.log_config,
            self._min_insync_replicas,
            self._clock,
            unopened_dirs=self._log_dirs.unopened,
            on_fatal=self._fail,
            store_dir=self._log_dirs.store_dir(self.config),
            on_dir_failure=self._report_disk_failure,
        )
        if not config.in_cluster:
            return build()
        from ottla.replication.alter_partition_manager import AlterPartitionManager
        from ottla.replication.fetcher import (  # a standalone broker starts without them
            FetchOptions,
            ReplicaFetcherManager,
        )

        options = FetchOptions(
            wait_max_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
            timeout_ms=config.replica_socket_timeout_ms,
            fetchers=config.num_replica_fetchers,
        )

        def epoch() -> int:
            own = cache.image.brokers.get(broker_id)
            return -1 if own is None else own.epoch

        follower_quota = ReplicationQuota()
        self._isr_updates = AlterPartitionManager(
            broker_id, lifecycle.interbroker, lambda: cache.image, lifecycle.controller.isr_updates.alter_partition
        )
        self._fetchers = ReplicaFetcherManager(
            broker_id, lifecycle.interbroker, epoch, options, follower_quota, self._auxiliary_state
        )
        return build(
            isr_updates=self._isr_updates,
            followers=self._fetchers,
            follower_quota=follower_quota,
            lag_seconds=config.replica_lag_time_max_ms / 1000,
        )

    def _auxiliary_state(self) -> AuxiliaryStateBuilder | None:
        return None if self._tiered_storage is None else self._tiered_storage.manager.auxiliary_state

    def _stop_replica(self, tp: TopicPartition, delete: bool) -> None:
        assert self._context is not None
        self._context.partitions.stop(tp, delete)

    def _offline_replicas(self) -> list[TopicPartition]:
        return [] if self._context is None else self._context.partitions.offline_replicas()

    def _report_disk_failure(self, partitions: list[TopicPartition]) -> None:
        assert self._lifecycle is not None
        self._disk_report = asyncio.create_task(self._lifecycle.report_offline_replicas(partitions))

    def _cancel_disk_report(self) -> None:
        if self._disk_report is not None:
            self._disk_report.cancel()

    def log_config(self, name: str, configs: Mapping[str, str]) -> LogConfig:
        """Return the config of a log: the configs of the topic with this name, with the broker's configs as
        defaults.
        """
        broker = self._dynamic_config.current
        topic = TopicConfig.usable(name, self._topic_defaults, configs)
        return LogConfig.from_topic(
            topic,
            remote_storage_enable=broker.remote_log_storage_system_enable
            and topic.remote_storage_enable
            and "compact" not in topic.cleanup_policy,
            max_decompressed_bytes=broker.message_max_decompressed_bytes,
            validate_records=broker.ottla_validate_records,
        )

    def _min_insync_replicas(self, topic: str, configs: Mapping[str, str]) -> int:
        return TopicConfig.usable(topic, self._topic_defaults, configs).min_insync_replicas

    def _unclean_allowed(self, topic: str, configs: Mapping[str, str]) -> bool:
        return TopicConfig.usable(topic, self._topic_defaults, configs).unclean_leader_election_enable

    async def _assign_id(self, store: MetadataStore) -> None:
        config = self.config
        if self._has_id:
            if config.broker_id_generation_enable:
                self._check_id(config.reserved_broker_max_id)
            return
        if not config.broker_id_generation_enable:
            raise StartupError("broker.id is required, as broker.id.generation.enable is false")
        self.broker_id = await next_broker_id(store, config.reserved_broker_max_id)
        self.config = config.replace({"broker.id": self.broker_id})
        self._dynamic_config = DynamicBrokerConfig(self.config, self.broker_id)
        self._quotas = Quotas(self._dynamic_config, self._clock.monotonic)
        self._has_id = True

    def _check_id(self, reserved: int) -> None:
        """Raise StartupError if the id is one of those that are generated, unless it is stored in a log directory."""
        if self.broker_id > reserved and self.broker_id != first_stored(owner_of, self.config.data_dirs):
            raise StartupError(
                f"broker.id: {self.broker_id} is above reserved.broker.max.id ({reserved}), where ids are generated; "
                "choose a smaller id, or set broker.id.generation.enable to false"
            )

    async def _apply_dynamic_configs(self, before: ClusterImage, after: ClusterImage) -> None:
        """Apply the dynamic configs, client quotas and connection limits of a new image, if configs have changed."""
        if before.configs is after.configs:
            return  # only topics have changed
        before_config = self._dynamic_config.current
        if self._dynamic_config.update(after):
            config = self._dynamic_config.current
            if certificates.differ(before_config, config):
                self._renew_certificates()
            self._topic_defaults = topic_defaults(config.originals)
            if self._context is not None:
                self._context.partitions.reconfigure(after)
            if self._background_tasks is not None:
                self._background_tasks.resize_cleaner_pool()
        if self._context is not None:
            config = self._dynamic_config.current
            self._context.partitions.cordon(config.cordoned_dirs)
            self._context.partitions.update_rates(
                alter_log_dirs=config.replica_alter_log_dirs_io_max_bytes_per_second,
                leader=config.leader_replication_throttled_rate,
                follower=config.follower_replication_throttled_rate,
            )
        if self._tiered_storage is not None:
            self._tiered_storage.update_quotas()
        self._quotas.update(after)
        self._listeners.update_limits(self._dynamic_config.current, after)

    def _renew_certificates(self) -> None:
        certificates.renew(
            self._dynamic_config.current,
            self._listeners,
            None if self._lifecycle is None else self._lifecycle.interbroker,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _highest_producer_id(partitions: Partitions, coordinators: Coordinators) -> int:
    """Return the highest producer id among the logs' producer states and the transactional ids; -1 if there is none.

    Ids from MAX_PLAUSIBLE_ID on are ignored.
    """
    producer_ids = [producer_id for partition in partitions for producer_id in partition.log.producers.producers]
    producer_ids += coordinators.producer_ids
    return max((producer_id for producer_id in producer_ids if producer_id < MAX_PLAUSIBLE_ID), default=-1)
