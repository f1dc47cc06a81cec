"""An idempotent producer with scripted retries, either those of the Java client or those of librdkafka.

It has up to five batches in flight and retries all batches without a result, in order. It also repeats acknowledged
batches, as clients do after a broken connection. The two clients differ in how they handle OUT_OF_ORDER_SEQUENCE_NUMBER
and UNKNOWN_PRODUCER_ID:

- The Java client increments its epoch if the oldest batch gets one of these errors, and renumbers all batches without a
  result from zero.
- librdkafka fails if the oldest batch gets one of them. If only a later batch does, librdkafka waits for the batches in
  flight, then gets a new producer id and resends all unacknowledged batches.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ottla import errors
from ottla.errors import KafkaError
from ottla.net.client.channel import Channel
from ottla.protocol.messages.produce import PartitionProduceResponse
from ottla.simulation.clients.raw_client import Leader, ProducerId, RawClient, batch_of, send_batch
from ottla.simulation.history import ORDERED, Ack, History, SentRecord
from ottla.simulation.workloads import PARTITIONS, RETRY_SECONDS, Workload
from ottla.simulation.world import World

JAVA: Final = "java"
LIBRDKAFKA: Final = "librdkafka"
MAX_IN_FLIGHT: Final = 5
MAX_RECORDS: Final = 3
REPEATED_SHARE: Final = 0.5
DELIVERY_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 4.0
SECONDS_BETWEEN_SENDS: Final = (0.0, 0.0, 0.01, 0.5, 1.5)
"""Times in seconds between two batches in flight, in which the leader may change."""


@dataclass
class ScriptedBatch:
    """A batch with its current sequence number and producer id."""

    records: list[SentRecord]
    producer: ProducerId
    sequence: int
    deadline: float
    offset: int = -1
    """The offset in the batch's acknowledgement; -1 before it arrives, or if it says that the batch is a duplicate."""


