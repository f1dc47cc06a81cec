"""Requests from the controller to the brokers: one channel per broker. Kafka's `ControllerChannelManager`.

A channel keeps the image that it has sent last, and sends the difference between it and the current image. So there is
no queue of requests: changes that happen while a request is in flight are sent together afterwards, and after a lost
connection the difference is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.backoff import ExponentialBackoff
from ottla.cluster.image import image_delta
from ottla.cluster.image.cluster_image import BrokerImage, ClusterImage
from ottla.cluster.image.image_delta import StoppedReplica
from ottla.cluster.image.metadata_cache import MetadataCache
from ottla.cluster.interbroker.client import RequestSender
from ottla.errors import KafkaError, KafkaStorageError, for_code
from ottla.model import TopicPartition
from ottla.protocol.message import Request, Response

if TYPE_CHECKING:
    from ottla.cluster.controller.requests import BrokerRequests
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse

log = logging.getLogger("ottla.controller")

R = TypeVar("R", bound=Response)
PURPOSE: Final = "controller"
VERSIONS: Final = MappingProxyType({"LeaderAndIsr": 7, "UpdateMetadata": 8, "StopReplica": 4})
"""The versions in which the controller sends its requests: the highest ones of Apache Kafka 3.9."""
BACKOFF: Final = ExponentialBackoff(0.02, 0.5)
"""The backoff in seconds between attempts, after a request has failed."""
REPORTED_FAILURES: Final = 5
"""Number of consecutive failures at which a KafkaError is logged as a warning, not at DEBUG."""


SendChanges = Callable[[BrokerImage, ClusterImage | None, ClusterImage], Awaitable[None]]
"""Sends the difference between two images to a broker. Raises KafkaError if that fails."""
StopReplica = Callable[[TopicPartition, bool], None]
"""Stops a replica of this broker. The second argument: whether to delete its log."""
OnDeleted = Callable[[int, list[TopicPartition]], Awaitable[None]]
"""Called with a broker id and the replicas that the broker has deleted."""
OnOffline = Callable[[int, list[TopicPartition]], Awaitable[None]]
"""Called with a broker id and the replicas that the broker reports as offline, with KAFKA_STORAGE_ERROR."""


class ControllerChannels:
    """The channels of one controller term. Not thread-safe: event loop only."""

    def __init__(
        self,
        metadata_cache: MetadataCache,
        sender: RequestSender,
        broker_id: int,
        stop: StopReplica,
        deleted: OnDeleted,
        failed: OnOffline,
        timeout_ms: int,
        epoch: int,
    ) -> None:
        """`stop`: a function that stops a replica of this broker, because the controller sends no requests to its own
        broker.

        `deleted` and `failed`: functions that are called with the replicas that brokers report as deleted or as
        offline. `timeout_ms`: the timeout of a request. `epoch`: the epoch of the controller term; images of other
        controllers are not sent.
        """
        self._cache = metadata_cache
        self._sender = sender
        self._own_id = broker_id
        self._stop = stop
        self._on_deleted = deleted
        self._on_offline = failed
        self._timeout = timeout_ms / 1000
        self._epoch = epoch
        self._channels: dict[tuple[int, int], _Channel] = {}
        self._requests: BrokerRequests | None = None

    def update_brokers(self, brokers: Iterable[BrokerImage]) -> None:
        """Open channels to new brokers and to brokers that have registered again.

        Close the channels to earlier registrations, and to brokers that are not in `brokers`.
        """
        by_key = {(broker.id, broker.epoch): broker for broker in brokers}
        for key in self._channels.keys() - by_key.keys():
            self._channels.pop(key).close()
        for key, broker in by_key.items():
            if key not in self._channels:
                self._channels[key] = channel = _Channel(self._cache, broker, self._send, self._epoch)
                channel.start()

    def notify(self) -> None:
        for channel in self._channels.values():
            channel.changed.set()

    def resend_all(self, broker_id: int) -> None:
        """Have the complete image sent to a broker again."""
        for (channel_broker_id, _), channel in self._channels.items():
            if channel_broker_id == broker_id:
                channel.resend_all()

    async def wait_sent(self, timeout: float) -> None:
        """Wait until every broker has received the current image, at most `timeout` seconds."""
        number = self._cache.number
        waits = [asyncio.ensure_future(channel.wait_sent(number)) for channel in self._channels.values()]
        if waits:
            await asyncio.wait(waits, timeout=timeout)
        for wait in waits:
            wait.cancel()

    def close(self) -> None:
        """Close all channels at the end of the term."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    async def _send(self, broker: BrokerImage, before: ClusterImage | None, after: ClusterImage) -> None:
        """Send a broker the changes between two images (`before` is None: the whole image). To the controller's own
        broker, send nothing, but stop its replicas.

        Raises KafkaError if that fails.
        """
        ended = image_delta.stopped_replicas(before, after, broker.id)
        if broker.id != self._own_id:
            await self._send_requests(broker, before, after, ended)
            return
        for tp, how in ended.items():
            self._stop(tp, how.delete)
        await self._on_deleted(broker.id, _deleted(ended))

    async def _send_requests(
        self,
        broker: BrokerImage,
        before: ClusterImage | None,
        after: ClusterImage,
        ended: Mapping[TopicPartition, StoppedReplica],
    ) -> None:
        from ottla.cluster.controller import (
            requests,  # a standalone broker starts without it, and without the classes of its requests
        )

        if self._requests is None:
            self._requests = requests.BrokerRequests()
        leader_and_isr = self._requests.leader_and_isr(before, after, broker)
        metadata = self._requests.update_metadata(before, after, broker)
        if before is None and metadata is not None:
            # A broker that has received nothing yet needs the brokers' addresses first, before it can follow leaders.
            # Others can act on LeaderAndIsr at once.
            await self._request(broker, metadata)
        if leader_and_isr is not None:
            response = await self._request(broker, leader_and_isr)
            offline = _offline_replicas(leader_and_isr, response)
            if offline:
                await self._on_offline(broker.id, offline)
        if before is not None and metadata is not None:
            await self._request(broker, metadata)
        if ended:
            stopped = await self._request(broker, requests.stop_replica(ended, after, broker))
            failed = {TopicPartition(e.topic_name, e.partition_index) for e in stopped.partition_errors if e.error_code}
            await self._on_deleted(broker.id, [tp for tp in _deleted(ended) if tp not in failed])

    async def _request(self, broker: BrokerImage, request: Request[R]) -> R:
        version = VERSIONS[request.NAME]
        response = await self._sender.send(broker.id, request, version, timeout=self._timeout, purpose=PURPOSE)
        code: int = getattr(response, "error_code")  # noqa: B009 - each of the three responses has the field, but not their base class
        if code:
            raise for_code(code)
        return response


