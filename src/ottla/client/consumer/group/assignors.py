"""Who reads which partition: the rules by which a group's leader decides. Kafka's `ConsumerPartitionAssignor`s.

All of them are functions of the members' subscriptions and the topics' partition counts. Members of one group must
agree, and may be Java: the results are Java's for range and roundrobin, and as balanced for the sticky ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ottla.errors import ConfigurationError, MalformedMessageError
from ottla.model import TopicPartition
from ottla.protocol import fields as f
from ottla.protocol.message import Data, decode, encode
from ottla.protocol.messages.consumer_protocol import TopicPartitions


class MemberSubscription(NamedTuple):
    """What one member wants and has."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes | None = None
    instance_id: str | None = None
    """Of a static member: the name that it keeps across restarts, which decides its place among the others."""


Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """A rule. `cooperative`: members keep what they have while others move (KIP-429)."""

    name: str
    cooperative: bool

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Every member's partitions, by member id; `counts` is the number of partitions of each topic."""
        ...


def in_order(members: Members) -> list[str]:
    """Member ids in the order that all clients agree on: static members by their instance id, before the others."""
    return sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m))


class RangeAssignor:
    """Topic by topic: each member in order gets a stretch of partitions, the first ones one more if need be."""

    name = "range"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Every member's partitions."""
        assignment: Assignment = {member: [] for member in members}
        for topic in sorted({t for m in members.values() for t in m.topics if t in counts}):
            takers = [m for m in in_order(members) if topic in members[m].topics]
            for member, share in zip(takers, range_shares(counts[topic], len(takers)), strict=True):
                assignment[member] += [TopicPartition(topic, number) for number in share]
        return assignment


def range_shares(partitions: int, takers: int) -> list[range]:
    """`partitions` cut into `takers` stretches, the first ones one longer when it does not divide."""
    each, more = divmod(partitions, takers)
    starts = [i * each + min(i, more) for i in range(takers + 1)]
    return [range(starts[i], starts[i + 1]) for i in range(takers)]


class RoundRobinAssignor:
    """All partitions of all topics in turn, to the next member that wants the topic."""

    name = "roundrobin"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Every member's partitions."""
        assignment: Assignment = {member: [] for member in members}
        order = in_order(members)
        topics = {t for m in members.values() for t in m.topics}
        turn = 0
        for topic in sorted(t for t in topics if t in counts):
            for number in range(counts[topic]):
                while topic not in members[order[turn % len(order)]].topics:
                    turn += 1
                assignment[order[turn % len(order)]].append(TopicPartition(topic, number))
                turn += 1
        return assignment


class StickyUserData(Data, versions="0-1"):
    """What a member of the sticky assignor tells its leader: what it had, and since when."""

    previous_assignment: list[TopicPartitions] = f.array(TopicPartitions, "0+")
    generation: int = f.int32("1+", default=-1, ignorable=True)


class StickyAssignor:
    """Balanced, and everybody keeps as much as possible of what he had."""

    name = "sticky"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Every member's partitions."""
        return balance(members, counts, self._owned(members, counts))

    def _owned(self, members: Members, counts: Mapping[str, int]) -> dict[TopicPartition, str]:
        """Who had what; of two who claim the same, the one with the later generation; neither when they are equal."""
        claims: dict[TopicPartition, tuple[int, str]] = {}
        disputed: set[TopicPartition] = set()
        for member in in_order(members):
            subscription = members[member]
            generation, owned = self.claims_of(subscription)
            for tp in owned:
                if tp.topic not in subscription.topics or tp.partition >= counts.get(tp.topic, 0):
                    continue
                other = claims.get(tp)
                if other is not None and other[0] == generation:
                    disputed.add(tp)
                elif other is None or other[0] < generation:
                    disputed.discard(tp)
                    claims[tp] = (generation, member)
        return {tp: member for tp, (_, member) in claims.items() if tp not in disputed}

    def claims_of(self, subscription: MemberSubscription) -> tuple[int, Sequence[TopicPartition]]:
        """The generation and the partitions that a member says it has."""
        if not subscription.user_data:
            return subscription.generation, subscription.owned
        for version in (1, 0):
            try:
                data = decode(StickyUserData, subscription.user_data, version)
            except MalformedMessageError:
                continue
            return data.generation, [TopicPartition(t.topic, p) for t in data.previous_assignment for p in t.partitions]
        return -1, ()

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes:
        """What a member tells of itself."""
        data = StickyUserData(previous_assignment=group_by_topic(owned), generation=generation)
        return bytes(encode(data, 1))


class CooperativeStickyAssignor(StickyAssignor):
    """The same, and nobody stops reading what he keeps: a partition moves only after its owner has given it up."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Every member's partitions, without those that somebody else has to give up first."""
        owners = self._owned(members, counts)
        assignment = balance(members, counts, owners)
        return {
            member: [tp for tp in partitions if owners.get(tp, member) == member]
            for member, partitions in assignment.items()
        }

    def claims_of(self, subscription: MemberSubscription) -> tuple[int, Sequence[TopicPartition]]:
        """As the protocol's own fields tell."""
        return subscription.generation, subscription.owned


def balance(members: Members, counts: Mapping[str, int], owners: Mapping[TopicPartition, str]) -> Assignment:
    """A balanced assignment that keeps to `owners` where it can.

    First everybody keeps what he has, then the free partitions go to those with the least, then partitions move from
    those with more to those with at least two less, until nothing can be gained.
    """
    order = in_order(members)
    assignment: Assignment = {member: [] for member in order}
    topics = sorted({t for m in members.values() for t in m.topics if t in counts})
    free: list[TopicPartition] = []
    for topic in topics:
        for number in range(counts[topic]):
            tp = TopicPartition(topic, number)
            owner = owners.get(tp)
            if owner is not None and owner in assignment:
                assignment[owner].append(tp)
            else:
                free.append(tp)
    takers = {topic: [m for m in order if topic in members[m].topics] for topic in topics}
    # Partitions that few want come first: the others can still go anywhere.
    for tp in sorted(free, key=lambda tp: (len(takers[tp.topic]), tp)):
        least = min(takers[tp.topic], key=lambda m: len(assignment[m]))
        assignment[least].append(tp)
    while _improve(assignment, takers):
        pass
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _improve(assignment: Assignment, takers: Mapping[str, list[str]]) -> bool:
    """Move one partition from a member with more to one with at least two less; False when there is none."""
    for member in sorted(assignment, key=lambda m: -len(assignment[m])):
        for tp in reversed(assignment[member]):
            least = min(takers[tp.topic], key=lambda m: len(assignment[m]))
            if len(assignment[member]) - len(assignment[least]) >= 2:
                assignment[member].remove(tp)
                assignment[least].append(tp)
                return True
    return False


def group_by_topic(partitions: Sequence[TopicPartition]) -> list[TopicPartitions]:
    """Partitions as messages carry them."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


ASSIGNORS: dict[str, type[Any]] = {
    a.name: a for a in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
"""Ours, by name."""


def make_assignors(options: Sequence[Any]) -> list[Assignor]:
    """The assignors of partition.assignment.strategy: names of ours, classes or objects."""
    made: list[Assignor] = []
    for option in options:
        found: Any = ASSIGNORS.get(option, option) if isinstance(option, str) else option
        assignor: Any = found() if isinstance(found, type) else found
        if not hasattr(assignor, "assign") or not hasattr(assignor, "name"):
            raise ConfigurationError(f"partition.assignment.strategy: {option!r} is no assignor")
        made.append(assignor)
    return made
