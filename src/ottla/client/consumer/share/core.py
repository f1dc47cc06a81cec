"""The core of the synchronous and the asynchronous share consumer.

Not thread-safe: event loop only, with these exceptions: `callback`, `take` and the acknowledgements in `in_flight`
belong to the caller's thread while no call is waiting for the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from ottla import errors
from ottla.client.consumer.core import LEAST_CLOSE_SECONDS, LONGEST_WAIT, topic_names
from ottla.client.consumer.fetch.topic_errors import TopicErrors
from ottla.client.consumer.group.membership import LEAVE_SECONDS
from ottla.client.consumer.metrics import CoordinatorMetrics
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.share.acknowledgements import GAP, Acknowledgements, AcknowledgeType, Source
from ottla.client.consumer.share.in_flight import InFlightRecords, Records
from ottla.client.consumer.share.share_fetcher import ShareFetcher
from ottla.client.consumer.share.share_membership import ShareMembership
from ottla.client.consumer.subscription import Subscription
from ottla.client.consumer.wakeup import WakeupTrigger
from ottla.client.core.client_metrics import metrics_of
from ottla.client.core.connections import Connections
from ottla.client.core.coordinator import Coordinator
from ottla.client.core.interceptors import close_all
from ottla.client.core.io_thread import run_at_caller
from ottla.client.core.metadata import Cluster, metadata_of
from ottla.client.core.telemetry import telemetry_of
from ottla.client.serializers import find
from ottla.config.share_consumer import EXPLICIT, ShareConsumerConfig
from ottla.model import TopicPartition
from ottla.net.client.channel_metrics import ChannelMetrics

log = logging.getLogger("ottla.client")

AcknowledgementCallback = Callable[[dict[TopicPartition, set[int]], errors.KafkaError | None], Any]
"""Gets the result of acknowledgements: (offsets by partition, error or None)."""
Results = dict[TopicPartition, errors.KafkaError | None]
MAX_RESULTS: Final = 10_000
"""Maximum number of results that wait for the callback; further ones are dropped."""

_numbers = itertools.count(1)


class ShareConsumerCore:
    """The parts and the logic of a share consumer, without the public API."""

    def __init__(self, config: ShareConsumerConfig) -> None:
        if not config.group_id:
            raise errors.InvalidGroupIdError("a share consumer needs a group_id")
        self.config = config
        self.client_id = config.client_id or f"consumer-{config.group_id}-{next(_numbers)}"
        self.is_explicit = config.share_acknowledgement_mode == EXPLICIT
        self.subscription = Subscription()
        self.in_flight = InFlightRecords()
        self.wakeup_trigger = WakeupTrigger()
        self.poll_trigger = PollTrigger()
        self.is_started = False
        self.callback: AcknowledgementCallback | None = None
        self._results: list[Acknowledgements] = []
        self._error: errors.KafkaError | None = None
        """The error of a record or batch that could not be decoded. poll() raises it once there are no records to
        return first.
        """
        configs = {**config.originals, "client.id": self.client_id}
        self.key_deserializer = find(config.key_deserializer, "key_deserializer", configs)
        self.value_deserializer = find(config.value_deserializer, "value_deserializer", configs)
        self.metrics = metrics_of(config, "consumer", self.client_id)
        try:
            self._connect()
        except BaseException:
            self.metrics.close()  # a reporter may have a thread
            raise

    def _connect(self) -> None:
        config = self.config
        channels = ChannelMetrics(self.metrics, "consumer")
        self.connections = Connections(config, self.client_id, lambda: self.metadata.cluster.nodes, channels)
        self.metadata = metadata_of(config, self.connections, allow_auto_create=config.allow_auto_create_topics)
        self.topic_errors = TopicErrors(config, self.metadata, self.subscription)
        self.telemetry = telemetry_of(
            config.enable_metrics_push,
            self.connections,
            self.metadata,
            self.metrics,
            group_id=config.group_id,
            client_rack=config.client_rack,
        )
        self.membership = ShareMembership(
            config,
            Coordinator(
                config.group_id,
                self.connections,
                self.metadata,
                config.retry_backoff_ms / 1000,
                retry_backoff_max=config.retry_backoff_max_ms / 1000,
            ),
            self.metadata,
            self.subscription,
            CoordinatorMetrics(self.metrics, lambda: len(self.subscription.partitions)),
            self.poll_trigger,
        )
        self.fetcher = ShareFetcher(
            config, self.connections, self.metadata, self.poll_trigger, lambda: self.membership.member_id
        )

    # Start and stop

    async def start(self) -> None:
        """Start the background task that refreshes the metadata."""
        self.is_started = True
        self.metadata.listeners.append(self._new_cluster)
        self.metadata.start()

    def _new_cluster(self, cluster: Cluster) -> None:
        self.topic_errors.metadata_updated()
        if self.subscription.has_subscription:
            self.membership.metadata_changed()
        self.poll_trigger.set()

    async def stop(self, timeout: float | None) -> None:
        """Send pending acknowledgements, leave the group and stop, within `timeout` seconds (None:
        default.api.timeout.ms).

        As in Java, records that were not acknowledged are released, also in implicit mode. A poll of another task
        raises IllegalStateError: otherwise it would join the group again.
        """
        self.membership.is_closing = True
        self.poll_trigger.set()
        deadline = time.monotonic() + (self.config.default_api_timeout_ms / 1000 if timeout is None else timeout)
        try:
            await self._leave(deadline)
            await self._run_callbacks()
        finally:
            self.membership.reset()
            if self.telemetry is not None:
                await self.telemetry.close()
            await self.metadata.close()
            await self.connections.close()
            self.metrics.close()
            close_all((), self.key_deserializer, self.value_deserializer)

    async def _leave(self, deadline: float) -> None:
        self._send_acknowledgements()
        await self.fetcher.close_sessions(deadline)
        self.in_flight.clear()
        try:
            async with asyncio.timeout(max(LEAST_CLOSE_SECONDS, min(LEAVE_SECONDS, deadline - time.monotonic()))):
                await self.membership.leave()
        except TimeoutError:
            log.warning(
                "Could not leave group %s in time; the coordinator removes the member at the latest after its session "
                "timeout",
                self.config.group_id,
            )

    # Subscription

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscribed topics."""
        self.subscription.subscribe(topic_names(topics))
        self.metadata.set_topics(self.subscription.topics)
        self.topic_errors.subscribed()

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, leave the group, and clear the subscription."""
        try:
            if self.subscription.has_subscription:
                await self._leave(time.monotonic() + LEAVE_SECONDS)
        finally:
            self.subscription.unsubscribe()
            self.metadata.set_topics(())

    # Polling

    async def prepare(self, timeout: float) -> None:
        """Send the acknowledgements of the previous poll's records, and wait up to `timeout` seconds for new or
        renewed records. In implicit mode, accept the previous records first.

        Raises the errors of poll(), except those of records and batches that cannot be decoded.
        """
        if not self.subscription.has_subscription:
            if not self.is_started:  # start() subscribes to the topics of the constructor
                raise errors.IllegalStateError(
                    "the consumer is not started; use `async with`, or `await consumer.start()`"
                )
            raise errors.IllegalStateError("not subscribed to any topic")
        if not self.is_explicit:
            self.in_flight.accept_all()
        self._send_acknowledgements()
        if self.in_flight.has_unacknowledged:
            self.fetcher.send({}, fetch=False)
            raise errors.IllegalStateError("all records must be acknowledged in explicit acknowledgement mode")
        await self.wakeup_trigger.interruptible(self._prepare(time.monotonic() + timeout))

    async def _prepare(self, deadline: float) -> None:
        while True:
            if self.membership.is_closing:
                raise errors.IllegalStateError("the share consumer is closed")
            self.membership.last_poll = time.monotonic()
            self.poll_trigger.clear()
            await self._run_callbacks()
            self.poll_trigger.raise_error()
            self.topic_errors.check()
            await self.membership.join_if_needed(deadline)
            self._send_acknowledgements()  # gaps in records that had nothing else
            may_fetch = not (self.fetcher.acquired or self.in_flight.has_renewals or self._error)
            self.fetcher.send(self._assigned(), fetch=may_fetch)
            if self.fetcher.acquired or self.in_flight.renewed or self._error:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                return
            if not (self.poll_trigger.is_set or self.membership.has_work):
                await self._wait(min(left, LONGEST_WAIT))

    def _assigned(self) -> dict[TopicPartition, Any]:
        return dict(self.membership.owned) if self.membership.is_settled else {}

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.poll_trigger.wait()
        except TimeoutError:
            pass

    def take(self) -> Records:
        """Return the records whose locks were renewed. If there are none, decode and return newly acquired records, one
        `AcquiredRecords` after the other, until there are max.poll.records or more, an error, or none are left.

        Raises the error of a record or batch that could not be decoded if there are no records to return first.
        """
        records = self.in_flight.take_renewed()
        count = 0
        while not (records and count == 0) and self.fetcher.acquired and count < self.config.max_poll_records:
            if self._error is not None:
                break
            acquired = self.fetcher.acquired.popleft()
            decoded = acquired.decode(
                self.key_deserializer,
                self.value_deserializer,
                check_crc=self.config.check_crcs,
                max_decompressed_bytes=self.config.max_decompressed_batch_bytes,
            )
            self.in_flight.add(acquired.source, decoded.records, decoded.acknowledged)
            self._error = decoded.error
            if decoded.records:
                records.setdefault(acquired.source.tp, []).extend(decoded.records)
                count += len(decoded.records)
        if self._error is not None and not records:
            error, self._error = self._error, None
            raise error
        return records

    # Acknowledgements

    def acknowledge(self, tp: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record. Raises IllegalStateError in implicit mode, and for a record that is not in flight."""
        if not self.is_explicit:
            raise errors.IllegalStateError("acknowledge() needs share.acknowledgement.mode=explicit")
        self.in_flight.acknowledge(tp, offset, AcknowledgeType(kind))

    def _send_acknowledgements(self) -> list[Acknowledgements]:
        """Pass the pending acknowledgements to the fetcher, and return them."""
        return [self._hand_over(source, types) for source, types in self.in_flight.take_acknowledged().items()]

    def _hand_over(self, source: Source, types: dict[int, int]) -> Acknowledgements:
        acknowledgements = Acknowledgements(source, types)
        acknowledgements.done.add_done_callback(lambda _: self._completed(acknowledgements))
        self.fetcher.acknowledge(acknowledgements)
        return acknowledgements

    def _completed(self, acknowledgements: Acknowledgements) -> None:
        renewals = [o for o, kind in acknowledgements.types.items() if kind == AcknowledgeType.RENEW]
        if renewals:
            succeeded = acknowledgements.done.result() is None
            self.in_flight.renewed.append((acknowledgements.source, renewals, succeeded))
        if self.callback is not None and len(self._results) < MAX_RESULTS:
            self._results.append(acknowledgements)
        self.poll_trigger.set()

    async def commit_sync(self, timeout: float) -> Results:
        """Send pending acknowledgements, and return the result of each partition: None or an error, which is
        KafkaTimeoutError if the broker does not respond within `timeout` seconds.
        """
        await self._run_callbacks()
        waiting = self.commit()
        if not waiting:
            return {}
        await asyncio.wait([some.done for some in waiting], timeout=timeout)
        results: Results = {}
        for some in waiting:
            late = errors.KafkaTimeoutError(f"{some.source.tp}: no result within {timeout:g} s")
            error = some.done.result() if some.done.done() else late
            results[some.source.tp] = results.get(some.source.tp) or error
        return results

    def commit(self) -> list[Acknowledgements]:
        """Pass the pending acknowledgements to the fetcher, let it send them, and return them. In implicit mode,
        accept all records first.
        """
        if not self.is_explicit:
            self.in_flight.accept_all()
        waiting = self._send_acknowledgements()
        self.fetcher.send({}, fetch=False)
        return waiting

    async def _run_callbacks(self) -> None:
        """Call the callback with the pending results, in the caller's thread."""
        results, self._results = self._results, []
        for some in results:
            offsets = {offset for offset, kind in some.types.items() if kind != GAP}
            if self.callback is not None and offsets:
                result = await run_at_caller(self.callback, {some.source.tp: offsets}, some.done.result())
                if inspect.isawaitable(result):
                    await result
