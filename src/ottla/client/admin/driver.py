"""The driver of admin calls: lookup of the right brokers, retries, time limits. The calls themselves are in the other
modules of this package.

A call may be about many keys (topics, partitions, groups…). If some keys fail with a retriable error, only these are
sent again. In the end the first failure is raised; if the call has several keys, a note says how many failed, and lists
the first of them. If the caller passes a dictionary `errors`, failures are put into it by key instead, and the
successes are returned. Kafka's `AdminApiDriver`, `AdminApiHandler` and `AdminApiLookupStrategy`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from ottla import errors
from ottla.backoff import JITTER, ExponentialBackoff
from ottla.client.core.client_metrics import metrics_of
from ottla.client.core.connections import SLOW_SECONDS, Connections
from ottla.client.core.metadata import Metadata, metadata_of
from ottla.config.admin import CONTROLLERS, AdminConfig
from ottla.logs import listed
from ottla.metrics.metrics import Metrics
from ottla.model import Node, TopicPartition
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.protocol.message import Request
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from ottla.security.acl import with_name

log = logging.getLogger("ottla.client")

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

Errors = dict[Any, errors.KafkaError]
"""The failures of a call about many keys, by key."""
Shares = tuple[Mapping[int | None, list[Any]], Errors]
"""Keys by the broker to send their request to (None: any broker), and the errors of failed lookups by key."""
Lookup = Callable[["AdminDriver", list[Any]], Awaitable[Shares]]
"""Looks up the brokers to which requests about the keys have to be sent."""
AnyRequest = Any
"""A request, or a function that takes the negotiated version and returns the request."""

GROUP: Final = 0
TRANSACTION: Final = 1
"""GROUP and TRANSACTION are key types of FindCoordinator. GROUP is also used for share groups."""

TOPIC_IDLE_MS: Final = 60_000
"""Time in milliseconds after the last call that needed the leaders of a topic, until refreshes no longer request it."""

BRIEF_ATTEMPTS: Final = 5
"""Maximum number of attempts when the error may only mean that the broker's metadata is outdated. They take about 1.5
seconds with the default backoff.
"""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class AdminCall(Generic[K, V]):
    """The description of a call about many keys: which brokers it is sent to, its requests, and how results are
    parsed.
    """

    request: Callable[[list[K]], AnyRequest]
    """Returns the request for some of the keys. If it depends on the version, returns a function from the version to
    the request; `of` is then the class of the request.
    """
    parse: Callable[[Any, list[K], int], Mapping[K, V | errors.KafkaError]]
    """Returns the result or the error of each key. Its arguments are the response, the keys of the request, and the
    broker's id (-1: any).
    """
    lookup: Lookup
    name: str = ""
    """The subject of the error code of the whole response, for messages; empty if the response has no such code."""
    of: type[Request[Any]] | None = None
    at_most: int | None = None
    """The highest version of the request to use; None for no limit. Ignored for requests to any broker."""
    final: tuple[type[errors.KafkaError], ...] = ()
    """Errors after which a key is not retried, even if they are retriable."""
    retried_briefly: tuple[type[errors.KafkaError], ...] = ()
    """Errors after which a key is retried only a few times (BRIEF_ATTEMPTS): a topic may be too new for the broker to
    know it.
    """


class AdminDriver:
    """The connections of an admin client, with the lookups of brokers and the retries that its calls have in common.
    Not thread-safe: event loop only.
    """

    def __init__(self, config: AdminConfig) -> None:
        self.config = config
        self.client_id: str = config.client_id or f"adminclient-{next(_numbers)}"
        self.registry: Metrics = metrics_of(config, "admin-client", self.client_id)
        channels = ChannelMetrics(self.registry, "admin-client")
        try:
            self.connections: Connections = Connections(
                config, self.client_id, lambda: self.metadata.cluster.nodes, channels
            )
        except BaseException:
            self.registry.close()  # a reporter may have a thread
            raise
        self.metadata: Metadata = metadata_of(
            config,
            self.connections,
            source=ControllerMetadata(self.connections) if config.bootstrap_controllers else None,
            topic_idle_ms=TOPIC_IDLE_MS,
        )
        self._backoff = ExponentialBackoff(
            config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000, jitter=JITTER
        )

    async def start(self) -> None:
        """Start the background task that refreshes the metadata. Connections are opened when they are needed."""
        self.metadata.start()

    async def stop(self) -> None:
        """Stop the background task, and close the connections and the metric reporters."""
        await self.metadata.close()
        await self.connections.close()
        self.registry.close()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """Return the client's metrics: `{group: {name: value}}`, or with `raw` `{MetricName: KafkaMetric}`."""
        return dict(self.registry.metrics) if raw else dict(self.registry.values())

    # Calls

    async def call(
        self,
        request: AnyRequest,
        parse: Callable[[Any], T],
        timeout_ms: float | None,
        name: str = "",
        lookup: Lookup | None = None,
        *,
        key: object = None,
        of: type[Request[Any]] | None = None,
        at_most: int | None = None,
    ) -> T:
        """Send one request with retries, by default to any broker, and return the parsed response.

        `name`: the subject of the response's error code, for messages; empty if the response has no such code.
        `lookup` returns the broker for `key`.
        """

        async def attempt() -> T:
            by_broker, failed = await (lookup or any_broker)(self, [key])
            for error in failed.values():
                raise error
            response = await self._send(next(iter(by_broker)), request, of, at_most)
            if name:
                check(response.error_code, name, getattr(response, "error_message", None))
            return parse(response)

        return await self.retry(attempt, timeout_ms)

    async def call_per_key(
        self, call: AdminCall[K, V], keys: Iterable[K], timeout_ms: float | None, failed: Errors | None = None
    ) -> dict[K, V]:
        """Make a call with retries, and return the result of each key that succeeds. Failures are put into
        `failed` by key; if it is None, the first one is raised.
        """

        async def attempt(remaining: list[K]) -> Mapping[K, V | errors.KafkaError]:
            return await self.attempt(call, remaining)

        return await self.retry_per_key(keys, attempt, timeout_ms, failed, call.final, call.retried_briefly)

    async def attempt(self, call: AdminCall[K, V], keys: list[K]) -> dict[K, V | errors.KafkaError]:
        """Send the requests of a call once, and return the result or error of each key. If the request to a broker
        fails, the error is returned for every key in the request. An error code of a whole response is raised.
        """
        by_broker, failed = await call.lookup(self, keys)
        outcomes: dict[K, V | errors.KafkaError] = {**failed}
        requests = {broker: call.request(share) for broker, share in by_broker.items()}
        responses = await self.fan_out(requests, call.of, call.at_most)
        for broker, response in responses.items():
            if isinstance(response, errors.KafkaError):
                outcomes |= dict.fromkeys(by_broker[broker], response)
                continue
            if call.name:
                check(response.error_code, call.name, getattr(response, "error_message", None))
            outcomes |= call.parse(response, by_broker[broker], -1 if broker is None else broker)
        return outcomes

    async def fan_out(
        self,
        requests: Mapping[int | None, AnyRequest],
        of: type[Request[Any]] | None = None,
        at_most: int | None = None,
    ) -> dict[int | None, Any | errors.KafkaError]:
        """Send each broker its request, all at once, and return the response or the error by broker."""

        async def send(broker: int | None, request: AnyRequest) -> Any:
            try:
                return await self._send(broker, request, of, at_most)
            except errors.KafkaError as error:
                if error.refresh_metadata:
                    self.metadata.request_update()
                return error

        if any(broker is not None for broker in requests):
            await self.nodes()  # the addresses of brokers are unknown before the first call
        responses = await asyncio.gather(*(send(broker, request) for broker, request in requests.items()))
        return dict(zip(requests, responses, strict=True))

    async def _send(
        self, broker: int | None, request: AnyRequest, of: type[Request[Any]] | None, at_most: int | None
    ) -> Any:
        if broker is not None:
            return await self.connections.send(broker, request, of=of, at_most=at_most)
        if of is None:
            return await self.connections.send_any(request)
        return await self.connections.send_any_of(of, request)

    # Retries

    def seconds(self, timeout_ms: float | None) -> float:
        """Return the time limit of a call in seconds; by default that of `default.api.timeout.ms`."""
        return (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000

    def milliseconds(self, timeout_ms: float | None) -> int:
        """Return the time limit of a call in milliseconds, for requests."""
        return int(self.seconds(timeout_ms) * 1000)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[T]],
        timeout_ms: float | None,
        retried_briefly: tuple[type[errors.KafkaError], ...] = (),
    ) -> T:
        """Call `attempt` until it succeeds, and return its result. Retriable errors are retried, at most `retries`
        times. A call that takes long because of an error is logged once, unless the error is in `retried_briefly`, or
        the connections have already logged that they fail.

        A step that times out, such as a metadata refresh after request.timeout.ms, is retried without that limit. If
        the time limit of the whole call is over, or would be over before the next attempt, KafkaTimeoutError is raised
        with the last failure, if any, as its cause; if that was a quota violation, it is raised itself.
        """
        limit = self.seconds(timeout_ms)
        began = time.monotonic()
        deadline = began + limit
        last: errors.KafkaError | None = None
        has_warned = False
        for failures in itertools.count(1):
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    return await attempt()
            except errors.KafkaTimeoutError as error:
                last = error.__cause__ if isinstance(error.__cause__, errors.KafkaError) else error
            except TimeoutError:
                if last is not None and _throttle_seconds(last):
                    raise last from None
                last = last or self.metadata.error
                raise _timed_out(limit, last, self.connections.slow_reason) from last
            except errors.KafkaError as error:
                last = error
                if not error.retriable or failures > self.config.retries:
                    raise
            throttled = _throttle_seconds(last)
            delay = max(self._backoff.backoff(failures - 1), throttled)
            if time.monotonic() + delay > deadline:
                # A quota violation is raised as such, as in Kafka: it says how long the client has to wait.
                if throttled:
                    raise last
                raise _timed_out(limit, last) from last
            is_slow = time.monotonic() + delay - began >= SLOW_SECONDS and not isinstance(last, retried_briefly)
            if is_slow and not has_warned and not self.connections.is_failing:
                has_warned = True
                log.warning(
                    "A call of the admin client has been failing for %.1f s; retrying for at most %g s in all, unless "
                    "the config `retries` ends it earlier: %s (client.id=%s)",
                    time.monotonic() - began,
                    limit,
                    last,
                    self.connections.client_id,
                )
            if last.refresh_metadata:
                self.metadata.request_update()
            await asyncio.sleep(delay)
        raise AssertionError("unreachable")

    async def retry_per_key(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | errors.KafkaError]]],
        timeout_ms: float | None,
        failed: Errors | None = None,
        final: tuple[type[errors.KafkaError], ...] = (),
        retried_briefly: tuple[type[errors.KafkaError], ...] = (),
    ) -> dict[K, V]:
        """Return the result of each key that succeeds. Failures are put into `failed` by key; if it is None, the first
        one is raised. `attempt` gets the remaining keys, and returns a value or an error for each.

        Errors of the types `final` are not retried; those of the types `retried_briefly` only a few times.
        """
        attempts = itertools.count(1)
        all_keys = distinct(keys)
        done: dict[K, V | errors.KafkaError] = {}
        retriable: dict[K, errors.KafkaError] = {}

        async def attempt_remaining() -> None:
            accepted = final if next(attempts) < BRIEF_ATTEMPTS else (*final, *retried_briefly)
            outcomes = await attempt([key for key in all_keys if key not in done])
            retriable.clear()
            for key, outcome in outcomes.items():
                if isinstance(outcome, errors.KafkaError) and outcome.retriable and not isinstance(outcome, accepted):
                    retriable[key] = outcome
                else:
                    done[key] = outcome
            if retriable:
                raise next(iter(retriable.values()))

        try:
            if all_keys:
                await self.retry(attempt_remaining, timeout_ms, retried_briefly)
        except errors.KafkaError as error:
            for key in all_keys:
                if key not in done:
                    done[key] = _error_of_key(error, retriable.get(key), self.seconds(timeout_ms))
        return successes({key: done[key] for key in all_keys if key in done}, failed)

    # Lookups

    async def nodes(self) -> dict[int, Node]:
        """Return the brokers by id. Request the metadata first if it contains no brokers."""
        if not self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        return self.metadata.cluster.nodes

    async def broker_ids(self, ids: Iterable[int] | None, timeout_ms: float | None) -> list[int]:
        """Return `ids` as a list, or the ids of all brokers if it is None."""
        return list(ids if ids is not None else await self.retry(self.nodes, timeout_ms))

    async def controller(self) -> int:
        """Return the id of the broker to send changes to: the controller or, in a KRaft cluster, a broker that forwards
        them to it. Raises NotControllerError if there is none.
        """
        if self.metadata.cluster.controller_id not in self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        controller = self.metadata.cluster.controller_id
        if controller not in self.metadata.cluster.nodes:
            raise errors.NotControllerError("the cluster has no controller at the moment")
        return controller

    async def group_by_leader(self, partitions: list[TopicPartition]) -> Shares:
        """Return the partitions by leader, and the errors of partitions without a leader."""
        self.metadata.add_topics({tp.topic for tp in partitions})
        if any(self.metadata.cluster.leader(tp) < 0 for tp in partitions):
            await self.metadata.refresh(self.connections.request_timeout)
        by_leader: dict[int | None, list[TopicPartition]] = {}
        failed: Errors = {}
        for tp in partitions:
            leader = self.metadata.cluster.leader(tp)
            if leader >= 0:
                by_leader.setdefault(leader, []).append(tp)
            else:
                failed[tp] = self._without_leader(tp)
        return by_leader, failed

    def _without_leader(self, tp: TopicPartition) -> errors.KafkaError:
        self.metadata.request_update()
        info = self.metadata.cluster.topics.get(tp.topic)
        if info is not None and info.error is not None:
            return info.error(f"{tp}: {info.error.__doc__}")
        if info is None or self.metadata.cluster.partition(tp) is None:
            return errors.UnknownTopicOrPartitionError(f"{tp}: there is no such partition")
        return errors.LeaderNotAvailableError(f"{tp} has no leader at the moment")

    async def group_by_coordinator(self, keys: list[str], kind: int = GROUP) -> Shares:
        """Return the keys (group ids or transactional ids) by coordinator, and the errors of failed lookups."""
        by_coordinator: dict[int | None, list[str]] = {}
        failed: Errors = {}
        for key, coordinator in await self._coordinators(keys, kind):
            if isinstance(coordinator, errors.KafkaError):
                failed[key] = coordinator
            else:
                by_coordinator.setdefault(coordinator, []).append(key)
        if not by_coordinator.keys() <= set(await self.nodes()):
            await self.metadata.refresh(self.connections.request_timeout)
        return by_coordinator, failed

    async def _coordinators(self, keys: list[str], kind: int) -> list[tuple[str, int | errors.KafkaError]]:
        """Look up the coordinators of all keys at once; brokers before 3.0 are sent one request per key."""

        def batch(version: int) -> FindCoordinatorRequest:
            if version < 4:
                raise errors.UnsupportedVersionError("the broker takes one key per request")
            return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)

        async def single(key: str) -> tuple[str, int | errors.KafkaError]:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            response = await self.connections.send_any_of(FindCoordinatorRequest, lambda _: request)
            return key, failure(response.error_code, key, response.error_message) or response.node_id

        if not keys:
            return []
        try:
            coordinators = (await self.connections.send_any_of(FindCoordinatorRequest, batch)).coordinators
        except errors.UnsupportedVersionError:
            return [await single(key) for key in keys]
        return [(c.key, failure(c.error_code, c.key, c.error_message) or c.node_id) for c in coordinators]