class ScriptedProducer(Workload):
    """Writes numbered records to one partition of ORDERED, with the rules of JAVA or LIBRDKAFKA."""

    def __init__(self, world: World, rules: str, partition: int, bootstrap_servers: str, history: History) -> None:
        super().__init__(world, f"{rules}-{partition}", bootstrap_servers, history)
        self._rules = rules
        self._partition = partition % PARTITIONS
        self._client = RawClient(self.name, bootstrap_servers)
        self._producer = ProducerId(-1, -1)
        self._next_record = 0
        self._next_sequence = 0
        self._outstanding: list[ScriptedBatch] = []
        self._acked: list[ScriptedBatch] = []
        """The last acknowledged batches of the current producer id and epoch, at most five, in order of sequence."""

    async def run(self) -> None:
        await self._new_producer_id()
        while not self.is_stopping:
            for _ in range(self.rng.randint(1, MAX_IN_FLIGHT)):
                self._add_batch()
            await self._deliver()
            if self.rng.random() < REPEATED_SHARE:
                await self._repeat()
            await self.rest(PAUSE_SECONDS)
        self._client.close()

    def _add_batch(self) -> None:
        count = self.rng.randint(1, MAX_RECORDS)
        records = [SentRecord(self.name, self._partition, self._next_record + n) for n in range(count)]
        self._next_record += count
        batch = ScriptedBatch(records, self._producer, self._next_sequence, self.now() + DELIVERY_SECONDS)
        self._outstanding.append(batch)
        self._next_sequence += count

    async def _new_producer_id(self) -> None:
        while True:
            try:
                self._producer = await self._client.init_producer()
                break
            except KafkaError:
                await asyncio.sleep(RETRY_SECONDS)
        self._renumber()

    def _renumber(self) -> None:
        """Renumber the batches without a result from zero, with the current producer id and epoch."""
        self._next_sequence = 0
        self._acked.clear()
        for batch in self._outstanding:
            batch.producer, batch.sequence = self._producer, self._next_sequence
            self._next_sequence += len(batch.records)

    async def _deliver(self) -> None:
        """Send the batches in order, with retries, until each has a result or its deadline has passed."""
        while self._outstanding:
            try:
                leader = await self._leader()
                # One failure of the leader ends all requests: later batches must not overtake lost ones at one broker.
                channel = await self._client.connect(leader.broker)
                sends = []
                for batch in self._outstanding:
                    sends.append(asyncio.ensure_future(self._send(channel, batch)))
                    await asyncio.sleep(self.rng.choice(SECONDS_BETWEEN_SENDS))
                    if self._rules == LIBRDKAFKA and (new := await self._new_leader(leader)) is not None:
                        leader, channel = new
                results = await asyncio.gather(*sends, return_exceptions=True)
                await self._apply(list(zip(self._outstanding, results, strict=True)))
            except KafkaError:
                pass  # there is no leader at the moment
            await self._drop_expired()
            if self._outstanding:
                await asyncio.sleep(RETRY_SECONDS * self.rng.uniform(0.2, 1.0))

    async def _leader(self) -> Leader:
        return await self._client.leader(ORDERED, self._partition)

    async def _connect(self) -> Channel:
        return await self._client.connect((await self._leader()).broker)

    async def _new_leader(self, leader: Leader) -> tuple[Leader, Channel] | None:
        """Return the new leader and a connection to it; None if `leader` still leads, or the new one is not reachable.

        librdkafka sends further batches to the new leader, although earlier ones wait for the old one's response.
        """
        try:
            new = await self._leader()
            if new.broker == leader.broker or new.epoch <= leader.epoch:
                return None
            return new, await self._client.connect(new.broker)
        except KafkaError:
            return None

    async def _send(self, channel: Channel, batch: ScriptedBatch) -> PartitionProduceResponse:
        now_ms = 1_800_000_000_000 + int(self.now() * 1000)
        data = batch_of([sent.value for sent in batch.records], batch.producer, batch.sequence, now_ms)
        return await send_batch(channel, ORDERED, self._partition, data)

    async def _apply(self, results: list[tuple[ScriptedBatch, PartitionProduceResponse | BaseException]]) -> None:
        bumps = False
        self._check_held_back(results)
        for batch, result in results:
            if isinstance(result, KafkaError):
                continue  # no response: it may be written or not
            if isinstance(result, BaseException):
                raise result
            if result.error_code in (errors.NONE, errors.DuplicateSequenceNumberError.code):
                self._on_ack(batch, result)
            elif result.error_code in (
                errors.OutOfOrderSequenceNumberError.code,
                errors.UnknownProducerIdError.code,
            ):
                is_first = bool(self._outstanding) and self._outstanding[0] is batch
                bumps |= self._on_sequence_error(batch, is_first=is_first)
        if bumps:
            self.world.note(self.name, "numbers its batches from zero")
            if self._rules == JAVA:
                self._producer = ProducerId(self._producer.id, self._producer.epoch + 1)
                self._renumber()
            else:
                await self._new_producer_id()

    def _check_held_back(self, results: list[tuple[ScriptedBatch, PartitionProduceResponse | BaseException]]) -> None:
        """Add a violation if a batch fails as out of order because an earlier one has to be retried.

        In this case librdkafka would renumber all batches from zero, including those that are in the log despite an
        error response.
        """
        rejected: str | None = None
        for batch, result in results:
            code = result.error_code if isinstance(result, PartitionProduceResponse) else errors.NONE
            if code == errors.OutOfOrderSequenceNumberError.code and rejected is not None:
                text = f"sequence {batch.sequence} is out of order, as {rejected} has to be sent again"
                self.history.violations.append(f"{self.name}: {text}")
            elif code and errors.for_code(code).retriable and code != errors.OutOfOrderSequenceNumberError.code:
                rejected = f"{batch.sequence}, which got error {code},"

    def _on_ack(self, batch: ScriptedBatch, result: PartitionProduceResponse) -> None:
        self._outstanding.remove(batch)
        batch.offset = result.base_offset if result.error_code == errors.NONE else -1
        self._acked = sorted([*self._acked, batch], key=lambda acked: acked.sequence)[-MAX_IN_FLIGHT:]
        for number, sent in enumerate(batch.records):
            self.history.acknowledged(Ack(self.now(), sent, batch.offset + number if batch.offset >= 0 else None))

    def _on_sequence_error(self, batch: ScriptedBatch, *, is_first: bool) -> bool:
        """Handle a sequence error. Return whether the batches have to be renumbered from zero.

        With librdkafka's rules, an error of the oldest batch is also recorded as the end of the producer, which is a
        violation.
        """
        if self._rules == JAVA:
            return is_first
        if is_first:
            self.history.ended[self.name] = f"sequence {batch.sequence}, the oldest one, was out of order"
        return True

    async def _drop_expired(self) -> None:
        expired = [batch for batch in self._outstanding if batch.deadline < self.now()]
        for batch in expired:
            self._outstanding.remove(batch)
            self.history.failed_deliveries += [(self.now(), sent, "timed out") for sent in batch.records]
        if expired:
            await self._new_producer_id()

    async def _repeat(self) -> None:
        """Send one of the last acknowledged batches again. The broker must recognize it as a duplicate."""
        if not self._acked:
            return
        batch = self.rng.choice(self._acked)
        try:
            result = await self._send(await self._connect(), batch)
        except KafkaError:
            return
        if result.error_code == errors.NONE and batch.offset not in (-1, result.base_offset):
            self._violate(batch, f"is at offset {batch.offset}, but its repetition is at {result.base_offset}")
        elif result.error_code == errors.OutOfOrderSequenceNumberError.code:
            self._violate(batch, "was not recognized when it was repeated")

    def _violate(self, batch: ScriptedBatch, text: str) -> None:
        place = self._acked.index(batch) - len(self._acked)
        self.history.violations.append(f"{self.name}: sequence {batch.sequence} ({place}) {text}")
