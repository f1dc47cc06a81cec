"""`KafkaShareConsumer` for asyncio. It is exported as `ottla.aio.KafkaShareConsumer`."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from ottla.client.consumer.share.acknowledgements import AcknowledgeType
from ottla.client.consumer.share.core import AcknowledgementCallback, Results, ShareConsumerCore
from ottla.client.consumer.share.in_flight import Records
from ottla.client.core import telemetry
from ottla.config.share_consumer import ShareConsumerConfig
from ottla.errors import IllegalStateError
from ottla.model import TopicPartition
from ottla.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from ottla.client.options.share_consumer import ShareConsumerOptions

T = TypeVar("T")


class KafkaShareConsumer:
    """Reads records of a share group. Bound to one event loop. Use `start` and `stop`, or `async with`.

    The acknowledgement callback is called in the event loop, and may be a coroutine function.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **options: Unpack[ShareConsumerOptions]) -> None:
        mappings = [t for t in topics if isinstance(t, Mapping)]
        self._names = [t for t in topics if isinstance(t, str)]
        if mappings:
            self.config: ShareConsumerConfig = ShareConsumerConfig.from_kafka(mappings[0], **options)
        else:
            self.config = ShareConsumerConfig.from_keywords(**options)
        self._core = ShareConsumerCore(self.config)
        self._default_timeout = self.config.default_api_timeout_ms / 1000
        self._closed = False

    def __repr__(self) -> str:
        return f"<KafkaShareConsumer {self._core.client_id}>"

    async def start(self) -> None:
        """Start the client, and subscribe to the topics that were passed to the constructor."""
        await self._core.start()
        if self._names:
            self._core.subscribe(self._names)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Subscription

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to topics, instead of the previous subscription. Without topics, the same as unsubscribe()."""
        self._check_open()
        names = topics if isinstance(topics, str) else list(topics)
        if names:
            self._core.subscribe(names)
        else:
            await self._core.unsubscribe()

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return set(self._core.subscription.topics)

    async def unsubscribe(self) -> None:
        """Send pending acknowledgements, leave the group, and clear the subscription."""
        self._check_open()
        await self._core.unsubscribe()

    # Records

    async def poll(self, timeout_ms: float = 0) -> Records:
        """Return acquired records. Wait up to `timeout_ms` for the first one.

        In implicit mode, this accepts the records of the previous poll. In explicit mode, they must all have been
        acknowledged, otherwise it raises IllegalStateError; records that were acknowledged with RENEW are returned
        again once their locks are renewed.

        Raises RecordDeserializationError for a record that cannot be deserialized. The record is released, unless the
        application acknowledges it with `acknowledge_offset` (explicit mode only). Raises CorruptBatchError or another
        CorruptMessageError for a damaged batch, whose records are rejected. If there are several such records or
        batches in a partition, only one error is raised. The next call continues after all of them.
        """
        self._check_open()
        await self._core.prepare(timeout_ms / 1000)
        return self._core.take()

    def wakeup(self) -> None:
        """Let the poll(), commit() or client_instance_id() that waits raise WakeupError; if none waits, the next one.
        Event loop only.
        """
        self._core.wakeup_trigger.wakeup()

    # Acknowledgements

    def acknowledge(self, record: ConsumerRecord, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record of the last poll. The next poll or commit sends the acknowledgement.

        Raises IllegalStateError with share.acknowledgement.mode=implicit, and for a record that is not in flight.
        """
        self.acknowledge_offset(record.topic_partition, record.offset, acknowledge_type)

    def acknowledge_offset(
        self, partition: TopicPartition, offset: int, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record by its partition and offset, for example the one in a RecordDeserializationError."""
        self._check_open()
        self._core.acknowledge(TopicPartition(*partition), offset, acknowledge_type)

    async def commit(self, timeout_ms: float | None = None) -> Results:
        """Send pending acknowledgements (in implicit mode: accept all records of the last poll), and wait up to
        `timeout_ms` for the results: an error or None for each partition.

        Records whose acknowledgement failed may be delivered again after their locks have expired.
        """
        timeout = self._default_timeout if timeout_ms is None else timeout_ms / 1000
        return await self._wait(self._core.commit_sync(timeout))

    commit_sync = commit

    def commit_async(self) -> None:
        """Send pending acknowledgements (in implicit mode: accept all records of the last poll) in the background. The
        callback (set_acknowledgement_commit_callback) gets the results.
        """
        self._check_open()
        self._core.commit()

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that gets the results of acknowledgements, as (offsets by partition, error or None). Later
        calls of poll(), commit() and close() call it.
        """
        self._check_open()
        self._core.callback = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the duration of acquisition locks in milliseconds; None if it is not known yet."""
        return self._core.fetcher.lock_timeout_ms

    # Queries

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return dict(self._core.metrics.metrics) if raw else dict(self._core.metrics.values())

    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id of this client in telemetry (KIP-714).

        Raises KafkaTimeoutError if the cluster assigns none in time, UnsupportedVersionError if it does not support
        telemetry or has rejected the request, and IllegalStateError if enable.metrics.push is false.
        """
        timeout = self._default_timeout if timeout_ms is None else timeout_ms / 1000
        return await self._wait(telemetry.require(self._core.telemetry).client_instance_id(timeout))

    # Closing

    async def close(self, timeout_ms: float | None = None) -> None:
        """Send pending acknowledgements, leave the group and close, within `timeout_ms` (None: default.api.timeout.ms).
        May be called repeatedly.

        Records that were not acknowledged are released, so that other members get them at once.
        """
        if self._closed:
            return
        self._closed = True
        await self._core.stop(None if timeout_ms is None else timeout_ms / 1000)

    stop = close

    async def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            coroutine.close()
        self._check_open()
        return await self._core.wakeup_trigger.interruptible(coroutine)

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("the share consumer is closed")
