"""Client telemetry (KIP-714, `enable.metrics.push`): sends the client's metrics to the cluster. Kafka's
`ClientTelemetryReporter`.

The client requests its subscription from a broker: the prefixes of the names of the metrics to push (usually none), and
the interval. If the cluster does not support telemetry, there is no further request. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ottla import errors
from ottla.client.core.connections import Connections
from ottla.client.core.metadata import Metadata
from ottla.metrics.metrics import Metrics
from ottla.metrics.otlp import Exporter
from ottla.protocol.fields import ZERO_UUID
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.records.compression import CODECS, compress

log = logging.getLogger("ottla.client")

FINAL: Final = (errors.InvalidRequestError, errors.InvalidRecordError, errors.UnsupportedVersionError)
"""Errors after which telemetry stops."""
SUBSCRIPTION_OUTDATED: Final = (errors.UnknownSubscriptionIdError, errors.UnsupportedCompressionTypeError)
"""Errors after which the client requests its subscription again."""
RETRY_SECONDS: Final = 60.0
"""Delay in seconds before the client requests its subscription again after most other errors."""
FAREWELL_SECONDS: Final = 0.5
"""Maximum time in seconds for which closing a client waits for the last push."""


class Telemetry:
    """Pushes the metrics of one client. `resource` contains labels of the client, such as its group id."""

    def __init__(self, connections: Connections, metrics: Metrics, resource: Mapping[str, str]) -> None:
        self._connections = connections
        self._exporter = Exporter(metrics, resource)
        self._clock = metrics.clock
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        self._subscribed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> None:
        """Start the background task, unless it has been started or `close` has been called."""
        if self._task is None and not self._closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def client_instance_id(self, timeout: float) -> UUID:
        """Return the id that the cluster has assigned to this client. Raises KafkaTimeoutError after `timeout` seconds,
        and UnsupportedVersionError if the cluster does not support telemetry or has rejected the client's request.
        """
        self.start()
        try:
            async with asyncio.timeout(timeout):
                await self._subscribed.wait()
        except TimeoutError:
            raise errors.KafkaTimeoutError(f"no client instance id within {timeout:g} s") from None
        if self._subscription is None:
            raise errors.UnsupportedVersionError("the cluster does not support client telemetry")
        return self._subscription.client_instance_id

    async def close(self) -> None:
        """Stop, and push the metrics a last time if the cluster has subscribed to some."""
        self._closed = True
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._subscription is not None and self._subscription.requested_metrics:
            try:
                async with asyncio.timeout(FAREWELL_SECONDS):
                    await self._push(self._subscription, terminating=True)
            except (errors.KafkaError, TimeoutError) as error:
                log.debug(
                    "Could not push the last metrics of client %s before closing, so they may be lost: %r",
                    self._connections.client_id,
                    error,
                )

    async def _run(self) -> None:
        while True:
            try:
                self._subscription = await self._subscribe()
                self._subscribed.set()
                await self._push_while_subscribed(self._subscription)
            except SUBSCRIPTION_OUTDATED:
                continue
            except FINAL as error:
                log.debug("No more metrics of client %s are pushed: %s", self._connections.client_id, error)
                self._subscription = None
                self._subscribed.set()
                return
            except errors.KafkaError as error:
                log.debug(
                    "Telemetry of client %s failed; retrying in %g s: %s",
                    self._connections.client_id,
                    RETRY_SECONDS,
                    error,
                )
                await self._sleep(RETRY_SECONDS)

    async def _subscribe(self) -> GetTelemetrySubscriptionsResponse:
        instance_id = ZERO_UUID if self._subscription is None else self._subscription.client_instance_id
        answer = await self._connections.send_any(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))
        if answer.error_code:
            raise errors.for_code(answer.error_code)
        return answer

    async def _push_while_subscribed(self, subscription: GetTelemetrySubscriptionsResponse) -> None:
        """Push the metrics at the subscription's interval, also after a push that was too large or throttled; raise
        other errors. The first push is at a random time, so that clients that start together do not push together.
        Without metrics to push, only wait for one interval.
        """
        interval = subscription.push_interval_ms / 1000
        if not subscription.requested_metrics:
            await self._sleep(interval)
            return
        await self._sleep(interval * random.uniform(0.5, 1.5))
        while True:
            try:
                await self._push(subscription, terminating=False)
            except (errors.TelemetryTooLargeError, errors.ThrottlingQuotaExceededError) as error:
                log.warning(
                    "A broker rejected the metrics that client %s pushed; pushing again in %g s: %s",
                    self._connections.client_id,
                    interval,
                    error,
                )
            await self._sleep(interval)

    async def _push(self, subscription: GetTelemetrySubscriptionsResponse, *, terminating: bool) -> None:
        codec = next((c for c in subscription.accepted_compression_types if 0 <= c < len(CODECS)), 0)
        metrics = self._exporter.encoded(subscription.requested_metrics, subscription.delta_temporality)
        request = PushTelemetryRequest(
            client_instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=codec,
            metrics=bytes(compress(codec, metrics)),
        )
        answer = await self._connections.send_any(request)
        if answer.error_code:
            raise errors.for_code(answer.error_code)

    async def _sleep(self, seconds: float) -> None:
        await self._clock.wait(asyncio.Event(), self._clock.monotonic() + seconds)


def telemetry_of(
    enabled: bool, connections: Connections, metadata: Metadata, metrics: Metrics, **labels: str | None
) -> Telemetry | None:
    """Return the telemetry of a client; None if it is disabled. It starts with the first metadata."""
    if not enabled:
        return None
    made = Telemetry(connections, metrics, {key: label for key, label in labels.items() if label})
    metadata.listeners.append(lambda _: made.start())
    return made


def require(telemetry: Telemetry | None) -> Telemetry:
    """Return `telemetry`. Raises IllegalStateError if it is None, because enable.metrics.push is false."""
    if telemetry is None:
        raise errors.IllegalStateError("this requires enable.metrics.push")
    return telemetry
