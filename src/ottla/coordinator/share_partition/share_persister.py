"""Access to the states of share partitions, wherever their share coordinator is. Kafka's `PersisterStateManager`.

The coordinator of a share partition is the leader of its partition of `__share_group_state`. If this broker is the
leader, its `ShareCoordinator` handles the call; otherwise, the call is sent to the leader in a request. Calls are
repeated while the coordinator moves or loads, up to a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from ottla import errors
from ottla.backoff import JITTER, ExponentialBackoff
from ottla.cluster.image.cluster_image import NO_LEADER
from ottla.cluster.interbroker.client import RequestSender
from ottla.cluster.interbroker.request_batcher import RequestBatcher
from ottla.coordinator.share_partition.share_coordinator import ShareCoordinator
from ottla.coordinator.share_partition.share_state_records import ShareKey, ShareState, record_ranges
from ottla.protocol.message import Request, Response
from ottla.protocol.messages import delete_share_group_state as delete
from ottla.protocol.messages import initialize_share_group_state as initialize
from ottla.protocol.messages import read_share_group_state as read
from ottla.protocol.messages import read_share_group_state_summary as summary
from ottla.protocol.messages import write_share_group_state as write

PURPOSE: Final = "share-state"
BACKOFF: Final = ExponentialBackoff(0.05, 1.0, jitter=JITTER)
NOT_THERE: Final = (
    errors.NotCoordinatorError,
    errors.CoordinatorNotAvailableError,
    errors.CoordinatorLoadInProgressError,
    errors.BrokerConnectionError,
    errors.BrokerNotAvailableError,
    errors.NetworkError,
    errors.RequestTimedOutError,
)
"""Errors after which the coordinator is looked up again."""


class StateApi(NamedTuple):
    """One of the APIs of the share coordinator: its request, the module of its messages, and the version to send."""

    request: Callable[..., Request[Any]]
    messages: ModuleType
    version: int


INITIALIZE: Final = StateApi(initialize.InitializeShareGroupStateRequest, initialize, 0)
READ: Final = StateApi(read.ReadShareGroupStateRequest, read, 0)
WRITE: Final = StateApi(write.WriteShareGroupStateRequest, write, 1)
DELETE: Final = StateApi(delete.DeleteShareGroupStateRequest, delete, 0)
SUMMARY: Final = StateApi(summary.ReadShareGroupStateSummaryRequest, summary, 1)


class StateCall(NamedTuple):
    """A call about one share partition; `data` is the partition's part of the request."""

    api: StateApi
    key: ShareKey
    data: Any


