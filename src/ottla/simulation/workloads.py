"""The basic workloads of a simulation: producers, transfers and group members with Ottla's asynchronous clients, which
record their results in the history, and a killer of group members.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from ottla import aio
from ottla.client.consumer.group.membership import ConsumerRebalanceListener
from ottla.clock import SystemClock
from ottla.errors import KafkaError
from ottla.futures import shielded
from ottla.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.simulation.history import (
    ORDERED,
    TRANSFERS,
    Ack,
    Assigned,
    Attempt,
    Committed,
    Consumed,
    History,
    Outcome,
    SentRecord,
    StoredRecord,
    TransferRecord,
)
from ottla.simulation.process import Process, current
from ottla.simulation.world import World

PARTITIONS: Final = 2
GROUP: Final = "readers"
MAX_AT_ONCE: Final = 8
ABORTED_SHARE: Final = 0.2
RETRY_SECONDS: Final = 0.5
MAX_UNANSWERED: Final = 300
MAX_IN_BURST: Final = 12
FILLED_SHARE: Final = 0.4
MAX_FILLER: Final = 2000
"""Exclusive limit in bytes of the header that some records have, so that some batches are longer than a sector."""
KILL_SECONDS: Final = 30.0
"""Mean of the random delay in seconds before a group member is killed."""
DEAD_SECONDS: Final = 8.0
PROCESSING_SECONDS: Final = 0.3
"""Mean time in seconds that a group member takes to process the records of a poll."""
SILENCE_SECONDS: Final = 5.0
"""Mean of the random pause in seconds after a burst of a producer, and after a poll of a transfer."""

CLOCK: Final = SystemClock()
"""The clock of the producers. With `SYSTEM_CLOCK`, their compiled code would read the real time."""
CLIENT: Final[dict[str, Any]] = {
    "retry_backoff_ms": 50,
    "retry_backoff_max_ms": 500,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 30_000,
    "request_timeout_ms": 8_000,
}


class Workload:
    """One client process, which may be killed and started again."""

    def __init__(self, world: World, name: str, bootstrap_servers: str, history: History) -> None:
        self.world = world
        self.name = name
        self.history = history
        self.rng = random.Random(f"{world.seed} {name}")
        self.options = {**CLIENT, "bootstrap_servers": bootstrap_servers, "client_id": name}
        self.process: Process | None = None
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start `run` in a new process on a host with the name of the client."""
        self.process = self.world.start_process(self.name, self.name)
        self.task = self.process.start(self._main())

    async def _main(self) -> None:
        try:
            await self.run()
        except KafkaError as error:
            self.world.note(self.name, f"ended: {error}")
            self.history.ended[self.name] = repr(error)

    async def run(self) -> None:
        """Do the work of the client. If this raises a KafkaError, the error is recorded in `history.ended`."""
        raise NotImplementedError

    @property
    def is_stopping(self) -> bool:
        return self.history.stopping.is_set()

    def now(self) -> float:
        return self.world.loop.time()

    async def pause(self, typical_seconds: float) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / typical_seconds))

    async def rest(self, typical_seconds: float) -> None:
        """Pause for a random time with this mean, and then wait while all clients rest."""
        await self.pause(typical_seconds)
        await self.world.busy.wait()


class OrderedProducer(Workload):
    """An idempotent producer, which sends records, numbered per partition, to random partitions of ORDERED in
    bursts.
    """

    async def run(self) -> None:
        producer = aio.KafkaProducer(
            clock=CLOCK, **self.options, linger_ms=self.rng.choice([0, 5, 50]), delivery_timeout_ms=120_000, acks="all"
        )
        await producer.start()
        unanswered: set[SentRecord] = set()
        sequences = dict.fromkeys(range(PARTITIONS), 0)
        while not self.is_stopping:
            gap = self.rng.choice([0.001, 0.1])
            for _ in range(self.rng.randint(1, MAX_IN_BURST)):
                partition = self.rng.randrange(PARTITIONS)
                if len(unanswered) < MAX_UNANSWERED:
                    await self._send(producer, SentRecord(self.name, partition, sequences[partition]), unanswered)
                    sequences[partition] += 1
                await self.pause(gap)
            await self.rest(SILENCE_SECONDS)
        await producer.flush()
        await producer.close()
        if unanswered:
            self.history.ended[self.name] = f"{len(unanswered)} records have no result after flush()"

    async def _send(self, producer: aio.KafkaProducer, sent: SentRecord, unanswered: set[SentRecord]) -> None:
        unanswered.add(sent)
        try:
            headers = [("filler", bytes(self.rng.randrange(MAX_FILLER)))] if self.rng.random() < FILLED_SHARE else []
            future = await producer.send(ORDERED, sent.value, partition=sent.partition, headers=headers)
        except KafkaError as error:
            unanswered.discard(sent)
            self._on_result(sent, error, None)
            return
        future.add_done_callback(lambda done: self._on_done(sent, done, unanswered))

    def _on_done(self, sent: SentRecord, done: Any, unanswered: set[SentRecord]) -> None:
        if sent not in unanswered:
            self.history.ended[self.name] = f"{sent} has two results"
        unanswered.discard(sent)
        error = done.exception()
        self._on_result(sent, error, None if error is not None else done.result().offset)

    def _on_result(self, sent: SentRecord, error: BaseException | None, offset: int | None) -> None:
        if error is None:
            self.history.acknowledged(Ack(self.now(), sent, offset if offset is not None and offset >= 0 else None))
        else:
            self.world.note(self.name, f"{sent} failed: {error}")
            self.history.failed_deliveries.append((self.now(), sent, str(error)))


