"""`KafkaShareConsumer`: the synchronous API. Only one thread at a time may use it, except for `wakeup` and the methods
that only read state.

Records are decoded, and the acknowledgement callback is called, in the caller's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from ottla.client.consumer.consumer import STOP_MARGIN_SECONDS
from ottla.client.consumer.share.acknowledgements import AcknowledgeType
from ottla.client.consumer.share.async_share_consumer import KafkaShareConsumer as AsyncKafkaShareConsumer
from ottla.client.consumer.share.core import AcknowledgementCallback
from ottla.client.consumer.share.in_flight import Records
from ottla.client.core.io_thread import IoThread
from ottla.client.core.synchronous import SingleThreadClient, in_io_thread, synchronous
from ottla.model import TopicPartition
from ottla.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from ottla.client.options.share_consumer import ShareConsumerOptions
    from ottla.config.share_consumer import ShareConsumerConfig

T = TypeVar("T")


class KafkaShareConsumer(SingleThreadClient[AsyncKafkaShareConsumer]):
    """Reads records of a share group (KIP-932): several members may read the same partition, but each record
    is delivered to one of them at a time.

        with KafkaShareConsumer("topic", bootstrap_servers="localhost:9092", group_id="g") as consumer:
            while True:
                for records in consumer.poll(timeout_ms=1000).values():
                    for record in records:
                        print(record.offset, record.value, record.delivery_count)

    Positional arguments are topics. Options are keywords (`group_id="g"`), or one mapping with Kafka's names; see
    `ottla.config.share_consumer.ShareConsumerConfig`. By default each poll() accepts the records that the
    previous one returned. With `share_acknowledgement_mode="explicit"` the application calls `acknowledge` for each
    record:

        consumer.acknowledge(record, AcknowledgeType.RELEASE)

    A record that is not acknowledged before its acquisition lock expires may be delivered again.
    """

    def __init__(self, *topics: str | Mapping[str, Any], **options: Unpack[ShareConsumerOptions]) -> None:
        self._asynchronous = AsyncKafkaShareConsumer(*topics, **options)
        self.config: ShareConsumerConfig = self._asynchronous.config
        self._core = self._asynchronous._core
        super().__init__("share consumer", IoThread(f"ottla-{self._core.client_id}"))
        self._io.start()
        try:
            self._io.run(self._asynchronous.start())
        except BaseException:
            self.close(timeout_ms=0)
            raise

    def __repr__(self) -> str:
        return repr(self._asynchronous)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    subscribe: Final = synchronous(AsyncKafkaShareConsumer.subscribe)
    unsubscribe: Final = synchronous(AsyncKafkaShareConsumer.unsubscribe)

    def subscription(self) -> set[str]:
        """Return the subscribed topics."""
        return self._asynchronous.subscription()

    def poll(self, timeout_ms: float = 0) -> Records:
        """Return acquired records. Wait up to `timeout_ms` for the first one.

        In implicit mode, this accepts the records of the previous poll. In explicit mode, they must all have been
        acknowledged, otherwise it raises IllegalStateError; records that were acknowledged with RENEW are returned
        again once their locks are renewed.

        Raises RecordDeserializationError for a record that cannot be deserialized. The record is released, unless the
        application acknowledges it with `acknowledge_offset` (explicit mode only). Raises CorruptBatchError or another
        CorruptMessageError for a damaged batch, whose records are rejected. If there are several such records or
        batches in a partition, only one error is raised. The next call continues after all of them.
        """
        self._enter()
        try:
            self._io.run(self._core.prepare(timeout_ms / 1000))
            return self._core.take()
        finally:
            self._use.release()

    def wakeup(self) -> None:
        """Let the poll(), commit() or client_instance_id() that waits raise WakeupError; if none waits, the next one.
        Thread-safe.
        """
        if self._refusal is None:
            self._io.call_soon(self._core.wakeup_trigger.wakeup)

    def acknowledge(self, record: ConsumerRecord, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Acknowledge a record of the last poll. The next poll or commit sends the acknowledgement.

        Raises IllegalStateError with share.acknowledgement.mode=implicit, and for a record that is not in flight.
        """
        self.acknowledge_offset(record.topic_partition, record.offset, acknowledge_type)

    def acknowledge_offset(
        self, partition: TopicPartition, offset: int, acknowledge_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Acknowledge a record by its partition and offset, for example the one in a RecordDeserializationError."""
        self._enter()
        try:
            self._core.acknowledge(TopicPartition(*partition), offset, acknowledge_type)
        finally:
            self._use.release()

    commit: Final = synchronous(AsyncKafkaShareConsumer.commit)
    commit_sync = commit
    commit_async: Final = in_io_thread(AsyncKafkaShareConsumer.commit_async)

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCallback | None) -> None:
        """Set the function that gets the results of acknowledgements, as (offsets by partition, error or None). Later
        calls of poll(), commit() and close() call it.
        """
        self._check_open()
        self._core.callback = callback

    def acquisition_lock_timeout_ms(self) -> int | None:
        """Return the duration of acquisition locks in milliseconds; None if it is not known yet."""
        return self._asynchronous.acquisition_lock_timeout_ms()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._asynchronous.metrics(raw)

    client_instance_id: Final = synchronous(AsyncKafkaShareConsumer.client_instance_id)

    def close(self, timeout_ms: float | None = None) -> None:
        """Send pending acknowledgements, leave the group and close, within `timeout_ms` (None: default.api.timeout.ms).
        May be called repeatedly.

        Records that were not acknowledged are released, so that other members get them at once.
        """
        if self._refusal is not None:
            return
        self._enter()
        limit = (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000 + STOP_MARGIN_SECONDS
        try:
            self._io.run(self._asynchronous.close(timeout_ms), limit)
        finally:
            self._refusal = "the share consumer is closed"
            self._io.stop()
            self._use.release()
