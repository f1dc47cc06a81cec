"""How the admin client asks: which broker, how often and for how long. What it asks stands in the files beside.

A call works on many resources at once. What can pass is tried again for those that it hit; the others keep what they
got. At the end the first failure is raised, with a note where there are more; or, where the caller gives a dictionary
`errors`, each failure is put in there by its resource, and what is returned are the successes.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from ottla import errors
from ottla.client.admin.controllers import Controllers
from ottla.client.core.client_metrics import metrics_of
from ottla.client.core.connections import Connections
from ottla.client.core.metadata import Metadata
from ottla.config.admin import AdminConfig
from ottla.errors import KafkaError, KafkaTimeoutError
from ottla.model import Node, TopicPartition
from ottla.net.client.channel_metrics import ChannelMetrics
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest

K = TypeVar("K")
R = TypeVar("R", bound=Response)
T = TypeVar("T")
V = TypeVar("V")

Errors = dict[Any, KafkaError]
"""Failures by resource, where a caller wants them so."""

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
"""What a coordinator coordinates; a share group has the coordinator of other groups, this one keeps its progress."""

TOPIC_IDLE_MS: Final = 60_000
"""Leaders of a topic's partitions are kept up to date for so long after a call that asked them."""

DOUBTS: Final = 5
"""How often an answer that may be out of date is asked for again: with the default pauses 1.5 seconds."""

_numbers = itertools.count(1)