class Transfer(Workload):
    """A transactional producer: it consumes one partition of ORDERED, and writes two records to TRANSFERS per consumed
    record, exactly once.
    """

    def __init__(self, world: World, number: int, bootstrap_servers: str, history: History) -> None:
        super().__init__(world, f"transfer-{number}", bootstrap_servers, history)
        self._source = TopicPartition(ORDERED, number)
        self._attempts = 0

    async def run(self) -> None:
        while not self.is_stopping:
            try:
                await self._work()
            except KafkaError as error:
                self.world.note(self.name, f"begins again: {error}")
                await asyncio.sleep(RETRY_SECONDS)
        self.history.transferred[self.name] = await self._last_committed()

    async def _work(self) -> None:
        """Run transactions with one producer and one consumer until the run ends. A KafkaError that does not merely
        abort a transaction is raised.
        """
        producer = aio.KafkaProducer(
            clock=CLOCK, **self.options, transactional_id=self.name, transaction_timeout_ms=20_000, max_block_ms=20_000
        )
        consumer = self._consumer()
        try:
            await producer.start()
            await producer.init_transactions()
            await consumer.start()
            consumer.assign([self._source])
            await self._seek(consumer)
            while not self.is_stopping:
                records = (await consumer.poll(5000, MAX_AT_ONCE)).get(self._source, [])
                if records and not await self._transaction(producer, consumer, [record.offset for record in records]):
                    consumer.seek(self._source, records[0].offset)
                await self.rest(SILENCE_SECONDS)
        finally:
            await shielded(self._close(producer, consumer))

    async def _close(self, producer: aio.KafkaProducer, consumer: aio.KafkaConsumer) -> None:
        await producer.close(timeout=1)
        await consumer.close(autocommit=False, timeout_ms=1000)

    def _consumer(self) -> aio.KafkaConsumer:
        return aio.KafkaConsumer(
            **self.options,
            group_id=self.name,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=5000,
        )

    async def _seek(self, consumer: aio.KafkaConsumer) -> None:
        committed = await consumer.committed(self._source, timeout_ms=20_000)
        consumer.seek(self._source, committed or 0)

    async def _transaction(self, producer: aio.KafkaProducer, consumer: aio.KafkaConsumer, offsets: list[int]) -> bool:
        """Run one transaction over the records with these offsets, and return whether it was committed. It is aborted
        at random, and after an error of sending; errors of beginning, committing or aborting it are raised.
        """
        self._attempts += 1
        attempt = Attempt(self.name, self._attempts, tuple(offsets))
        self.history.attempts.append(attempt)
        await producer.begin_transaction()
        try:
            futures = [
                await producer.send(
                    TRANSFERS,
                    TransferRecord(self.name, attempt.number, source, side).value,
                    partition=(source + side) % PARTITIONS,
                )
                for source in offsets
                for side in (0, 1)
            ]
            for future in futures:
                await future
            if self.rng.random() < ABORTED_SHARE / 2:
                return await self._abort(producer, attempt)
            await producer.send_offsets_to_transaction({self._source: OffsetAndMetadata(offsets[-1] + 1)}, self.name)
            if self.rng.random() < ABORTED_SHARE:
                await self.pause(1.0)
                return await self._abort(producer, attempt)
        except KafkaError as error:
            self.world.note(self.name, f"aborts transaction {attempt.number}: {error}")
            return await self._abort(producer, attempt)
        await producer.commit_transaction()
        attempt.outcome, attempt.at = Outcome.COMMITTED, self.now()
        return True

    async def _abort(self, producer: aio.KafkaProducer, attempt: Attempt) -> bool:
        await producer.abort_transaction()
        attempt.outcome = Outcome.ABORTED
        return False

    async def _last_committed(self) -> int | None:
        """Return the committed source offset at the end of the run, 0 if there is none; None if all attempts to read it
        failed. A transaction that is still open is ended first.
        """
        for _ in range(20):
            producer = aio.KafkaProducer(clock=CLOCK, **self.options, transactional_id=self.name, max_block_ms=20_000)
            consumer = self._consumer()
            try:
                await producer.start()
                await producer.init_transactions()  # ends a transaction that was left open
                await consumer.start()
                committed = await consumer.committed(self._source, timeout_ms=20_000)
                return int(committed or 0)
            except KafkaError as error:
                self.world.note(self.name, f"cannot read its offset yet: {error}")
                await asyncio.sleep(RETRY_SECONDS)
            finally:
                await shielded(self._close(producer, consumer))
        return None


