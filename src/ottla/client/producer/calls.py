"""The methods that both producers have in common, such as flush, transactions and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from ottla.client.core import telemetry
from ottla.client.producer.core import ProducerCore, wait_for_pending
from ottla.client.producer.transactions import as_group_metadata
from ottla.errors import KafkaTimeoutError
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition, checked_offset

CLIENT_ID_SECONDS = 30.0


class ProducerQueries:
    """The methods that only read state. Any thread may call them. They send no request."""

    _core: ProducerCore

    def __repr__(self) -> str:
        return f"<KafkaProducer {self._core.client_id}>"

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}` as in Java."""
        return self._core.metrics.values(raw)

    def bootstrap_connected(self) -> bool:
        """Return whether the client has received metadata from any broker."""
        return bool(self._core.metadata.cluster.nodes)


class ProducerCalls(ProducerQueries):
    """Coroutine methods of producers. The asynchronous producer inherits them; the synchronous producer derives most of
    its methods of the same names from them.
    """

    def __init__(self, core: ProducerCore) -> None:
        self._core = core

    async def flush(self, timeout: float | None = None) -> None:
        """Send all pending records, and wait until each is acknowledged or has failed.

        Raises KafkaTimeoutError after `timeout` seconds (None: no limit).
        """
        with self._core.metrics.timed("flush"):
            settled = await wait_for_pending(self._core, timeout)
        if not settled:
            raise KafkaTimeoutError(f"records are still pending after {timeout:g} s")

    async def init_transactions(self) -> None:
        """Prepare the producer for transactions. An earlier producer with the same transactional id is fenced.

        Must be called once, before the first transaction. Raises IllegalStateError without a transactional.id or after
        an earlier success, KafkaTimeoutError after max.block.ms, and the coordinator's errors.
        """
        with self._core.metrics.timed("txn-init"):
            await self._core.transactions.init()

    async def begin_transaction(self) -> None:
        """Begin a transaction.

        Raises IllegalStateError if one is open or ending, or if init_transactions() has not succeeded, and the error of
        a transaction that has failed and was not aborted, such as ProducerFencedError.
        """
        with self._core.metrics.timed("txn-begin"):
            self._core.transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit consumer offsets as part of the transaction (KIP-447). `group_metadata` is
        `consumer.group_metadata()`, or a group id.

        Raises ValueError for a negative offset, IllegalStateError if no transaction is open, and the errors of the
        coordinators. After those, the transaction must be aborted; after a fatal error such as ProducerFencedError, the
        producer must be closed.
        """
        checked = {TopicPartition(*tp): checked_offset(tp, at) for tp, at in offsets.items()}
        with self._core.metrics.timed("txn-send-offsets"):
            await self._core.transactions.send_offsets(checked, as_group_metadata(group_metadata))

    async def commit_transaction(self) -> None:
        """Wait for all records, and commit the transaction. Raises the error of a record that failed; the transaction
        must then be aborted (after a fatal error such as ProducerFencedError, the producer must be closed).

        Raises KafkaTimeoutError if the coordinator does not respond in time; the call can then be repeated.
        """
        with self._core.metrics.timed("txn-commit"):
            await self._core.transactions.end(commit=True)

    async def abort_transaction(self) -> None:
        """Drop the records that have not been sent, wait for those in flight, and abort the transaction. After
        KafkaTimeoutError it can be called again.
        """
        with self._core.metrics.timed("txn-abort"):
            await self._core.transactions.end(commit=False)

    async def client_instance_id(self, timeout: float = CLIENT_ID_SECONDS) -> UUID:
        """Return the id of this client in telemetry (KIP-714).

        Raises KafkaTimeoutError after `timeout` seconds, UnsupportedVersionError if the cluster does not support
        telemetry or has rejected the request, and IllegalStateError if enable.metrics.push is false.
        """
        return await telemetry.require(self._core.telemetry).client_instance_id(timeout)