class AdminCalls:
    """The connections of one admin client, and the rules of its calls."""

    def __init__(self, config: AdminConfig) -> None:
        self.config = config
        self.client_id = config.client_id or f"adminclient-{next(_numbers)}"
        self.registry = metrics_of(config, "admin-client", self.client_id)
        channels = ChannelMetrics(self.registry, "admin-client")
        self.connections = Connections(config, self.client_id, lambda: self.metadata.cluster.nodes, channels)
        self.metadata = Metadata(
            Controllers(self.connections) if config.bootstrap_controllers else self.connections,
            max_age_ms=config.metadata_max_age_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            allow_auto_create=False,
            topic_idle_ms=TOPIC_IDLE_MS,
            rebootstrap=self.connections.rebootstrap if config.metadata_recovery_strategy == "rebootstrap" else None,
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        )

    async def start(self) -> None:
        """Begin to work; nothing is connected before it is needed."""
        self.metadata.start()

    async def stop(self) -> None:
        """End the connections."""
        await self.metadata.close()
        await self.connections.close()
        self.registry.close()

    def metrics(self, raw: bool = False) -> dict[Any, Any]:
        """What the client measures: `{group: {name: value}}`, or (`raw`) MetricName → KafkaMetric."""
        return dict(self.registry.metrics) if raw else dict(self.registry.values())

    # How often, for how long

    def limit(self, timeout_ms: float | None) -> float:
        """Seconds for a call."""
        return (self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms) / 1000

    def limit_ms(self, timeout_ms: float | None) -> int:
        """The same in milliseconds, as brokers are told."""
        return int(self.limit(timeout_ms) * 1000)

    async def retried(self, attempt: Callable[[], Awaitable[T]], timeout_ms: float | None) -> T:
        """Return the result of an attempt, repeated while its error is retriable, time is left and so are `retries`.

        A step that times out earlier (metadata, after request.timeout.ms) is repeated like any other failure: only the
        time limit of the call ends the call. Then KafkaTimeoutError is raised, with the last failure as its cause.
        """
        limit = self.limit(timeout_ms)
        deadline = time.monotonic() + limit
        last: KafkaError | None = None
        for failures in itertools.count(1):
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    return await attempt()
            except KafkaTimeoutError as error:
                last = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
            except TimeoutError:
                last = last or self.metadata.error
                raise _timed_out(limit, last) from last
            except KafkaError as error:
                last = error
                if not error.retriable or failures > self.config.retries:
                    raise
            throttled = getattr(last, "throttled", 0.0)
            pause = max(self._pause(failures), throttled)
            if time.monotonic() + pause > deadline:
                # A quota's violation stays what it is, as in Kafka: the client knows how long it has to wait.
                if throttled:
                    raise last
                raise _timed_out(limit, last) from last
            if last.refresh_metadata:
                self.metadata.request_update()
            await asyncio.sleep(pause)
        raise AssertionError("it counts for ever")

    def _pause(self, failures: int) -> float:
        """How long to wait after so many failures: doubling, and a bit random, as in Kafka."""
        longest = self.config.retry_backoff_max_ms
        pause = min(self.config.retry_backoff_ms * 2 ** min(failures - 1, 30), longest) / 1000
        return min(float(pause * random.uniform(0.8, 1.2)), longest / 1000)

    async def settled(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        timeout_ms: float | None,
        failed: Errors | None = None,
        final: type[KafkaError] | tuple[type[KafkaError], ...] = (),
        doubted: type[KafkaError] | tuple[type[KafkaError], ...] = (),
    ) -> dict[K, V]:
        """The outcome of each key. `attempt` is given those that are left, and tells a value or an error for each.

        Errors of the types `final` stay, whatever others may think of them; those that are `doubted` (a topic that is
        unknown may be too new for the broker that was asked) are believed after a few tries.
        """
        tries = itertools.count(1)
        # One name instead of a list of names is meant as such, and not as a list of letters.
        wanted = [cast(K, keys)] if isinstance(keys, str) else list(dict.fromkeys(keys))
        done: dict[K, V | KafkaError] = {}
        again: dict[K, KafkaError] = {}

        async def once() -> None:
            believed = final if next(tries) < DOUBTS else (*_tuple(final), *_tuple(doubted))
            answers = await attempt([key for key in wanted if key not in done])
            again.clear()
            for key, answer in answers.items():
                if isinstance(answer, KafkaError) and answer.retriable and not isinstance(answer, believed):
                    again[key] = answer
                else:
                    done[key] = answer
            if again:
                raise next(iter(again.values()))

        try:
            if wanted:
                await self.retried(once, timeout_ms)
        except KafkaError as error:
            for key in wanted:
                if key not in done:
                    done[key] = _of_key(error, again.get(key), self.limit(timeout_ms))
        return _told({key: done[key] for key in wanted if key in done}, failed)

    # Whom

    async def nodes(self) -> dict[int, Node]:
        """The brokers."""
        if not self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        return self.metadata.cluster.nodes

    async def controller(self) -> int:
        """The broker that makes changes, or hands them on to who makes them."""
        if self.metadata.cluster.controller_id not in self.metadata.cluster.nodes:
            await self.metadata.refresh(self.connections.request_timeout)
        controller = self.metadata.cluster.controller_id
        if controller not in self.metadata.cluster.nodes:
            raise errors.NotControllerError("the cluster has no controller at the moment")
        return controller

    async def ask_controller(
        self, request: Request[R] | Callable[[int], Request[R]], of: type[Request[R]] | None = None
    ) -> R:
        """The controller's response."""
        return await self.connections.ask(await self.controller(), request, of=of)

    async def ask_each(
        self,
        requests: Mapping[int, Request[R] | Callable[[int], Request[R]]],
        of: type[Request[R]] | None = None,
        at_most: int | None = None,
    ) -> dict[int, R | KafkaError]:
        """The response of each broker, or why there is none; all are asked at once."""

        async def one(node: int, request: Request[R] | Callable[[int], Request[R]]) -> R | KafkaError:
            try:
                return await self.connections.ask(node, request, of=of, at_most=at_most)
            except KafkaError as error:
                if error.refresh_metadata:
                    self.metadata.request_update()
                return error

        await self.nodes()  # before the first call nobody knows where brokers are
        answers = await asyncio.gather(*(one(node, request) for node, request in requests.items()))
        return dict(zip(requests, answers, strict=True))

    async def ask_for(
        self,
        shares: tuple[Mapping[int, list[K]], Errors],
        request: Callable[[list[K]], Request[R] | Callable[[int], Request[R]]],
        read: Callable[[int, R], Mapping[K, V | KafkaError]],
        of: type[Request[R]] | None = None,
    ) -> dict[K, V | KafkaError]:
        """What each broker tells of its share of the keys; one that fails does so for all of them.

        `shares` are the keys of each broker and those that have none, as `by_leader` and `by_coordinator` find them.
        """
        by_node, missing = shares
        found: dict[K, V | KafkaError] = {**missing}
        answers = await self.ask_each({node: request(some) for node, some in by_node.items()}, of)
        for node, answer in answers.items():
            if isinstance(answer, KafkaError):
                found |= dict.fromkeys(by_node[node], answer)
            else:
                found |= read(node, answer)
        return found

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> tuple[dict[int, list[TopicPartition]], Errors]:
        """The partitions of each leader, and those without one."""
        wanted = list(partitions)
        self.metadata.add_topics({tp.topic for tp in wanted})
        if any(self.metadata.cluster.leader(tp) < 0 for tp in wanted):
            await self.metadata.refresh(self.connections.request_timeout)
        found: dict[int, list[TopicPartition]] = {}
        missing: Errors = {}
        for tp in wanted:
            leader = self.metadata.cluster.leader(tp)
            if leader >= 0:
                found.setdefault(leader, []).append(tp)
            else:
                missing[tp] = self._without_leader(tp)
        return found, missing

    def _without_leader(self, tp: TopicPartition) -> KafkaError:
        self.metadata.request_update()
        info = self.metadata.cluster.topics.get(tp.topic)
        if info is not None and info.error is not None:
            return info.error(f"{tp}: {info.error.__doc__}")
        if info is None or self.metadata.cluster.partition(tp) is None:
            return errors.UnknownTopicOrPartitionError(f"{tp}: there is no such partition")
        return errors.LeaderNotAvailableError(f"{tp} has no leader, as far as is known")

    async def by_coordinator(self, keys: Iterable[str], kind: int = GROUP) -> tuple[dict[int, list[str]], Errors]:
        """The keys (groups or transactional ids) of each coordinator, and those that none was found of."""
        found: dict[int, list[str]] = {}
        missing: Errors = {}
        for key, answer in await self._coordinators(list(keys), kind):
            if isinstance(answer, KafkaError):
                missing[key] = answer
            else:
                found.setdefault(answer, []).append(key)
        if not set(found) <= set(await self.nodes()):
            await self.metadata.refresh(self.connections.request_timeout)
        return found, missing

    async def _coordinators(self, keys: list[str], kind: int) -> list[tuple[str, int | KafkaError]]:
        """The coordinator of each key: asked all at once, or of brokers before 3.0 one by one."""

        def together(version: int) -> FindCoordinatorRequest:
            if version < 4:
                raise errors.UnsupportedVersionError("the broker is asked for one coordinator at a time")
            return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)

        async def alone(key: str) -> tuple[str, int | KafkaError]:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            response = await self.connections.ask_any_of(FindCoordinatorRequest, lambda _: request)
            return key, failure(response.error_code, key, response.error_message) or response.node_id

        if not keys:
            return []
        try:
            found = (await self.connections.ask_any_of(FindCoordinatorRequest, together)).coordinators
        except errors.UnsupportedVersionError:
            return [await alone(key) for key in keys]
        return [(c.key, failure(c.error_code, c.key, c.error_message) or c.node_id) for c in found]


