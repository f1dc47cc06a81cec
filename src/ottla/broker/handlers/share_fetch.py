"""ShareFetch: acquire records for a member of a share group, after applying its acknowledgements (KIP-932).

From version 2 on, a member can enforce max_records and renew its locks. The broker answers when records are available,
if a partition has an error, after `max_wait_ms`, or at once if the request acquires no records. As in Kafka,
`min_bytes` is ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from itertools import groupby

from ottla.broker import leader_discovery
from ottla.broker.broker_context import BrokerContext
from ottla.broker.request_context import RequestContext
from ottla.broker.sessions.remote_reads import RemoteReadNeededError
from ottla.broker.sessions.share_fetch import ONLY_ABORTED, Acquired, SharePartitionReader, release
from ottla.broker.sessions.share_sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from ottla.errors import InvalidRequestError, KafkaError, code_of
from ottla.model import ACLOperation, TopicIdPartition
from ottla.net.server.connection import Connection
from ottla.page_cache import NotCachedError, cached_only
from ottla.protocol.messages import share_fetch as m
from ottla.security.acl import ResourceType

SESSIONS = "share sessions"
"""The key of a connection's state that has the sessions which were opened over the connection."""
STRICT = 1
"""The ShareAcquireMode in which max_records is never exceeded."""


def handle(request: m.ShareFetchRequest, context: RequestContext) -> Awaitable[m.ShareFetchResponse]:
    return ShareFetch(request, context).answer()


