"""Random producers, zombies, timeouts, restarts and kills, compared with a model of the guarantees of transactions.

The model knows the transaction of each write, and the outcome of each transaction. A read_committed consumer reads the
writes of committed transactions in the order of the log, up to the first open transaction. The offset of the group is
the last committed one in the log. A fenced producer writes nothing.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.broker_client import BrokerClient
from tests.unit.broker.produce_and_fetch import create
from tests.unit.broker.transactional_producer import (
    TIMEOUT_MS,
    FailingMarkers,
    TransactionalProducer,
    committed_offset,
    find_coordinator,
    read_committed,
    wait_until_completed,
    with_manual_clock,
)

from ottla.clock import ManualClock
from ottla.model import TopicPartition

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
IDS = ("a", "b", "c")
LIVES = 3
STEPS = 80


@dataclass
class ModelTransaction:
    """A transaction: `committed` is None while it is open."""

    committed: bool | None = None
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    started_ms: int = 0


@dataclass
class Instance:
    """A producer, with the state that the model expects."""

    real: TransactionalProducer
    alive: bool = False
    """It was initialized, and not fenced by another producer since."""
    current: ModelTransaction | None = None
    forgotten: bool = False
    """Its transaction timed out before the last restart: the epoch it had then is not in the log."""

    @property
    def can_continue(self) -> bool:
        """Return whether it is not fenced, and its transaction, if it has one, is open."""
        return self.alive and (self.current is None or self.current.committed is None)


class Model:
    """The model, the producers, and the random numbers."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.writes: dict[TopicPartition, list[tuple[bytes, ModelTransaction]]] = {tp: [] for tp in PARTITIONS}
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.instances: list[Instance] = []
        self.done: Counter[str] = Counter()
        self.number = 0

    def connect(self, client: BrokerClient) -> None:
        """Connect all producers to a broker that has started."""
        if not self.instances:
            for transactional_id in IDS:
                for newer in (False, True):
                    self.instances.append(Instance(TransactionalProducer(client, transactional_id, newer=newer)))
        for instance in self.instances:
            instance.real.client = client
            instance.forgotten |= not instance.can_continue

    async def step(self, client: BrokerClient, clock: ManualClock) -> None:
        """Run one operation of a producer, or advance the clock by much."""
        self.number += 1
        if self.dice.random() < 0.06:
            await self.advance_time(client, clock)
            return
        clock.advance(self.dice.randint(0, 20))
        instance = self.dice.choice(self.instances)
        if instance.real.producer_id < 0 or self.dice.random() < (0.03 if instance.alive else 0.3):
            await self.init(instance)
        elif self.dice.random() < 0.6:
            await self.write(instance, clock)
        elif self.dice.random() < 0.3:
            await self.commit_offset(instance, clock)
        elif instance.current is not None or not instance.alive:
            await self.end(instance, self.dice.random() < 0.6)

    async def advance_time(self, client: BrokerClient, clock: ManualClock) -> None:
        clock.advance(self.dice.choice([TIMEOUT_MS // 2, TIMEOUT_MS + 1]))
        client.context.transactions.abort_timed_out()
        await asyncio.sleep(0)
        await wait_until_completed(client)  # until the markers are written, their producers can write
        for instance in self.instances:
            actual = instance.current
            if actual is not None and actual.committed is None and actual.started_ms + TIMEOUT_MS < clock.now_ms():
                actual.committed = False
                self.done["timed out"] += 1

    async def init(self, instance: Instance) -> None:
        code = await instance.real.init()
        assert code == 0, code
        for other in self.instances:
            if other.real.transactional_id == instance.real.transactional_id:
                self.done["fenced"] += other.alive and other is not instance
                other.alive = other is instance
                if other.current is not None and other.current.committed is None:
                    other.current.committed = False
        instance.current, instance.forgotten = None, False

    async def after_failure(self, instance: Instance, code: int) -> None:
        assert not instance.can_continue, f"step {self.number}: error {code}"
        self.done["rejected"] += 1
        init_code = await instance.real.init(bump_epoch=True)
        if instance.forgotten and init_code:
            instance.alive, instance.real.producer_id = False, -1  # it starts again as a new producer
        assert (init_code == 0) is instance.alive, f"step {self.number}: error {init_code}"
        instance.current, instance.forgotten = None, False

    def open_transaction(self, instance: Instance, clock: ManualClock) -> ModelTransaction:
        if instance.current is None:
            instance.current = ModelTransaction(started_ms=clock.now_ms())
        return instance.current

    async def write(self, instance: Instance, clock: ManualClock) -> None:
        tp, value = self.dice.choice(PARTITIONS), b"%d" % self.number
        code = await instance.real.send(tp, value)
        if code:
            await self.after_failure(instance, code)
            return
        assert instance.can_continue, f"step {self.number}: a fenced producer has written"
        self.writes[tp].append((value, self.open_transaction(instance, clock)))

    async def commit_offset(self, instance: Instance, clock: ManualClock) -> None:
        tp = self.dice.choice(PARTITIONS)
        code = await instance.real.commit_offset(tp, self.number)
        if code:
            await self.after_failure(instance, code)
            return
        assert instance.can_continue, f"step {self.number}: a fenced producer has committed an offset"
        self.open_transaction(instance, clock).offsets[tp] = self.number, self.number

    async def end(self, instance: Instance, commit: bool) -> None:
        code = await instance.real.end(commit)
        actual = instance.current
        if code:
            await self.after_failure(instance, code)
            return
        assert instance.alive, f"step {self.number}: a fenced producer has ended a transaction"
        assert actual is not None
        assert actual.committed is None or not commit, f"step {self.number}: a timed out transaction was committed"
        if actual.committed is None:
            actual.committed = commit
        instance.current = None
        self.done["committed" if commit else "aborted"] += 1
        if commit:
            for tp, offset in actual.offsets.items():
                self.offsets[tp] = max(self.offsets.get(tp, (-1, -1)), offset)

    async def check(self, client: BrokerClient) -> None:
        """Assert that the state of the broker matches the model."""
        await wait_until_completed(client)
        for tp in PARTITIONS:
            expected = []
            for value, transaction in self.writes[tp]:
                if transaction.committed is None:
                    break
                if transaction.committed:
                    expected.append(value)
            actual = await read_committed(client, tp, self.dice.choice([1, 500, 1 << 20]))
            assert actual == expected, f"step {self.number}: {tp}"
            _, offset = await committed_offset(client, tp)
            assert offset == self.offsets.get(tp, (-1, -1))[1], f"step {self.number}: offset of {tp}"

    def states(self, client: BrokerClient) -> dict[str, Any]:
        """Return the state that must survive a restart."""
        transactions = client.context.transactions.by_id.values()
        return {t.id: (t.producer_id, t.state, t.partitions, t.start_ms) for t in transactions}


@pytest.mark.parametrize("seed", range(5))
def test_random_transactions_match_the_model(tmp_path: Path, seed: int) -> None:
    model, clock = Model(seed), ManualClock()
    states: dict[str, Any] = {}

    async def run_broker(client: BrokerClient, clock: ManualClock) -> None:
        nonlocal states
        await find_coordinator(client)
        if "t" not in client.context.image.topics:
            await create(client, partitions=len(PARTITIONS), segment_bytes="2000")
        model.connect(client)
        await model.check(client)
        assert {i: s for i, s in model.states(client).items() if not str(s[1]).startswith("Complete")} == {
            i: s for i, s in states.items() if not str(s[1]).startswith(("Complete", "Prepare"))
        }
        for step in range(STEPS):
            await model.step(client, clock)
            if step % 20 == 0:
                await model.check(client)
        if model.dice.random() < 0.5:
            # transactions that end from here on have no markers when the broker stops
            await wait_until_completed(client)
            client.context.transactions.completer._markers = FailingMarkers()
            for instance in model.instances:
                if instance.can_continue and instance.current is not None:
                    await model.end(instance, model.dice.random() < 0.5)
        states = model.states(client)
        if model.dice.random() < 0.5:
            # a copy of the files now is what a broker killed now would find at its start
            data.append(tmp_path / str(len(data)))
            shutil.copytree(data[-2], data[-1])

    data = [tmp_path / "0"]
    for _ in range(LIVES):
        with_manual_clock(run_broker, data[-1], clock)

    async def last(client: BrokerClient, clock: ManualClock) -> None:
        model.connect(client)
        await wait_until_completed(client)
        clock.advance(2 * TIMEOUT_MS)
        await model.advance_time(client, clock)
        await model.check(client)
        for tp in PARTITIONS:
            log = client.context.partitions._partitions[tp].log
            assert log.last_stable_offset == log.log_end_offset

    with_manual_clock(last, data[-1], clock)
    assert min(model.done[outcome] for outcome in ("committed", "aborted", "rejected", "fenced", "timed out")) > 0, (
        model.done
    )
