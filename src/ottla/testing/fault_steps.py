"""The steps of a fault, which are taken before the broker handles a request, and its outcome. Event loop only, except
for `Gate.open`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from ottla.broker.apis import BY_KEY, ApiEntry, Handler
from ottla.broker.embedded import Broker, coordinator_partition, move_leader
from ottla.broker.request_context import RequestContext
from ottla.coordinator.group.common.group import Group
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.share.share_group import ShareGroup
from ottla.errors import (
    ConcurrentTransactionsError,
    ConfigurationError,
    CoordinatorLoadInProgressError,
    KafkaError,
    NotCoordinatorError,
)
from ottla.model import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.net.server.connection import CloseConnectionError
from ottla.protocol.message import Request, Response
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.testing import error_responses, request_resources

RETRY_SECONDS = 0.01
MOVE_SECONDS = 30.0
LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True)
class FaultyRequest:
    """A request that a fault applies to."""

    broker: Broker
    entry: ApiEntry
    handler: Handler
    request: Request[Any]
    context: RequestContext

    @property
    def name(self) -> str:
        """The API and client id of the request, for error messages."""
        return f"{self.entry.name} of client {self.context.client_id!r}"

    async def response(self) -> Response | None:
        """Have the broker handle the request, and return its response."""
        answer = self.handler(self.request, self.context)
        return await answer if isinstance(answer, Awaitable) else answer

    def disconnect(self, reason: str) -> NoReturn:
        """Raise CloseConnectionError with the reason, so that the broker closes the connection."""
        raise CloseConnectionError(f"ottla_faults: {self.name}: {reason}")


Step = Callable[[FaultyRequest], Awaitable[None]]
Outcome = Callable[[FaultyRequest], Awaitable[Response | None]]


class Gate:
    """Holds requests until it is opened. `open` may be called in any thread, `wait` on the event loop."""

    def __init__(self) -> None:
        self._is_open = False
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let the waiting requests continue, and hold no further ones. Thread-safe."""
        self._is_open = True
        for loop, event in list(self._waiters):
            loop.call_soon_threadsafe(event.set)

    async def wait(self, event: asyncio.Event | None = None) -> None:
        """Return when the gate is open, or the event is set."""
        event = event or asyncio.Event()
        waiter = asyncio.get_running_loop(), event
        self._waiters.append(waiter)
        try:
            if not self._is_open:
                await event.wait()
        finally:
            self._waiters.remove(waiter)


# Outcomes


async def handle(faulty: FaultyRequest) -> Response | None:
    """Have the broker handle the request as usual, and return its response."""
    return await faulty.response()


async def disconnect(faulty: FaultyRequest) -> Response | None:
    """Raise CloseConnectionError, so that the connection is closed and the request is not handled."""
    faulty.disconnect("the connection is closed before the request is handled")


async def lose_response(faulty: FaultyRequest) -> Response | None:
    """Have the broker handle the request, and raise CloseConnectionError, so that the connection is closed without a
    response.
    """
    try:
        release_records(await faulty.response())
    except KafkaError:
        pass  # the error is lost as well
    faulty.disconnect("the request was handled, and its response is lost")


def release_records(response: Any) -> None:
    """Release the log files of a response to Fetch or ShareFetch that will not be sent."""
    for topic in getattr(response, "responses", ()):
        for partition in getattr(topic, "partitions", ()):
            records: Any = getattr(partition, "records", None)
            if hasattr(records, "release"):
                records.release()


def drop(gate: Gate) -> Outcome:
    """Return an outcome that neither handles the request nor responds. The connection stays open until the client
    closes it, or the gate is opened.
    """

    async def outcome(faulty: FaultyRequest) -> Response | None:
        closed = asyncio.Event()
        faulty.context.connection.on_close.append(closed.set)
        await gate.wait(closed)
        faulty.disconnect("there was no response")

    return outcome


def fail(error: KafkaError) -> Outcome:
    """Return an outcome that responds with an error. The request is not handled, unless its API is in `OVERWRITTEN`."""

    async def outcome(faulty: FaultyRequest) -> Response | None:
        if isinstance(faulty.request, FetchRequest):
            return error_responses.fetch_response(faulty.request, error, faulty.context)
        if faulty.entry.name not in error_responses.OVERWRITTEN:
            raise error
        response = await faulty.response()
        if response is not None:
            error_responses.overwrite(response, faulty.context.version, error)
        return response

    return outcome


def throttle(seconds: float) -> Outcome:
    """Return an outcome that handles the request and sets the throttle time of the response, if it has one. The broker
    does not read from the connection for `seconds`.
    """

    async def outcome(faulty: FaultyRequest) -> Response | None:
        response = await faulty.response()
        throttle_ms = faulty.context.throttle(seconds)
        if response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        return response

    return outcome