class ShareFetch:
    """One share fetch request in progress."""

    def __init__(self, request: m.ShareFetchRequest, context: RequestContext) -> None:
        if not request.group_id or not request.member_id:
            raise InvalidRequestError("group id and member id are required")
        context.require(ACLOperation.READ, ResourceType.GROUP, request.group_id)
        self._request = request
        self._context = context
        self._broker = context.broker
        self._client_gone = False
        self._key = SessionKey(request.group_id, request.member_id)
        self._reader = SharePartitionReader(context, self._key)
        self._answers: dict[TopicIdPartition, m.PartitionData] = {}
        self._not_cached: NotCachedError | RemoteReadNeededError | None = None
        """An error that describes data to be read from the disk, or from remote storage, before records can be
        acquired; None if there is none.
        """
        self._has_skipped = False  # whether only records of aborted transactions were read, and others follow

    async def answer(self) -> m.ShareFetchResponse:
        session = self._session()
        await self._reader.ready()
        await self._acknowledge()
        if self._request.share_session_epoch == FINAL_EPOCH:
            self._reader.release()
        elif not self._request.is_renew_ack:
            for tip in session.partitions:
                self._reader.stats(tip).share_fetch_requests += 1
            await self._acquire(session)
        return self._response()

    def _session(self) -> ShareSession:
        request, sessions = self._request, self._broker.share_sessions
        if request.share_session_epoch == INITIAL_EPOCH:
            session = sessions.open(self._key)
            _end_with_connection(self._context, self._key, session)
        else:
            session = sessions.next_epoch(self._key, request.share_session_epoch)
        added = (TopicIdPartition(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions)
        forgotten = (TopicIdPartition(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions)
        session.update(added, forgotten)
        return session

    async def _acknowledge(self) -> None:
        for topic in self._request.topics:
            for partition in topic.partitions:
                if partition.acknowledgement_batches:
                    tip = TopicIdPartition(topic.topic_id, partition.partition_index)
                    code = await self._reader.acknowledge(tip, partition.acknowledgement_batches)
                    self._data(tip).acknowledge_error_code = code

    async def _acquire(self, session: ShareSession) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request.max_wait_ms / 1000
        changed = asyncio.Event()
        connection = self._context.connection

        def on_close() -> None:
            self._client_gone = True  # records acquired now would stay locked until their timeout
            changed.set()

        connection.on_close.append(on_close)
        try:
            await self._reader.load(session.partitions)
            while not (self._client_gone or self._acquire_now(session)):
                if self._has_skipped:
                    await asyncio.sleep(0)
                    continue
                if isinstance(self._not_cached, NotCachedError):
                    await self._not_cached.load()
                    continue
                if self._not_cached is not None and await self._reader.read_remote(self._not_cached):
                    continue
                remaining = deadline - loop.time()
                if remaining <= 0 or not session.partitions:
                    return
                await self._reader.wait_for_change(list(session.partitions), changed, remaining)
                await self._reader.load(session.partitions)
        finally:
            if not self._client_gone:
                connection.on_close.remove(on_close)

    def _acquire_now(self, session: ShareSession) -> bool:
        """Acquire records that are in the page cache. Return whether there are records or errors to send."""
        request = self._request
        self._not_cached, self._has_skipped = None, False
        records, size = max(1, request.max_records), min(request.max_bytes, self._broker.config.fetch_max_bytes)
        strict = request.share_acquire_mode == STRICT
        has_results = False
        for tip in list(session.partitions):
            if records <= 0 or size <= 0:
                break
            try:
                with cached_only():
                    acquired = self._reader.acquire(tip, size, records, strict=strict)
            except (NotCachedError, RemoteReadNeededError) as missing:
                self._not_cached = missing
                continue
            except KafkaError as error:
                self._reader.stats(tip).failed_share_fetch_requests += 1
                self._data(tip).error_code = code_of(error)
                has_results = True
                continue
            if acquired is ONLY_ABORTED:
                self._has_skipped = True
            elif acquired is not None:
                self._reader.stats(tip).bytes_out += len(acquired.data)
                self._add_records(tip, acquired)
                session.partitions.move_to_end(tip)
                records -= sum(run.last - run.first + 1 for run in acquired.runs)
                size -= len(acquired.data)
                has_results = True
        return has_results

    def _add_records(self, tip: TopicIdPartition, acquired: Acquired) -> None:
        data = self._data(tip)
        data.records = acquired.data
        data.acquired_records = [
            m.AcquiredRecords(first_offset=r.first, last_offset=r.last, delivery_count=r.delivered)
            for r in acquired.runs
        ]

    def _data(self, tip: TopicIdPartition) -> m.PartitionData:
        if tip not in self._answers:
            self._answers[tip] = m.PartitionData(partition_index=tip.partition, records=b"")
        return self._answers[tip]

    def _response(self) -> m.ShareFetchResponse:
        ordered = sorted(self._answers.items(), key=lambda item: (item[0].topic_id.int, item[0].partition))
        response = m.ShareFetchResponse(
            acquisition_lock_timeout_ms=self._broker.share_partitions.configs.record_lock_ms(self._key.group_id),
            responses=[
                m.ShareFetchableTopicResponse(topic_id=topic_id, partitions=[data for _, data in some])
                for topic_id, some in groupby(ordered, key=lambda item: item[0].topic_id)
            ],
        )
        leader_discovery.add_leaders_to_share_response(self._context, response)
        return response


def _end_with_connection(context: RequestContext, key: SessionKey, session: ShareSession) -> None:
    """End a session when its connection is closed: other members get its records at once, as in Kafka.

    The connection refers to its sessions only, because a request or response would stay in memory as long as it is
    open. Sessions that have ended are dropped here.
    """
    broker, connection = context.broker, context.connection
    own = connection.state.get(SESSIONS)
    if not isinstance(own, dict):
        own = connection.state[SESSIONS] = {}
        connection.on_close.append(partial(_end_all, broker, connection))
    for ended in [k for k, s in own.items() if not broker.share_sessions.is_current(k, s)]:
        del own[ended]
    own[key] = session


def _end_all(broker: BrokerContext, connection: Connection) -> None:
    own = connection.state.pop(SESSIONS)
    assert isinstance(own, dict)
    for key, session in own.items():
        if broker.share_sessions.close(key, session):
            release(broker, key)
