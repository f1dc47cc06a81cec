"""Model test of groups with members of the classic and the consumer protocol under random events.

Members join, time out, lose responses, leave and rejoin with the other protocol; topics are created, expanded and
deleted; the coordinator restarts. A failing run names its seed.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.effort import repeats
from tests.unit.coordinator.consumer_world import World, topic_id
from tests.unit.coordinator.simulated_members import SimulatedClassicMember, SimulatedConsumerMember, partitions

from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup, ConsumerGroupState
from ottla.model import TopicIdPartition

SEEDS = repeats(15, 100)
STEPS = 150
Member = SimulatedConsumerMember | SimulatedClassicMember
PERSISTED = (
    *("epoch", "metadata_hash", "target_epoch", "assigned_at_ms"),
    *("members", "targets", "regexes", "static", "owners"),
)


class Simulation:
    """One run. `share` of the members use the consumer protocol."""

    def __init__(self, seed: int, share: float) -> None:
        self.r = Random(seed)
        self.share = share
        self.sizes = {f"t{n}": self.r.randrange(1, 5) for n in range(3)}
        self.world = World(self.sizes, group_consumer_assignment_interval_ms=3000 if seed % 2 else 0)
        self.members: list[Member | None] = [None] * 4
        self.created = 0
        self.epoch = (0, 0)
        self.kind: type = type(None)
        self.empty = True

    def event(self) -> None:
        n = self.r.randrange(len(self.members))
        member = self.members[n]
        what = self.r.random()
        if member is None:
            if what < 0.3:
                self.members[n] = self.new_member()
        elif what < 0.80:
            member.step(lossy=True)
        elif what < 0.84:
            member.leave()
            self.members[n] = None
        elif what < 0.86:
            self.members[n] = None  # it died without leaving
        if what > 0.97:
            self.change_topics()
        elif what > 0.90:
            self.world.pass_time(self.r.choice([500, 3_000, 9_000]))
        elif what > 0.885:
            self.restart()

    def new_member(self) -> Member:
        self.created += 1
        topics = self.r.sample(["t0", "t1", "t2", "t3"], self.r.randrange(1, 4))
        if self.r.random() < self.share:
            return SimulatedConsumerMember(
                self.world, f"m{self.created}", self.r, topics, self.r.choice(["", "", "t[13]"])
            )
        return SimulatedClassicMember(self.world, self.r, topics)

    def change_topics(self) -> None:
        name = f"t{self.r.randrange(4)}"
        if name in self.sizes and self.r.random() < 0.3:
            del self.sizes[name]
        else:
            self.sizes[name] = self.sizes.get(name, 0) + 1
        self.world.topics(self.sizes)

    def restart(self) -> None:
        group = self.world.coordinator.by_id.get("g")
        if group is not None:
            self.world.apply(self.world.coordinator.unload(group))
        self.world.restart()
        again = self.world.coordinator.by_id.get("g")
        if isinstance(group, ConsumerGroup):
            assert isinstance(again, ConsumerGroup)
            for attribute in PERSISTED:
                assert getattr(again, attribute) == getattr(group, attribute), attribute
        else:
            self.epoch = (0, 0)  # a generation that was not synced is lost, as in Kafka

    def check(self) -> None:
        group = self.world.coordinator.by_id.get("g")
        self.check_readers(group)
        if type(group) is not self.kind and self.empty:
            self.epoch = (0, 0)  # an empty group was replaced by one of the other protocol
        self.kind, self.empty = type(group), group is None or group.is_empty
        if isinstance(group, ConsumerGroup):
            assert (group.epoch, group.target_epoch) >= self.epoch
            self.epoch = (group.epoch, group.target_epoch)
            held = {p: m.id for m in group.members.values() for p in m.holds}
            assert held == group.owners
            assert sum(len(m.holds) for m in group.members.values()) == len(held)
            assert all(m.epoch <= max(group.target_epoch, 0) for m in group.members.values())
            shared = [p for m in group.members for p in group.targets.get(m, ())]
            assert len(shared) == len(set(shared))
        elif isinstance(group, ClassicGroup):
            assert group.generation >= self.epoch[0]
            self.epoch = (group.generation, group.generation)

    def check_readers(self, group: object) -> None:
        """Check that each partition has one reader at most, as far as members believe that they are in the group."""
        assert group is None or isinstance(group, (ClassicGroup, ConsumerGroup))
        seen: dict[TopicIdPartition, str] = {}
        for member in self.members:
            if member is None or group is None or member.id not in group.members:
                continue
            for partition in partitions(member.reads):
                assert partition not in seen, f"{partition} is read by {seen[partition]} and {member.id}"
                seen[partition] = member.id

    def stabilize(self) -> None:
        """Let all members finish without further events; all partitions are read."""
        self.members = [m for m in self.members if m is not None] or [self.new_member()]
        for _ in range(60):
            self.world.pass_time(2_000)
            self.check()
            for member in self.members:
                assert member is not None
                member.step(lossy=False)
                self.check()
        group = self.world.coordinator.by_id["g"]
        assert isinstance(group, (ClassicGroup, ConsumerGroup))
        assert group.state_name in (ConsumerGroupState.STABLE, ClassicGroupState.STABLE)
        assert group.members.keys() == {m.id for m in self.members if m is not None}
        read = [p for m in self.members if m is not None for p in partitions(m.reads)]
        assert len(read) == len(set(read))
        assert set(read) == self.subscribed_partitions()

    def subscribed_partitions(self) -> set[TopicIdPartition]:
        names: set[str] = set()
        for member in self.members:
            assert member is not None
            names.update(member.topics)
            if isinstance(member, SimulatedConsumerMember) and member.regex:
                names.update({"t1", "t3"})
        return {TopicIdPartition(topic_id(t), p) for t in names & self.sizes.keys() for p in range(self.sizes[t])}


@pytest.mark.parametrize(("kind", "share"), [("new", 1.0), ("old", 0.0), ("mixed", 0.5)])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_partition_has_at_most_one_reader_and_one_when_stable(kind: str, share: float, seed: int) -> None:
    run = Simulation(seed, share)
    for _ in range(STEPS):
        run.event()
        run.check()
    run.stabilize()