async def any_broker(_: AdminDriver, keys: list[Any]) -> Shares:
    """Route all keys to any broker."""
    return {None: keys}, {}


async def to_controller(driver: AdminDriver, keys: list[Any]) -> Shares:
    """Route all keys to the broker that `AdminDriver.controller` returns."""
    return {await driver.controller(): keys}, {}


async def to_brokers(_: AdminDriver, keys: list[Any]) -> Shares:
    """Route each key to the broker with this id."""
    return {key: [key] for key in keys}, {}


async def to_leaders(driver: AdminDriver, keys: list[Any]) -> Shares:
    """Route partitions to their leaders."""
    return await driver.group_by_leader(keys)


async def to_group_coordinators(driver: AdminDriver, keys: list[Any]) -> Shares:
    """Route groups to their coordinators."""
    return await driver.group_by_coordinator(keys)


async def to_transaction_coordinators(driver: AdminDriver, keys: list[Any]) -> Shares:
    """Route transactional ids to their coordinators."""
    return await driver.group_by_coordinator(keys, TRANSACTION)


def to_broker(broker: int) -> Lookup:
    """Return a lookup that routes all keys to one broker."""

    async def lookup(_: AdminDriver, keys: list[Any]) -> Shares:
        return {broker: keys}, {}

    return lookup


