"""Many producers, zombies, timeouts, restarts and kills at random, against a plain model of what transactions promise.

The model knows for each write in which transaction it was, and for each transaction how it ended. A read_committed
reader sees the writes of committed transactions in the order of the log, up to the first that is open; the group's
offset is the latest in the log that was committed; who was fenced writes nothing.
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
from tests.unit.broker.asking import Asker
from tests.unit.broker.produce_and_fetch import create
from tests.unit.broker.transacting import (
    TIMEOUT_MS,
    NoMarkers,
    Transactor,
    at_clock,
    committed_offset,
    find_coordinator,
    read_committed,
    settle,
)

from ottla.clock import ManualClock
from ottla.model import TopicPartition

PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1)]
IDS = ("a", "b", "c")
LIVES = 3
STEPS = 80


@dataclass
class Open:
    """A transaction: None while it is open, then whether it was committed."""

    committed: bool | None = None
    offsets: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    started_ms: int = 0


@dataclass
class Instance:
    """A producer as the model sees it."""

    real: Transactor
    alive: bool = False
    """It was initialised, and no other producer has taken its id over since."""
    current: Open | None = None
    forgotten: bool = False
    """Its transaction timed out before the last restart: the epoch it had then is not in the log."""

    @property
    def may_go_on(self) -> bool:
        """Return whether its transaction, if it has one, was not ended by another producer."""
        return self.alive and (self.current is None or self.current.committed is None)


class World:
    """The model, the producers, and the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.writes: dict[TopicPartition, list[tuple[bytes, Open]]] = {tp: [] for tp in PARTITIONS}
        self.offsets: dict[TopicPartition, tuple[int, int]] = {}
        self.instances: list[Instance] = []
        self.done: Counter[str] = Counter()
        self.number = 0

    def enter(self, client: Asker) -> None:
        """The broker has started: everybody connects again."""
        if not self.instances:
            for transactional_id in IDS:
                for newer in (False, True):
                    self.instances.append(Instance(Transactor(client, transactional_id, newer=newer)))
        for instance in self.instances:
            instance.real.client = client
            instance.forgotten |= not instance.may_go_on

    async def step(self, client: Asker, clock: ManualClock) -> None:
        """One producer does something, or time passes."""
        self.number += 1
        if self.dice.random() < 0.06:
            await self.let_time_pass(client, clock)
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

    async def let_time_pass(self, client: Asker, clock: ManualClock) -> None:
        clock.advance(self.dice.choice([TIMEOUT_MS // 2, TIMEOUT_MS + 1]))
        client.context.transactions.abort_timed_out()
        await asyncio.sleep(0)
        await settle(client)  # until the markers are written, their producers write
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
        assert not instance.may_go_on, f"step {self.number}: error {code}"
        self.done["refused"] += 1
        comes_back = await instance.real.init(come_back=True)
        if instance.forgotten and comes_back:
            instance.alive, instance.real.producer_id = False, -1  # it gives up, and starts again
        assert (comes_back == 0) is instance.alive, f"step {self.number}: error {comes_back}"
        instance.current, instance.forgotten = None, False

    def begun(self, instance: Instance, clock: ManualClock) -> Open:
        if instance.current is None:
            instance.current = Open(started_ms=clock.now_ms())
        return instance.current

    async def write(self, instance: Instance, clock: ManualClock) -> None:
        tp, value = self.dice.choice(PARTITIONS), b"%d" % self.number
        code = await instance.real.send(tp, value)
        if code:
            await self.after_failure(instance, code)
            return
        assert instance.may_go_on, f"step {self.number}: a fenced producer has written"
        self.writes[tp].append((value, self.begun(instance, clock)))

    async def commit_offset(self, instance: Instance, clock: ManualClock) -> None:
        tp = self.dice.choice(PARTITIONS)
        code = await instance.real.commit_offset(tp, self.number)
        if code:
            await self.after_failure(instance, code)
            return
        assert instance.may_go_on, f"step {self.number}: a fenced producer has committed an offset"
        self.begun(instance, clock).offsets[tp] = self.number, self.number

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

    async def check(self, client: Asker) -> None:
        """What the broker shows is what the model says."""
        await settle(client)
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

    def states(self, client: Asker) -> dict[str, Any]:
        """What must outlive a restart."""
        existing = client.context.transactions.by_id.values()
        return {t.id: (t.producer_id, t.state, t.partitions, t.start_ms) for t in existing}


@pytest.mark.parametrize("seed", range(5))
def test_transactions_keep_their_promises(tmp_path: Path, seed: int) -> None:
    world, clock = World(seed), ManualClock()
    states: dict[str, Any] = {}

    async def live(client: Asker, clock: ManualClock) -> None:
        nonlocal states
        await find_coordinator(client)
        if "t" not in client.context.image.topics:
            await create(client, partitions=len(PARTITIONS), segment_bytes="2000")
        world.enter(client)
        await world.check(client)
        assert {i: s for i, s in world.states(client).items() if not str(s[1]).startswith("Complete")} == {
            i: s for i, s in states.items() if not str(s[1]).startswith(("Complete", "Prepare"))
        }
        for step in range(STEPS):
            await world.step(client, clock)
            if step % 20 == 0:
                await world.check(client)
        if world.dice.random() < 0.5:
            # what is decided from here on has no markers when the broker stops
            await settle(client)
            client.context.transactions.completer._markers = NoMarkers()
            for instance in world.instances:
                if instance.may_go_on and instance.current is not None:
                    await world.end(instance, world.dice.random() < 0.5)
        states = world.states(client)
        if world.dice.random() < 0.5:
            # what lies in the files now is what a broker finds that was killed now
            data.append(tmp_path / str(len(data)))
            shutil.copytree(data[-2], data[-1])

    data = [tmp_path / "0"]
    for _ in range(LIVES):
        at_clock(live, data[-1], clock)

    async def last(client: Asker, clock: ManualClock) -> None:
        world.enter(client)
        await settle(client)
        clock.advance(2 * TIMEOUT_MS)
        await world.let_time_pass(client, clock)
        await world.check(client)
        for tp in PARTITIONS:
            log = client.context.partitions._partitions[tp].log
            assert log.last_stable_offset == log.log_end_offset

    at_clock(last, data[-1], clock)
    assert min(world.done[what] for what in ("committed", "aborted", "refused", "fenced", "timed out")) > 0, world.done
