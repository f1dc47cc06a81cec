"""Client metrics (KIP-714): the metrics that each client has to push, and the reporters that receive them.

Subscriptions are set as client metrics resources. Receivers are the classes in `metric.reporters`
(`package.module.Class`) with a method `client_telemetry(client, payload)`; payloads are OpenTelemetry's MetricsData,
decompressed. Not thread-safe: event loop only.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla import errors
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.metric_reporters import REPORTERS
from ottla.config.options import loaded
from ottla.records.compression import decompress
from ottla.records.crc import crc32c

log = logging.getLogger("ottla.telemetry")

MAX_CLIENTS = 16_384
"""Maximum number of clients whose state is kept, as in Kafka. The one whose last request is the oldest is dropped."""
ALL_METRICS = "*"
DEFAULT_PUSH_INTERVAL_MS = 300_000
KAFKAS_OWN = "org.apache.kafka."


class TelemetryClient(NamedTuple):
    """A client that pushes metrics."""

    client_instance_id: uuid.UUID
    client_id: str
    client_software_name: str
    client_software_version: str
    client_source_address: str
    client_source_port: str


class Subscription(NamedTuple):
    """The metrics that a client has to push: prefixes of their names. An empty prefix means all metrics."""

    subscription_id: int
    metrics: tuple[str, ...]
    push_interval_ms: int


@dataclass(slots=True)
class _ClientState:
    subscription: Subscription
    requested_ms: float
    pushed_ms: float | None = None
    terminating: bool = False


Receiver = Callable[[TelemetryClient, bytes], Any]


class Telemetry:
    """The clients with a subscription, and the receivers of their metrics."""

    def __init__(self, receivers: tuple[Receiver, ...], max_bytes: int, monotonic: Callable[[], float]) -> None:
        self._receivers = receivers
        self._monotonic = monotonic
        self._clients: OrderedDict[uuid.UUID, _ClientState] = OrderedDict()
        self.max_bytes = max_bytes

    @property
    def has_receivers(self) -> bool:
        """Whether `metric.reporters` has a receiver of client metrics.

        Without one, ApiVersions omits the APIs of KIP-714.
        """
        return bool(self._receivers)

    def check_has_receivers(self) -> None:
        """Raise UnsupportedVersionError if there is no receiver of client metrics, as Kafka does."""
        if not self._receivers:
            raise errors.UnsupportedVersionError("metric.reporters of this broker has no receiver of client metrics")

    def subscribe(self, client: TelemetryClient, subscriptions: Mapping[str, Mapping[str, str]]) -> Subscription:
        """Return the client's subscription, and keep it for the checks of its pushes."""
        subscription = subscription_for(client, subscriptions)
        now = self._monotonic() * 1000
        state = self._clients.pop(client.client_instance_id, None)
        self._clients[client.client_instance_id] = state or _ClientState(subscription, now)
        if state is not None:
            state.subscription, state.requested_ms = subscription, now
        while len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return subscription

    def push(
        self, client: TelemetryClient, subscription_id: int, terminating: bool, compression: int, metrics: bytes
    ) -> None:
        """Pass metrics to the receivers; raise a KafkaError for an invalid push."""
        state = self._clients.get(client.client_instance_id)
        if state is not None:
            self._clients.move_to_end(client.client_instance_id)
        if state is None or state.subscription.subscription_id != subscription_id:
            raise errors.UnknownSubscriptionIdError(f"the client has no subscription {subscription_id}")
        if state.terminating:
            raise errors.InvalidRequestError("the client has already sent its last metrics")
        self._check_interval(state, terminating)
        if len(metrics) > self.max_bytes:
            raise errors.TelemetryTooLargeError(
                f"{len(metrics)} bytes of metrics exceed telemetry.max.bytes={self.max_bytes}"
            )
        payload = self._decompressed(compression, metrics)
        for receiver in self._receivers:
            try:
                receiver(client, payload)
            except Exception:
                # a failing receiver must affect neither the broker nor the client
                log.exception(
                    "The receiver %s in metric.reporters failed to process the metrics that client_id=%s has pushed; "
                    "they are not passed to it again",
                    getattr(receiver, "__qualname__", receiver),
                    client.client_id,
                )

    def _check_interval(self, state: _ClientState, terminating: bool) -> None:
        now = self._monotonic() * 1000
        if (
            state.pushed_ms is not None
            and not terminating
            and now - state.pushed_ms < state.subscription.push_interval_ms / 2
        ):
            raise errors.ThrottlingQuotaExceededError("the client pushes metrics more often than its subscription says")
        state.pushed_ms, state.terminating = now, terminating

    def _decompressed(self, compression: int, metrics: bytes) -> bytes:
        try:
            return bytes(decompress(compression, metrics, self.max_bytes))
        except errors.CorruptMessageError as error:
            raise errors.InvalidRecordError(f"cannot decompress the metrics: {error.message}") from None


def subscription_for(client: TelemetryClient, subscriptions: Mapping[str, Mapping[str, str]]) -> Subscription:
    """Return the union of all subscriptions that match a client, with the shortest of their intervals.

    Subscriptions without metrics are ignored. If none matches, the client pushes no metrics; the interval is then
    DEFAULT_PUSH_INTERVAL_MS.
    """
    metrics: set[str] = set()
    intervals = []
    for options in subscriptions.values():
        config = ClientMetricsConfig(options)
        if config.metrics and _matches(client, config.match):
            metrics.update(config.metrics)
            intervals.append(config.interval_ms)
    names = ("",) if ALL_METRICS in metrics else tuple(sorted(metrics))
    interval = min(intervals, default=DEFAULT_PUSH_INTERVAL_MS)
    text = f"{','.join(names)} {interval} {client.client_instance_id}"
    return Subscription(crc32c(text.encode(), 0) >> 1, names, interval)


def _matches(client: TelemetryClient, conditions: tuple[str, ...]) -> bool:
    for condition in conditions:
        selector, _, pattern = condition.partition("=")
        if not re.fullmatch(pattern.strip(), str(getattr(client, selector.strip()))):
            return False
    return True


def created_reporters(names: Iterable[str], configs: Mapping[str, Any]) -> list[Any]:
    """Return configured instances of the classes in `metric.reporters`, except Kafka's Java classes.

    Raises ConfigurationError for an unknown class.
    """
    reporters: list[Any] = []
    for name in names:
        if name.startswith(KAFKAS_OWN):
            log.warning("Ignoring %s in metric.reporters: it is a Java class of Kafka", name)
            continue
        try:
            reporter = loaded(REPORTERS.get(name, name))()
        except ValueError as error:
            raise errors.ConfigurationError(f"metric.reporters: {name!r}: {error}") from None
        if hasattr(reporter, "configure"):
            reporter.configure(configs)
        reporters.append(reporter)
    return reporters


def receivers_of(reporters: Iterable[Any]) -> tuple[Receiver, ...]:
    """Return the receivers of client metrics among the reporters."""
    return tuple(one.client_telemetry for one in reporters if hasattr(one, "client_telemetry"))