def to_coordinator_of(group_id: str) -> Lookup:
    """Return a lookup that routes all keys to the coordinator of one group."""

    async def lookup(driver: AdminDriver, keys: list[Any]) -> Shares:
        by_coordinator, failed = await driver.group_by_coordinator([group_id])
        for error in failed.values():
            raise error
        return dict.fromkeys(by_coordinator, keys), {}

    return lookup


class ControllerMetadata:
    """Fetches metadata from KRaft controllers (bootstrap.controllers, KIP-919). The controllers take the place of the
    brokers in this metadata, and it has no topics.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def send_any(self, request: MetadataRequest) -> MetadataResponse:
        """Send DescribeCluster instead of `request`, and return the controllers in the form of a Metadata response."""
        response = await self._connections.send_any(DescribeClusterRequest(endpoint_type=CONTROLLERS))
        return MetadataResponse(
            error_code=response.error_code,
            cluster_id=response.cluster_id,
            controller_id=response.controller_id,
            brokers=[
                MetadataResponseBroker(node_id=b.broker_id, host=b.host, port=b.port, rack=b.rack)
                for b in response.brokers
            ],
        )


# Requests and responses


def distinct(keys: Iterable[K]) -> list[K]:
    """Return the keys as a list without duplicates. A str counts as one key."""
    return [cast(K, keys)] if isinstance(keys, str) else list(dict.fromkeys(keys))


def failure(
    code: int, name: object, message: str | None = None, resource: str | None = None
) -> errors.KafkaError | None:
    """Return the error of a code, with a message that contains `name`; None for code 0.

    `resource`: the name of the resource for which an operation may have been denied (default: `name`).
    """
    if not code:
        return None
    error = errors.for_code(code)
    resource = resource or (name if isinstance(name, str) else None)
    text = message or (error.__doc__ or "").strip()
    if resource:
        text = with_name(text, resource)
    is_named = name == "" or f"'{name}'" in text  # the defaults of all brokers have no name
    return error(text if is_named else f"{name}: {text}")


def check(code: int, name: object, message: str | None = None) -> None:
    """Raise the error that `failure` returns for a code; do nothing for code 0."""
    error = failure(code, name, message)
    if error is not None:
        raise error


def results(
    items: Iterable[Any], key: Callable[[Any], K], value: Callable[[Any], V] | None = None, topic: str | None = None
) -> dict[K, V | errors.KafkaError]:
    """Return the value or the error of each item of a response, by key. Without `value`, the value of an item without
    error is None.
    """
    outcomes: dict[K, Any] = {}
    for item in items:
        name = key(item)
        label = name if topic is None else f"{topic}-{name}"
        error = failure(item.error_code, label, getattr(item, "error_message", None), topic)
        outcomes[name] = error if error is not None or value is None else value(item)
    return outcomes


def partition_results(topics: Iterable[Any], value: Callable[[Any], V] | None = None) -> dict[TopicPartition, Any]:
    """Return the value or the error of each partition of a response."""
    outcomes: dict[TopicPartition, Any] = {}
    for topic in topics:
        name = topic.name if hasattr(topic, "name") else topic.topic_name
        by_number = results(topic.partitions, lambda p: int(p.partition_index), value, name)
        outcomes |= {TopicPartition(name, number): outcome for number, outcome in by_number.items()}
    return outcomes


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group the numbers of partitions by topic."""
    return by_topic({tp: tp[1] for tp in partitions})