# Steps


def delay(seconds: float, gate: Gate) -> Step:
    """Return a step that waits for `seconds`, or until the gate is opened."""

    async def step(_: FaultyRequest) -> None:
        try:
            async with asyncio.timeout(seconds):
                await gate.wait()
        except TimeoutError:
            pass

    return step


def hold(gate: Gate) -> Step:
    """Return a step that waits until the gate is opened."""

    async def step(_: FaultyRequest) -> None:
        await gate.wait()

    return step


def call(function: Callable[[], object]) -> Step:
    """Return a step that calls a function in a separate thread, where it may block, and waits for its end."""

    async def step(_: FaultyRequest) -> None:
        await asyncio.to_thread(function)

    return step


def move_partition(to: int | None) -> Step:
    """Return a step that moves the leader of the request's first partition to the broker `to` (None: another in-sync
    replica). It raises ConfigurationError if the request names no partition.
    """

    async def step(faulty: FaultyRequest) -> None:
        named = request_resources.partitions(faulty.request, faulty.context)
        partition = next(((topic, index) for topic, index in named if index is not None), None)
        if partition is None:
            raise ConfigurationError(f"move_leader: {faulty.name} names no partition")
        await move_leader(faulty.broker.nodes, *partition, to)

    return step


def move_coordinator(to: int | None) -> Step:
    """Return a step that moves the coordinator of the request's transactional id or, if it has none, of its group to
    the broker `to` (None: another in-sync replica). It raises ConfigurationError if the request names neither.
    """

    async def step(faulty: FaultyRequest) -> None:
        topic, ids = TRANSACTION_STATE, request_resources.transactional_ids(faulty.request)
        if not ids:
            topic, ids = CONSUMER_OFFSETS, request_resources.groups(faulty.request)
        if not ids:
            raise ConfigurationError(f"move_coordinator: {faulty.name} names no group and no transactional id")
        nodes = faulty.broker.nodes
        await move_leader(nodes, topic, await coordinator_partition(nodes, topic, min(ids)), to)

    return step


async def fence_producer(faulty: FaultyRequest) -> None:
    """Increment the producer epoch of the request's transactional id, as a new producer with this id does when it
    starts. Raises ConfigurationError if the request names no transactional id, or it has no producer, and TimeoutError
    after MOVE_SECONDS.
    """
    ids = request_resources.transactional_ids(faulty.request)
    if not ids:
        raise ConfigurationError(f"fence_producer: {faulty.name} names no transactional id")
    async with asyncio.timeout(MOVE_SECONDS):
        while not await _fenced(faulty.broker, min(ids)):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_SECONDS)


async def _fenced(broker: Broker, transactional_id: str) -> bool:
    """Fence the producer of a transactional id through its coordinator. Return False if this has to be retried."""
    for node in broker.nodes.values():
        transactions = node.context.transactions
        try:
            current = transactions.get(transactional_id)
            if current is None:
                raise ConfigurationError(f"fence_producer: transactional id {transactional_id!r} has no producer")
            await transactions.init_producer(transactional_id, current.timeout_ms, None)
            return True
        except NotCoordinatorError:
            continue
        except (ConcurrentTransactionsError, CoordinatorLoadInProgressError):
            return False
    return False


async def expire_member(faulty: FaultyRequest) -> None:
    """Remove the member that sends the request from its group, as after its session timeout. Raises ConfigurationError
    if the request names no member, or the group does not have it.
    """
    group_id, member_id = (getattr(faulty.request, name, "") for name in ("group_id", "member_id"))
    if not group_id or not member_id:
        raise ConfigurationError(f"expire_member: {faulty.name} names no member of a group")
    request = _leave_request(faulty.context.broker.groups.groups.by_id.get(group_id), group_id, member_id)
    answer: Any = BY_KEY[request.API_KEY].handler(request, replace(faulty.context, version=request.VERSIONS[-1]))
    response = await answer if isinstance(answer, Awaitable) else answer
    codes = [item.error_code for item in (response, *getattr(response, "members", ()))]
    if any(codes):
        raise ConfigurationError(f"expire_member: group {group_id!r} has no member {member_id!r}")


def _leave_request(group: Group | None, group_id: str, member_id: str) -> Request[Any]:
    if isinstance(group, ShareGroup):
        return ShareGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if member is not None and member.classic is None:
        return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
    leaving = MemberIdentity(member_id=member_id, reason="expired by a test")
    return LeaveGroupRequest(group_id=group_id, members=[leaving])