class SharePersister:
    """Calls to share coordinators.

    Every call raises CoordinatorNotAvailableError if the share coordinator cannot be reached within the time limit. Not
    thread-safe: event loop only.
    """

    def __init__(
        self, broker_id: int, local: ShareCoordinator, sender: RequestSender, timeout: float, request_timeout: float
    ) -> None:
        """`timeout` limits a call with its repetitions, `request_timeout` one request; both in seconds."""
        self._broker_id = broker_id
        self._local = local
        self._sender = sender
        self._timeout = timeout
        self._request_timeout = request_timeout
        self._batcher: RequestBatcher[StateCall, Any] = RequestBatcher(self._send)
        self.initializing: dict[str, asyncio.Task[None]] = {}
        """Tasks that create the states of partitions that are new to a group, by group."""

    def close(self) -> None:
        for task in self.initializing.values():
            task.cancel()
        self._batcher.close()

    async def initialize(self, key: ShareKey, state_epoch: int, start: int) -> None:
        """Create a state, or reset it to a start offset. Raises FencedStateEpochError like `ShareCoordinator`."""
        data = initialize.PartitionData(partition=key.partition, state_epoch=state_epoch, start_offset=start)
        await self._call(StateCall(INITIALIZE, key, data), lambda: self._local.initialize(key, state_epoch, start))

    async def read(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state for a leader. Raises FencedLeaderEpochError if there is a later leader epoch."""
        data = read.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        result = await self._call(StateCall(READ, key, data), lambda: self._local.read(key, leader_epoch))
        if isinstance(result, ShareState):
            return result
        runs = record_ranges(result.state_batches)
        return ShareState(result.state_epoch, leader_epoch, result.start_offset, runs=runs)

    async def write(self, key: ShareKey, state: ShareState) -> None:
        """Store a state.

        Raises FencedLeaderEpochError or FencedStateEpochError if the coordinator knows a later epoch, and
        InvalidRequestError if the share partition has no state that could be changed.
        """
        data = write.PartitionData(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start,
            delivery_complete_count=state.done,
            state_batches=[
                write.StateBatch(
                    first_offset=r.first, last_offset=r.last, delivery_state=r.state, delivery_count=r.delivered
                )
                for r in state.runs
            ],
        )
        await self._call(StateCall(WRITE, key, data), lambda: self._local.write(key, state))

    async def delete(self, key: ShareKey) -> None:
        """Delete a state, if there is one."""
        data = delete.PartitionData(partition=key.partition)
        await self._call(StateCall(DELETE, key, data), lambda: self._local.delete(key))

    async def summary(self, key: ShareKey) -> ShareState:
        """Return the state. The start is UNINITIALIZED if there is none.

        The ranges of records are left out if another broker is the share coordinator.
        """

        async def local() -> ShareState:
            return self._local.summary(key)

        data = summary.PartitionData(partition=key.partition, leader_epoch=-1)
        result = await self._call(StateCall(SUMMARY, key, data), local)
        if isinstance(result, ShareState):
            return result
        return ShareState(result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count)

    async def _call(self, call: StateCall, local: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of the local coordinator, or the partition's part of a response."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        attempts = 0
        while True:
            try:
                leader = self._local.leader(call.key)
                if leader == self._broker_id:
                    return await local()
                if leader == NO_LEADER:
                    raise errors.CoordinatorNotAvailableError(f"{call.key} has no share coordinator at the moment")
                return _checked(await self._batcher.submit(leader, call))
            except NOT_THERE as error:
                delay = BACKOFF.backoff(attempts)
                if asyncio.get_running_loop().time() + delay > deadline:
                    raise errors.CoordinatorNotAvailableError(
                        f"the share coordinator of {call.key} cannot be reached: {error.message}"
                    ) from error
            attempts += 1
            await asyncio.sleep(delay)

    async def _send(self, broker_id: int, calls: list[StateCall]) -> list[Any]:
        """Send one request per API and group, and return the result of each call. If a request fails, its error is the
        result of its calls.
        """
        shares: dict[tuple[StateApi, str], list[StateCall]] = {}
        for call in calls:
            shares.setdefault((call.api, call.key.group_id), []).append(call)
        results: dict[tuple[StateApi, ShareKey], Any] = {}
        for (api, group_id), share in shares.items():
            try:
                request = _request(api, group_id, share)
                response = await self._sender.send(
                    broker_id, request, api.version, timeout=self._request_timeout, purpose=PURPOSE
                )
                results |= {(api, key): result for key, result in _results(group_id, response).items()}
            except errors.KafkaError as error:
                results |= {(api, call.key): error for call in share}
        missing = errors.UnknownServerError("the share coordinator's response does not have the partition")
        return [results.get((call.api, call.key), missing) for call in calls]


def _request(api: StateApi, group_id: str, calls: list[StateCall]) -> Request[Any]:
    by_topic: dict[Any, dict[int, Any]] = {}
    for call in calls:
        by_topic.setdefault(call.key.topic_id, {})[call.key.partition] = call.data  # the last write wins
    topic_data = api.messages.TopicData
    topics = [topic_data(topic_id=topic_id, partitions=list(data.values())) for topic_id, data in by_topic.items()]
    return api.request(group_id=group_id, topics=topics)


def _results(group_id: str, response: Response) -> dict[ShareKey, Any]:
    return {
        ShareKey(group_id, topic.topic_id, result.partition): result
        for topic in response.results  # type: ignore[attr-defined]
        for result in topic.partitions
    }


def _checked(result: Any) -> Any:
    if isinstance(result, errors.KafkaError):
        raise result
    if result.error_code:
        error = errors.for_code(result.error_code)
        raise error(result.error_message) if result.error_message else error()
    return result