def by_topic(values: Mapping[TopicPartition, V]) -> dict[str, list[V]]:
    """Group values of partitions by topic."""
    grouped: dict[str, list[V]] = {}
    for tp, value in values.items():
        grouped.setdefault(tp[0], []).append(value)
    return grouped


def with_throttle(
    outcomes: Mapping[K, V | errors.KafkaError], milliseconds: int, *, retry: bool
) -> Mapping[K, V | errors.KafkaError]:
    """Set `throttled` and `retriable` on each quota violation, and return the outcomes. `milliseconds` is the throttle
    time of the response; `throttled` is in seconds.
    """
    for error in outcomes.values():
        if isinstance(error, errors.ThrottlingQuotaExceededError):
            vars(error)["throttled"] = milliseconds / 1000
            vars(error)["retriable"] = retry
    return outcomes


def successes(outcomes: Mapping[K, V | errors.KafkaError], failed: Errors | None) -> dict[K, V]:
    """Return the values of the keys that succeeded. Failures are put into `failed`; if it is None, the first one is
    raised.
    """
    values: dict[K, V] = {}
    failures: Errors = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, errors.KafkaError):
            failures[key] = outcome
        else:
            values[key] = outcome
    if failed is not None:
        failed.update(failures)
    elif failures:
        first = next(iter(failures.values()))
        if len(outcomes) > 1:
            first.add_note(f"{len(failures)} of {len(outcomes)} failed: {listed(list(failures))}")
        raise first
    return values


def _throttle_seconds(error: errors.KafkaError) -> float:
    seconds: float = getattr(error, "throttled", 0.0)
    return seconds


def _timed_out(limit: float, cause: errors.KafkaError | None, slow_reason: str = "") -> errors.KafkaTimeoutError:
    """Return the error of a call that was not done within `limit` seconds; `cause` is its last failure."""
    why = slow_reason if cause is None else str(cause)
    reason = f" ({why})" if why else ""
    timed_out = errors.KafkaTimeoutError(f"not done within {limit:g} s{reason}")
    timed_out.__cause__ = cause
    return timed_out


def _error_of_key(error: errors.KafkaError, own: errors.KafkaError | None, limit: float) -> errors.KafkaError:
    """Return the error of one key after the call ended with `error`; `own` is the key's last failure."""
    if own is None:
        return error
    return _timed_out(limit, own) if isinstance(error, errors.KafkaTimeoutError) else own
