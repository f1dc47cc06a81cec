"""The tasks of one flow: it copies records, and at intervals topics, configs, ACLs and group offsets, and emits
heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ottla.backoff import ExponentialBackoff
from ottla.errors import InvalidProducerEpochError, KafkaError, ProducerFencedError
from ottla.logs import reason_of
from ottla.mirror.checkpoints import CheckpointMirror, syncs_location
from ottla.mirror.clusters import Cluster
from ottla.mirror.copier import CopiedRecords, Copier, CopyProgress, offsets_topic, transactional_id
from ottla.mirror.flow_config import Flow, MirrorProperties
from ottla.mirror.offset_syncs import SyncSelector
from ottla.mirror.records import Heartbeat, OffsetSync
from ottla.mirror.replication_policy import replication_policy
from ottla.mirror.topics import TopicMirror
from ottla.model import TopicPartition
from ottla.records.appender import RecordFuture

log = logging.getLogger("ottla.mirror")

FENCED: Final = (ProducerFencedError, InvalidProducerEpochError)
BACKOFF: Final = ExponentialBackoff(1.0, 60.0, jitter=0.2)
"""Delays in seconds before a session that failed, or the translation of offsets, is started again."""

Action = Callable[[], Awaitable[None]]


class FlowMirror:
    """Copies the topics, records, configs, ACLs and group offsets of one flow, and emits heartbeats.

    Options of the flow can disable these tasks.
    """

    def __init__(self, flow: Flow, properties: MirrorProperties, source: Cluster, target: Cluster) -> None:
        self.flow = flow
        self.progress = CopyProgress()
        self.policy = replication_policy(flow.config)
        self.topics = TopicMirror(flow, self.policy, source, target)
        self._properties = properties
        self._source = source
        self._target = target
        self._syncs_cluster, other = syncs_location(flow, source, target)
        self._syncs_topic = self.policy.offset_syncs_topic(other.alias)
        self._selectors: dict[TopicPartition, SyncSelector] = {}
        self._stopped = asyncio.Event()
        self._copier: Copier | None = None

    def stop(self) -> None:
        """Make `run` return after the open transaction is committed."""
        self._stopped.set()
        if self._copier is not None:
            self._copier.stop()

    async def prepare(self) -> None:
        """Create MirrorMaker's own topics, as far as the options require them, and the copied topics at the target. If
        the flow is not enabled, create at most the heartbeats topic.

        Raises KafkaError if a request fails, or if one of MirrorMaker's own topics cannot be created. If a copied topic
        cannot be created, a warning is logged.
        """
        config, name = self.flow.config, self.flow.name
        if config.emit_heartbeats_enabled:
            await self._target.create_compacted_topic(self.policy.heartbeats_topic, config, "heartbeats.topic")
        if not config.enabled:
            return
        await self._target.create_compacted_topic(
            offsets_topic(self.flow), config, "offset.storage", config.offset_storage_partitions
        )
        if config.emit_offset_syncs_enabled:
            await self._syncs_cluster.create_compacted_topic(self._syncs_topic, config, "offset-syncs.topic")
            if config.emit_checkpoints_enabled:
                topic = self.policy.checkpoints_topic(name.source)
                await self._target.create_compacted_topic(topic, config, "checkpoints.topic")
        await self.topics.refresh()

    async def run(self) -> None:
        """Mirror until `stop`.

        Raises an exception group if a task fails, for example because the first session cannot start, or because
        another process has taken over.
        """
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(task) for task in self._background()]
            if self.flow.config.enabled:
                await self._copy()
            else:
                await self._stopped.wait()
            for task in background:
                task.cancel()

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        config, topics = self.flow.config, self.topics
        tasks = []
        if config.emit_heartbeats_enabled:
            tasks.append(self._repeat(self._emit_heartbeat, config.emit_heartbeats_interval_seconds, "heartbeat"))
        if not config.enabled:
            return tasks
        if config.refresh_topics_enabled:
            tasks.append(
                self._repeat(topics.refresh, config.refresh_topics_interval_seconds, "look-up of topics", at_once=False)
            )
        if config.sync_topic_configs_enabled:
            seconds = config.sync_topic_configs_interval_seconds
            tasks.append(self._repeat(topics.sync_configs, seconds, "copy of configs"))
        if config.sync_topic_acls_enabled:
            tasks.append(self._repeat(topics.sync_acls, config.sync_topic_acls_interval_seconds, "copy of ACLs"))
        if config.emit_checkpoints_enabled and config.emit_offset_syncs_enabled:
            tasks.append(self._checkpoint())
        return tasks

    async def _repeat(self, action: Action, seconds: float, what: str, *, at_once: bool = True) -> None:
        """Run an action every `seconds`, or again at once if it takes longer. A KafkaError is only logged."""
        if not at_once:
            await asyncio.sleep(seconds)
        while True:
            started = time.monotonic()
            try:
                await action()
            except KafkaError as error:
                delay = max(0.0, started + seconds - time.monotonic())
                log.warning("%s: %s failed; retrying in %.0f s: %s", self.flow.name, what, delay, error)
            await asyncio.sleep(max(0.0, started + seconds - time.monotonic()))

    async def _emit_heartbeat(self) -> None:
        source, target = self.flow.name
        now = time.time_ns() // 1_000_000
        heartbeat = Heartbeat(source, target, now)
        producer = self._target.producer
        topic = self.policy.heartbeats_topic
        await producer.send_and_wait(topic, heartbeat.value(), heartbeat.key(), partition=0, timestamp_ms=now)

    async def _checkpoint(self) -> None:
        failures = 0
        while True:
            try:
                async with CheckpointMirror(
                    self.flow, self.policy, self.topics, self._source, self._target
                ) as checkpoints:
                    await checkpoints.refresh_groups()
                    failures = 0
                    await self._repeat_checkpoints(checkpoints)
            except KafkaError as error:
                delay = BACKOFF.backoff(failures)
                failures += 1
                log.warning("%s: cannot translate group offsets; retrying in %.0f s: %s", self.flow.name, delay, error)
                await asyncio.sleep(delay)

    async def _repeat_checkpoints(self, checkpoints: CheckpointMirror) -> None:
        config = self.flow.config
        async with asyncio.TaskGroup() as tasks:
            seconds = config.emit_checkpoints_interval_seconds
            tasks.create_task(self._repeat(checkpoints.emit, seconds, "translation of offsets"))
            if config.refresh_groups_enabled:
                seconds = config.refresh_groups_interval_seconds
                tasks.create_task(self._repeat(checkpoints.refresh_groups, seconds, "look-up of groups", at_once=False))
            if config.sync_group_offsets_enabled:
                seconds = config.sync_group_offsets_interval_seconds
                tasks.create_task(self._repeat(checkpoints.sync_group_offsets, seconds, "commit of offsets"))

    async def _copy(self) -> None:
        """Copy in sessions: after a KafkaError, a new session starts.

        Raises the error if the first session cannot start, or if another process has taken over the flow.
        """
        failures = 0
        while not self._stopped.is_set():
            records = self.progress.records
            try:
                await self._run_session()
                continue
            except FENCED as error:
                used = f"transactional.id {transactional_id(self.flow)}"
                raise type(error)(f"{self.flow.name}: another process copies this flow ({used})") from None
            except KafkaError as error:
                if self._copier is None:
                    raise
                failures = 0 if self.progress.records > records else failures
                delay = BACKOFF.backoff(failures)
                failures += 1
                what_next = "stopping" if self._stopped.is_set() else f"starting again in {delay:.0f} s"
                log.warning("%s: copying failed; %s: %s", self.flow.name, what_next, error)
            await self.until_stopped(asyncio.sleep(delay))

    async def _run_session(self) -> None:
        copier = Copier(self.flow, self._properties, self.topics, self._target, self._emit_offset_syncs, self.progress)
        await self.until_stopped(copier.start())
        async with copier:
            self._copier = copier
            if not self._stopped.is_set():
                await copier.run()

    async def until_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end, or cancel it and return when `stop` is called."""
        task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait([task, stopped], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            stopped.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)

    async def _emit_offset_syncs(self, copied: list[CopiedRecords]) -> None:
        """Record offset syncs of copied records. A KafkaError is only logged: without a sync, translated offsets are
        less exact.
        """
        if not self.flow.config.emit_offset_syncs_enabled:
            return
        try:
            for sync in self._selected(copied):
                future: RecordFuture = await self._syncs_cluster.producer.send(
                    self._syncs_topic, sync.value(), sync.key(), partition=0
                )
                future.add_errback(self._sync_failed)
        except KafkaError as error:
            self._sync_failed(error)

    def _selected(self, copied: list[CopiedRecords]) -> list[OffsetSync]:
        syncs: list[OffsetSync] = []
        last: dict[TopicPartition, tuple[int, int]] = {}
        for partition, upstream, downstream, count in copied:
            selector = self._selectors.get(partition)
            if selector is None:
                selector = SyncSelector(partition, self.flow.config.offset_lag_max)
                self._selectors[partition] = selector
            syncs += selector.select(upstream, downstream, count)
            last[partition] = upstream + count - 1, downstream + count - 1
        latest = [self._selectors[partition].latest(*offsets) for partition, offsets in last.items()]
        return syncs + [sync for sync in latest if sync is not None]

    def _sync_failed(self, error: BaseException) -> None:
        cluster = self._syncs_cluster.alias
        log.warning(
            "%s: cannot write an offset sync to topic %s on %s; group offsets may be translated less exactly: %s",
            self.flow.name,
            self._syncs_topic,
            cluster,
            reason_of(error),
        )