def failure(code: int, name: object, message: str | None = None) -> KafkaError | None:
    """The error of a number, saying what it belongs to; None for 0."""
    if not code:
        return None
    error = errors.for_code(code)
    return error(f"{name}: {message or (error.__doc__ or '').strip()}")


def check(code: int, name: object, message: str | None = None) -> None:
    """Raise the error of a number, if it is one."""
    error = failure(code, name, message)
    if error is not None:
        raise error


def throttled(error: KafkaError, milliseconds: int, again: bool) -> KafkaError:
    """An error of a quota: tried again after the time that the broker said, or (not `again`) raised."""
    if isinstance(error, errors.ThrottlingQuotaExceededError):
        vars(error)["throttled"] = milliseconds / 1000
        vars(error)["retriable"] = again
    return error


def _tuple(types: type[KafkaError] | tuple[type[KafkaError], ...]) -> tuple[type[KafkaError], ...]:
    return types if isinstance(types, tuple) else (types,)


def _timed_out(limit: float, cause: KafkaError | None) -> KafkaTimeoutError:
    """Return the error of a call that ended after `limit` seconds; `cause` is its last failure."""
    reason = f" ({cause})" if cause is not None else ""
    timed_out = KafkaTimeoutError(f"not done within {limit:g} s{reason}")
    timed_out.__cause__ = cause
    return timed_out


def _of_key(error: KafkaError, own: KafkaError | None, limit: float) -> KafkaError:
    """Return the error of one key when the call ended with `error`; `own` is the last failure of this key."""
    if own is None:
        return error
    return _timed_out(limit, own) if isinstance(error, KafkaTimeoutError) else own


def _told(outcomes: Mapping[K, V | KafkaError], failed: Errors | None) -> dict[K, V]:
    """The successes; failures are put into `failed`, or the first one is raised."""
    found: dict[K, V] = {}
    wrong: Errors = {}
    for key, outcome in outcomes.items():
        if isinstance(outcome, KafkaError):
            wrong[key] = outcome
        else:
            found[key] = outcome
    if failed is not None:
        failed.update(wrong)
    elif wrong:
        first = next(iter(wrong.values()))
        if len(outcomes) > 1:
            first.add_note(f"{len(wrong)} of {len(outcomes)} failed: {', '.join(map(str, wrong))}")
        raise first
    return found