class Member(Workload):
    """A member of GROUP, which consumes ORDERED and TRANSFERS with the classic or the consumer protocol."""

    def __init__(
        self, world: World, number: int, bootstrap_servers: str, history: History, *, group_protocol: str
    ) -> None:
        super().__init__(world, f"member-{number}", bootstrap_servers, history)
        self.done = asyncio.Event()
        self._options: dict[str, Any] = {"group_protocol": group_protocol}
        self.is_classic = group_protocol == "classic"
        self.identities: list[tuple[str, int]] = []
        """The member id and generation (or member epoch) of each assignment, the latest one last."""
        if self.is_classic:
            # JoinGroup may take max.poll.interval.ms, and as long a coordinator without power is not missed
            self._options |= {
                "session_timeout_ms": 10_000,
                "heartbeat_interval_ms": 3_000,
                "max_poll_interval_ms": 15_000,
            }

    async def run(self) -> None:
        consumer = aio.KafkaConsumer(
            **self.options,
            **self._options,
            group_id=GROUP,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=5000,
        )
        await consumer.start()
        consumer.subscribe([ORDERED, TRANSFERS], listener=_Listener(self, consumer))
        positions: dict[TopicPartition, OffsetAndMetadata] = {}
        while not self.done.is_set():
            try:
                await self._poll(consumer, positions)
            except KafkaError as error:
                self.world.note(self.name, f"poll or commit failed: {error}")
                positions.clear()
                await asyncio.sleep(RETRY_SECONDS)
        await consumer.close(autocommit=False, timeout_ms=5000)

    async def _poll(self, consumer: aio.KafkaConsumer, positions: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for tp, records in (await consumer.poll(5000)).items():
            for record in records:
                self.history.group.append(Consumed(self.now(), self.name, tp, record.offset))
            if records:
                positions[tp] = OffsetAndMetadata(records[-1].offset + 1, "", records[-1].leader_epoch)
        owned = {tp: position for tp, position in positions.items() if tp in consumer.assignment()}
        positions.clear()
        if owned:
            await self.pause(PROCESSING_SECONDS)
            await consumer.commit(owned, timeout_ms=5000)
            for tp, position in owned.items():
                self.history.group.append(Committed(self.now(), self.name, tp, position.offset))

    def assigned(self, partitions: Any, member: ConsumerGroupMetadata) -> None:
        self.identities.append((member.member_id, member.generation_id))
        generation = member.generation_id if self.is_classic else -1
        for tp in partitions:
            self.history.group.append(Assigned(self.now(), self.name, tp, generation))


class MemberKiller(Workload):
    """Kills members of the group, and starts them again with new member ids, until the faults have ended."""

    def __init__(self, world: World, history: History, members: Sequence[Member]) -> None:
        super().__init__(world, "member-killer", "", history)
        self._members = members

    async def run(self) -> None:
        while True:
            next_kill = self.now() + self.rng.expovariate(1 / KILL_SECONDS)
            while self.now() < next_kill:
                if self.history.calm.is_set():
                    return
                await asyncio.sleep(1)
                await self.world.busy.wait()
            member = self.rng.choice(self._members)
            assert member.process is not None
            self.world.note(member.name, "is killed")
            member.process.kill()
            await self.pause(DEAD_SECONDS)
            member.start()


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: Member, consumer: aio.KafkaConsumer) -> None:
        self._member = member
        self._consumer = consumer

    def on_partitions_assigned(self, partitions: Any) -> None:
        self._member.assigned(partitions, self._consumer.group_metadata())

    def on_partitions_revoked(self, partitions: Any) -> None:
        pass


async def read_all(options: dict[str, Any], topic: str) -> list[StoredRecord]:
    """Return the committed records of a topic with PARTITIONS partitions, read by a consumer in the current process."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    stored: list[StoredRecord] = []
    async with aio.KafkaConsumer(
        **options, isolation_level="read_committed", auto_offset_reset="earliest", group_id=None
    ) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for tp, records in (await consumer.poll(1000)).items():
                stored += [StoredRecord(tp, r.offset, r.value) for r in records]
    return stored


async def in_process(world: World, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run the coroutine that `work` returns in a new client process, return its result, and kill the process."""
    process = world.start_process(name, name)

    async def run() -> Any:
        assert current() is process
        return await work()

    try:
        return await process.start(run())
    finally:
        process.kill()