def _deleted(ended: Mapping[TopicPartition, StoppedReplica]) -> list[TopicPartition]:
    return [tp for tp, how in ended.items() if how.delete]


def _offline_replicas(request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> list[TopicPartition]:
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    return [
        TopicPartition(names[topic.topic_id], error.partition_index)
        for topic in response.topics
        for error in topic.partition_errors
        if error.error_code == KafkaStorageError.code
    ]


class _Channel:
    """The channel to one registration of a broker."""

    def __init__(self, metadata_cache: MetadataCache, broker: BrokerImage, send: SendChanges, epoch: int) -> None:
        self._cache = metadata_cache
        self._epoch = epoch
        self._broker = broker
        self._send_changes = send
        self._sent: ClusterImage | None = None
        self._send_all = True
        self._number = -1
        """The number of the image that was sent last (see `MetadataCache.number`); -1 before the first one."""
        self._sent_changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.changed = asyncio.Event()

    def start(self) -> None:
        self.changed.set()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def resend_all(self) -> None:
        self._send_all = True
        self.changed.set()

    async def wait_sent(self, number: int) -> None:
        """Wait until the image with this number, or a later one, has been sent."""
        async with self._sent_changed:
            await self._sent_changed.wait_for(lambda: self._number >= number)

    async def _run(self) -> None:
        failures = 0
        while True:
            await self.changed.wait()
            self.changed.clear()
            image, number = self._cache.image, self._cache.number
            if image.controller_epoch != self._epoch:
                continue  # the image is of a newer controller: this term has ended
            before, self._send_all = None if self._send_all else self._sent, False
            try:
                await self._send_changes(self._broker, before, image)
            except Exception as error:
                self._send_all = self._send_all or before is None
                failures += 1
                self._report(error, failures)
                await asyncio.sleep(BACKOFF.backoff(failures - 1))
                self.changed.set()
                continue
            if failures >= REPORTED_FAILURES:
                log.info("Metadata updates of broker %d succeed again", self._broker.id)
            failures = 0
            async with self._sent_changed:
                self._sent, self._number = image, number
                self._sent_changed.notify_all()

    def _report(self, error: Exception, failures: int) -> None:
        if isinstance(error, KafkaError):
            # a broker that is starting or stopping does not listen for a moment
            level = logging.WARNING if failures == REPORTED_FAILURES else logging.DEBUG
            log.log(
                level,
                "Cannot complete a metadata update of broker %d; retrying, and until that succeeds its metadata may be "
                "outdated: %s",
                self._broker.id,
                error,
            )
        else:
            log.error(
                "Cannot complete a metadata update of broker %d; retrying, and until that succeeds its metadata may be "
                "outdated",
                self._broker.id,
                exc_info=error,
            )
