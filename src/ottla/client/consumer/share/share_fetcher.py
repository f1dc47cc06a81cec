"""Share fetches and acknowledgements: the requests of share sessions. Kafka's `ShareConsumeRequestManager`.

One request at a time is in flight to each broker, because each contains the next epoch of the session. Fetches start
only while the application polls, because the acquisition locks of the records start at once. Acknowledgements are sent
with the next fetch, or in a separate request if there is no fetch or one of them renews a lock. Event loop only,
except that the caller's thread takes records out of `acquired`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from ottla import errors
from ottla.client.consumer.poll_trigger import PollTrigger
from ottla.client.consumer.share.acknowledgements import Acknowledgements, Source
from ottla.client.consumer.share.acquired_records import AcquiredRecords
from ottla.client.consumer.share.share_session import ShareFetchLimits, ShareSessionHandler
from ottla.client.core.connections import FETCH, Connections
from ottla.client.core.metadata import Metadata
from ottla.config.share_consumer import RECORD_LIMIT, ShareConsumerConfig
from ottla.model import Node, TopicIdPartition, TopicPartition
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from ottla.protocol.messages.share_fetch import PartitionData, ShareFetchResponse

log = logging.getLogger("ottla.client")

Assigned = Mapping[TopicPartition, UUID]
STRICT: Final = 1
"""The share acquire mode in which a fetch never acquires more than max_records records."""


class ShareFetcher:
    """Acquires records of the assigned partitions, and sends acknowledgements."""

    def __init__(
        self,
        config: ShareConsumerConfig,
        connections: Connections,
        metadata: Metadata,
        poll_trigger: PollTrigger,
        member_id: Callable[[], str],
    ) -> None:
        self.config = config
        self.connections = connections
        self.metadata = metadata
        self.poll_trigger = poll_trigger
        self.acquired: deque[AcquiredRecords] = deque()
        """Records that poll() has not returned yet: those of at most one response per broker."""
        self.lock_timeout_ms: int | None = None
        """The duration of acquisition locks in milliseconds, from the last response that contained it."""
        self._member_id = member_id
        self._limits = ShareFetchLimits(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            max_records=config.max_poll_records,
            acquire_mode=STRICT if config.share_acquire_mode == RECORD_LIMIT else 0,
        )
        self._one_at_a_time = config.share_acquire_mode == RECORD_LIMIT
        self._sessions: dict[int, ShareSessionHandler] = {}
        self._waiting: dict[int, list[Acknowledgements]] = {}
        """Acknowledgements that have not been sent yet, by broker."""
        self._busy: dict[int, asyncio.Task[None]] = {}
        self._served: dict[int, int] = {}
        """The number of the last fetch from each broker, counted over all brokers. With
        share.acquire.mode=record_limit, the consumer fetches from one broker at a time, in turn.
        """
        self._turn = 0
        self._retry_backoff = config.retry_backoff_ms / 1000

    # Requests

    def acknowledge(self, acknowledgements: Acknowledgements) -> None:
        """Queue acknowledgements for the next request to their broker."""
        self._waiting.setdefault(acknowledgements.source.node, []).append(acknowledgements)

    def send(self, assigned: Assigned, *, fetch: bool) -> None:
        """Start a request to each broker that has none in flight and for which there is something to do: if `fetch` is
        set, a fetch of the assigned partitions that it leads, unless a queued acknowledgement renews a lock; otherwise
        the queued acknowledgements.

        With share.acquire.mode=record_limit, fetch from one broker at a time.
        """
        partitions = self._by_leader(assigned) if fetch else {}
        if self._one_at_a_time and partitions:
            free = [] if self._busy else sorted(partitions, key=lambda node: self._served.get(node, 0))[:1]
            partitions = {node: partitions[node] for node in free}
        for node in [*partitions, *(node for node in self._waiting if node not in partitions)]:
            if node not in self._busy:
                self._spawn(node, partitions.get(node))

    def _by_leader(self, assigned: Assigned) -> dict[int, dict[TopicIdPartition, Source]]:
        result: dict[int, dict[TopicIdPartition, Source]] = {}
        for tp, topic_id in assigned.items():
            node = self.metadata.cluster.leader(tp)
            if node < 0:
                self.metadata.request_update()
            else:
                source = Source(tp, topic_id, node)
                result.setdefault(node, {})[TopicIdPartition(topic_id, tp.partition)] = source
        return result

    def _spawn(self, node: int, partitions: dict[TopicIdPartition, Source] | None) -> None:
        work = self._acknowledge(node) if partitions is None else self._fetch(node, partitions)
        task = self._busy[node] = asyncio.get_running_loop().create_task(work)

        def ended(task: asyncio.Task[None]) -> None:
            del self._busy[node]
            if not task.cancelled() and task.exception() is not None:
                log.error(
                    "Unexpected error in the share session of group %s with node %d; a later poll() sends another "
                    "request",
                    self.config.group_id,
                    node,
                    exc_info=task.exception(),
                )
            if node in self._waiting:
                self.send({}, fetch=False)
            self.poll_trigger.set()

        task.add_done_callback(ended)

    def _session(self, node: int) -> ShareSessionHandler:
        if node not in self._sessions:
            self._sessions[node] = ShareSessionHandler(self.config.group_id or "", self._limits)
        return self._sessions[node]

    def _take_waiting(self, node: int, session: ShareSessionHandler) -> list[Acknowledgements]:
        """Return the acknowledgements for the next request. If no session is open, fail them instead, because they
        belong to the session that acquired the records.
        """
        waiting = self._waiting.pop(node, [])
        if session.is_open:
            return waiting
        ended = errors.InvalidShareSessionEpochError("the share session that acquired the records has ended")
        _complete(waiting, ended)
        return []

    async def _fetch(self, node: int, partitions: dict[TopicIdPartition, Source]) -> None:
        session = self._session(node)
        if any(some.renews for some in self._waiting.get(node, ())):
            await self._acknowledge(node)  # the broker acquires no records with a renewal
            return
        sent = self._take_waiting(node, session)
        self._turn += 1
        self._served[node] = self._turn
        request = session.fetch_request(self._member_id(), partitions, sent)
        response: ShareFetchResponse | None = await self._send(node, session, request, sent)
        if response is not None and self._handle_fetch(response, partitions, node, sent):
            await asyncio.sleep(self._retry_backoff)

    async def _acknowledge(self, node: int, *, final: bool = False) -> None:
        session = self._session(node)
        sent = self._take_waiting(node, session)
        if not session.is_open or not (sent or final):
            return
        request = session.acknowledge_request(self._member_id(), sent, final=final)
        response: ShareAcknowledgeResponse | None = await self._send(node, session, request, sent)
        if response is not None:
            if response.acquisition_lock_timeout_ms > 0:
                self.lock_timeout_ms = response.acquisition_lock_timeout_ms
            outcomes = {
                TopicIdPartition(topic.topic_id, partition.partition_index): partition
                for topic in response.responses
                for partition in topic.partitions
            }
            for some in sent:
                outcome = outcomes.get(TopicIdPartition(some.source.topic_id, some.source.tp.partition))
                some.complete(_error(some.source, outcome.error_code, outcome.error_message) if outcome else None)

    async def _send(
        self, node: int, session: ShareSessionHandler, request: Any, sent: Iterable[Acknowledgements]
    ) -> Any | None:
        """Send a request, and return the response. After a KafkaError, complete the acknowledgements in the request
        with the error, and return None.
        """
        try:
            response = await self.connections.send(node, request, purpose=FETCH)
            if response.error_code:
                raise errors.for_code(response.error_code)(response.error_message)
        except errors.KafkaError as error:
            session.restart()  # the broker may have handled the request, so the epoch is unknown
            _complete(sent, error)
            if isinstance(error, errors.UnsupportedVersionError) or (error.code is not None and not error.retriable):
                log.debug(
                    "A request in the share session of group %s with node %d failed; poll() raises the error: %s",
                    self.config.group_id,
                    node,
                    error,
                )
                self.poll_trigger.fail(error)
            else:
                log.debug(
                    "A request in the share session of group %s with node %d failed; the next fetch, if any, opens a "
                    "new session: %s",
                    self.config.group_id,
                    node,
                    error,
                )
            if error.refresh_metadata or error.code is None:
                self.metadata.request_update()
            await asyncio.sleep(self._retry_backoff)
            return None
        except BaseException:
            session.restart()
            _complete(sent, errors.InvalidShareSessionEpochError("the request was cancelled"))
            raise
        session.succeeded()
        return response

    # Responses

    def _handle_fetch(
        self,
        response: ShareFetchResponse,
        partitions: Mapping[TopicIdPartition, Source],
        node: int,
        sent: Iterable[Acknowledgements],
    ) -> bool:
        """Handle a response. Return whether a partition has an error after which the next fetch has to wait for the
        backoff.
        """
        if response.acquisition_lock_timeout_ms > 0:
            self.lock_timeout_ms = response.acquisition_lock_timeout_ms
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        outcomes: dict[TopicIdPartition, PartitionData] = {}
        failed = False
        for topic in response.responses:
            for partition in topic.partitions:
                tip = TopicIdPartition(topic.topic_id, partition.partition_index)
                outcomes[tip] = partition
                source = partitions.get(tip)
                if source is None:
                    continue
                if partition.error_code:
                    failed |= self._handle_error(source, partition, nodes)
                elif partition.records is not None and partition.acquired_records:
                    self.acquired.append(
                        AcquiredRecords(source, memoryview(partition.records), partition.acquired_records)
                    )
        for some in sent:
            outcome = outcomes.get(TopicIdPartition(some.source.topic_id, some.source.tp.partition))
            failure = outcome and (outcome.acknowledge_error_code, outcome.acknowledge_error_message)
            some.complete(_error(some.source, *failure) if failure else None)
        return failed

    def _handle_error(self, source: Source, partition: PartitionData, nodes: list[Node]) -> bool:
        """Handle the error of a partition. Return whether the next fetch has to wait for the backoff."""
        leader = partition.current_leader
        if self.metadata.leader_changed(source.tp, leader.leader_id, leader.leader_epoch, nodes):
            return False
        error = errors.for_code(partition.error_code)
        if error.refresh_metadata or issubclass(error, errors.UnknownTopicIdError):
            self.metadata.request_update()
        elif not error.retriable:
            self.poll_trigger.fail(error(f"{source.tp}: {partition.error_message or error.__doc__}"))
        return True

    # Closing

    async def close_sessions(self, deadline: float) -> None:
        """Send the pending acknowledgements and close all sessions, until the deadline. The brokers then release
        unacknowledged records.
        """
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                while self._busy:
                    await asyncio.wait(list(self._busy.values()))
                await asyncio.gather(*(self._acknowledge(node, final=True) for node in list(self._sessions)))
        except TimeoutError:
            log.warning(
                "Could not close the share sessions of group %s in time; the brokers release the unacknowledged "
                "records at the latest when their acquisition locks expire",
                self.config.group_id,
            )
        finally:
            await self._stop()

    async def _stop(self) -> None:
        tasks = list(self._busy.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for waiting in self._waiting.values():
            _complete(
                waiting, errors.KafkaTimeoutError("the share session was closed before the acknowledgements were sent")
            )
        self._waiting.clear()
        self._sessions.clear()
        self.acquired.clear()


def _complete(acknowledgements: Iterable[Acknowledgements], error: errors.KafkaError) -> None:
    for some in acknowledgements:
        some.complete(error)


def _error(source: Source, code: int, message: str | None) -> errors.KafkaError | None:
    """Return the error of acknowledgements; None for code 0."""
    if not code:
        return None
    error = errors.for_code(code)
    return error(f"{source.tp}: {message or error.__doc__}")
