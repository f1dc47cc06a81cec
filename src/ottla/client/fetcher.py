"""Keeps fetching what the consumer reads, ahead of poll(). Kafka's `Fetcher` and `FetchSessionHandler`.

One request is on its way to each broker; it asks for the partitions of which not enough is here already. Positions run
ahead of the consumer's, so that the next fetch of a partition does not wait until the last one is used up. Runs on the
loop; `completed` is emptied by the consumer's caller.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Final

from ottla import errors
from ottla.client.connections import FETCH, Connections
from ottla.client.fetched import Fetched
from ottla.client.metadata import Metadata
from ottla.client.subscription import RESETS, PartitionState, Subscription
from ottla.config.consumer import ConsumerConfig
from ottla.errors import KafkaError, OffsetOutOfRangeError
from ottla.model import TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

log = logging.getLogger("ottla.client")

NEWEST_FETCH: Final = 12
"""13 names topics by id."""
FETCHES_AHEAD: Final = 2
"""A partition is fetched while less than so many full fetches of it are here: one to read from, one in reserve."""
FULL: Final = 0
NO_SESSION: Final = 0


class FetchSession:
    """What a broker remembers of our fetches (KIP-227), so that requests only name what has changed."""

    __slots__ = ("epoch", "id", "known")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = FULL
        self.known: dict[TopicPartition, tuple[int, int]] = {}
        """Partitions of the session: offset and leader epoch that the broker goes by."""

    def forget(self) -> None:
        """Begin a new session with the next request."""
        self.id, self.epoch = NO_SESSION, FULL
        self.known = {}

    def request(self, wanted: dict[TopicPartition, tuple[int, int]], config: ConsumerConfig) -> FetchRequest:
        """The request for `wanted`: all of it at first, then the differences."""
        new = {tp: what for tp, what in wanted.items() if self.epoch == FULL or self.known.get(tp) != what}
        gone = [tp for tp in self.known if tp not in wanted] if self.epoch != FULL else []
        self.known = dict(wanted)
        topics: dict[str, list[FetchPartition]] = {}
        for tp, (offset, leader_epoch) in new.items():
            partition = FetchPartition(
                partition=tp.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
            topics.setdefault(tp.topic, []).append(partition)
        forgotten: dict[str, list[int]] = {}
        for tp in gone:
            forgotten.setdefault(tp.topic, []).append(tp.partition)
        return FetchRequest(
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=1 if config.isolation_level == "read_committed" else 0,
            session_id=self.id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
            forgotten_topics_data=[ForgottenTopic(topic=t, partitions=p) for t, p in forgotten.items()],
            rack_id=config.client_rack,
        )

    def answered(self, response: FetchResponse) -> bool:
        """Follow a response; False when the session was lost and the request has to be made anew."""
        if response.error_code:
            self.forget()
            return False
        self.id = response.session_id
        if self.id == NO_SESSION:
            self.forget()
        else:
            self.epoch = 1 if self.epoch >= 0x7FFFFFFF else self.epoch + 1
        return True


class Fetcher:
    """Fetches for all assigned partitions whose position is known."""

    def __init__(
        self, config: ConsumerConfig, connections: Connections, metadata: Metadata, subscription: Subscription
    ) -> None:
        self.config = config
        self.connections = connections
        self.metadata = metadata
        self.subscription = subscription
        self.completed: deque[Fetched] = deque()
        """Ready to be taken, in the order of arrival."""
        self.arrived = asyncio.Event()
        """Set when something was put into `completed`, or an error into `error`."""
        self.error: KafkaError | None = None
        """What the next poll() has to raise."""
        self._sessions: dict[int, FetchSession] = {}
        self._busy: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._back_off = config.retry_backoff_ms / 1000
        self._enough = FETCHES_AHEAD * config.max_partition_fetch_bytes

    def start(self) -> None:
        """Follow the metadata: a new leader can be fetched from at once."""
        self.metadata.listeners.append(lambda _: self.wake())

    async def close(self) -> None:
        """Stop fetching."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.completed.clear()

    def wake(self) -> None:
        """Ask every broker that has something to give and is not being asked (loop's thread)."""
        wanted: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        now = time.monotonic()
        leaderless = False
        for tp, state in self.subscription.partitions.items():
            if state.paused or state.fetch_from is None or state.in_flight:
                continue
            state.held = state.fetched_bytes - state.taken_bytes >= self._enough
            if state.held:
                continue
            node, epoch = self._node(tp, state, now)
            if node < 0:
                leaderless = True
            elif node not in self._busy:
                wanted.setdefault(node, {})[tp] = (state.fetch_from, epoch)
        if leaderless:
            self.metadata.request_update()
        for node, partitions in wanted.items():
            self._spawn(node, partitions)

    def _node(self, tp: TopicPartition, state: PartitionState, now: float) -> tuple[int, int]:
        cluster = self.metadata.cluster
        info = cluster.partition(tp)
        epoch = -1 if info is None else info.leader_epoch
        if state.preferred is not None:
            node, until = state.preferred
            if now < until and node in cluster.nodes:
                return node, epoch
            state.preferred = None
        return cluster.leader(tp), epoch

    def _spawn(self, node: int, partitions: dict[TopicPartition, tuple[int, int]]) -> None:
        self._busy.add(node)
        states = [self.subscription.partitions[tp] for tp in partitions]
        # Noted here and not by the task: between the two a partition may be lost or jump.
        asked_for = {state.tp: (state, state.generation) for state in states}
        for state in states:
            state.in_flight = True
        task = asyncio.get_running_loop().create_task(self._fetch(node, partitions, asked_for))
        self._tasks.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._busy.discard(node)
            for state in states:
                state.in_flight = False
            if not task.cancelled():
                if task.exception() is not None:
                    log.error("the fetcher has failed; it goes on", exc_info=task.exception())
                self.wake()

        task.add_done_callback(ended)

    async def _fetch(
        self,
        node: int,
        partitions: dict[TopicPartition, tuple[int, int]],
        asked_for: dict[TopicPartition, tuple[PartitionState, int]],
    ) -> None:
        """One request and its answer; what came for a partition that has jumped since it was asked for is dropped."""
        session = self._sessions.setdefault(node, FetchSession())
        request = session.request(partitions, self.config)
        try:
            response = await self.connections.ask(node, request, at_most=NEWEST_FETCH, purpose=FETCH)
        except KafkaError as error:
            log.debug("fetch from node %d: %s", node, error)
            session.forget()
            for state, _ in asked_for.values():
                state.preferred = None
            self.metadata.request_update()
            if error.code is not None and not error.retriable:
                self._raise(error)
            await asyncio.sleep(self._back_off)
            return
        if not session.answered(response):
            return
        failed = False
        for topic in response.responses:
            for partition in topic.partitions:
                tp = TopicPartition(topic.topic, partition.partition_index)
                if tp in asked_for:
                    state, generation = asked_for[tp]
                    if state.generation == generation:
                        failed |= not self._one_answer(state, partition, partitions[tp][0], node)
        if failed:
            await asyncio.sleep(self._back_off)

    def _one_answer(self, state: PartitionState, answer: PartitionData, asked: int, node: int) -> bool:
        """What came for one partition; False when it needs a pause before the next try."""
        if answer.error_code:
            leader = answer.current_leader
            if leader is not None:
                self.metadata.leader_changed(state.tp, leader.leader_id, leader.leader_epoch)
            return self._one_error(state, errors.for_code(answer.error_code), asked, node)
        state.high_watermark = answer.high_watermark
        state.last_stable_offset = answer.last_stable_offset
        if answer.log_start_offset >= 0:
            state.begin = answer.log_start_offset
        if answer.preferred_read_replica >= 0:
            until = time.monotonic() + self.config.metadata_max_age_ms / 1000
            state.preferred = (answer.preferred_read_replica, until)
        if answer.records is None or not answer.records.nbytes:
            return True
        committed = self.config.isolation_level == "read_committed"
        try:
            fetched = Fetched(
                state,
                answer.records,
                asked,
                limit=self.config.max_partition_fetch_bytes,
                check_crc=self.config.check_crcs,
                aborted=(answer.aborted_transactions or []) if committed else None,
            )
        except KafkaError as error:
            self._raise(type(error)(f"{state.tp}, offset {asked}: {error}"))
            return False
        state.fetch_from = fetched.end_offset
        state.fetched_bytes += fetched.nbytes
        self.completed.append(fetched)
        self.arrived.set()
        return True

    def _one_error(self, state: PartitionState, error: type[KafkaError], asked: int, node: int) -> bool:
        if error is OffsetOutOfRangeError:
            return self._out_of_range(state, asked)
        state.preferred = None
        if error.refresh_metadata:
            self.metadata.request_update()
        if not error.retriable or error is errors.CorruptMessageError:
            self._raise(error(f"{state.tp}, offset {asked}: {error.__doc__}"))
        else:
            log.debug("fetch of %s from node %d: %s", state.tp, node, error.name)
        return False

    def _out_of_range(self, state: PartitionState, asked: int) -> bool:
        if state.preferred is not None:
            # A follower may lag behind; the leader knows.
            state.preferred = None
            return True
        policy = self.config.auto_offset_reset
        if policy not in RESETS:
            self._raise(OffsetOutOfRangeError(f"{state.tp}: offset {asked} is out of range, auto.offset.reset is none"))
            return False
        if state.position != asked:
            # What is here already is still good. When it is used up, the same answer comes again.
            return False
        log.info("%s: offset %d is out of range, going to the %s", state.tp, asked, policy)
        state.reset(RESETS[policy])
        self.arrived.set()
        return True

    def _raise(self, error: KafkaError) -> None:
        self.error = error
        self.arrived.set()
