"""Assignors: how the leader of a classic group assigns partitions to members. Kafka's `ConsumerPartitionAssignor`s.

An assignment does not depend on the racks of members and replicas (KIP-881). Other members of the group may be Java
clients: the results of range and roundrobin equal Java's without racks; those of the sticky assignors are as balanced.
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
    """The subscription of a member, and the partitions that it owns in `generation`."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1
    user_data: bytes | None = None
    instance_id: str | None = None
    """The group.instance.id of a static member. It determines the member's place in the order; see `in_order`."""


Members = Mapping[str, MemberSubscription]
Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """An assignor. If `cooperative` is set, members may keep reading partitions that stay with them during a rebalance
    (KIP-429).
    """

    name: str
    cooperative: bool

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Return the partitions of each member, by member id. `counts`: the number of partitions of each topic that
        exists.
        """
        ...


def in_order(members: Members) -> list[str]:
    """Return the member ids in the order that Java's clients use, too: static members by instance id, then the others
    by member id.
    """
    return sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or m))


class RangeAssignor:
    """Assigns consecutive ranges of each topic. If the number of partitions does not divide evenly, the first members
    get one more.
    """

    name = "range"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        for topic in sorted({t for m in members.values() for t in m.topics if t in counts}):
            takers = [m for m in in_order(members) if topic in members[m].topics]
            for member, share in zip(takers, range_shares(counts[topic], len(takers)), strict=True):
                assignment[member] += [TopicPartition(topic, number) for number in share]
        return assignment


def range_shares(partitions: int, takers: int) -> list[range]:
    """Split `partitions` into `takers` consecutive ranges. If they do not divide evenly, the first ranges are longer by
    one.
    """
    each, more = divmod(partitions, takers)
    starts = [i * each + min(i, more) for i in range(takers + 1)]
    return [range(starts[i], starts[i + 1]) for i in range(takers)]


class RoundRobinAssignor:
    """Assigns the partitions of all topics one by one, each to the next member that is subscribed to the topic."""

    name = "roundrobin"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
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
    """The user data of a sticky assignor in a subscription: the partitions that a member owned, and in which
    generation.
    """

    previous_assignment: list[TopicPartitions] = f.array(TopicPartitions, "0+")
    generation: int = f.int32("1+", default=-1, ignorable=True)


class StickyAssignor:
    """Balances the partitions, and moves few of them from one member to another."""

    name = "sticky"
    cooperative = False

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        return balance(members, counts, self._owners(members, counts))

    def _owners(self, members: Members, counts: Mapping[str, int]) -> dict[TopicPartition, str]:
        """Return the owner of each partition that has one.

        If members claim the same partition, the latest generation wins; claims of the same generation cancel each
        other.
        """
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
        """Return the generation and the partitions that a member claims to own."""
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
        """Encode the user data of a member for its subscription."""
        data = StickyUserData(previous_assignment=group_by_topic(owned), generation=generation)
        return bytes(encode(data, 1))


class CooperativeStickyAssignor(StickyAssignor):
    """Like StickyAssignor, but members keep reading during a rebalance: a partition moves only after its owner has
    revoked it.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, members: Members, counts: Mapping[str, int]) -> Assignment:
        """Return the partitions of each member, without those that another member has to revoke first."""
        owners = self._owners(members, counts)
        assignment = balance(members, counts, owners)
        return {
            member: [tp for tp in partitions if owners.get(tp, member) == member]
            for member, partitions in assignment.items()
        }

    def claims_of(self, subscription: MemberSubscription) -> tuple[int, Sequence[TopicPartition]]:
        """Return the generation and the owned partitions from the subscription; user data is ignored."""
        return subscription.generation, subscription.owned


def balance(members: Members, counts: Mapping[str, int], owners: Mapping[TopicPartition, str]) -> Assignment:
    """Return a balanced assignment that moves few partitions away from their `owners`.

    First, members keep what they own. Then partitions without an owner go to those subscribed members that have the
    fewest partitions. Then partitions move to subscribed members that have at least two fewer, until there are none.
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
    # Partitions with few subscribers come first: the others have more choice.
    for tp in sorted(free, key=lambda tp: (len(takers[tp.topic]), tp)):
        least = min(takers[tp.topic], key=lambda m: len(assignment[m]))
        assignment[least].append(tp)
    while _improve(assignment, takers):
        pass
    for partitions in assignment.values():
        partitions.sort()
    return assignment


def _improve(assignment: Assignment, takers: Mapping[str, list[str]]) -> bool:
    """Move one partition to a subscribed member with at least two fewer. Return False if there is none."""
    for member in sorted(assignment, key=lambda m: -len(assignment[m])):
        for tp in reversed(assignment[member]):
            least = min(takers[tp.topic], key=lambda m: len(assignment[m]))
            if len(assignment[member]) - len(assignment[least]) >= 2:
                assignment[member].remove(tp)
                assignment[least].append(tp)
                return True
    return False


def group_by_topic(partitions: Sequence[TopicPartition]) -> list[TopicPartitions]:
    """Return the partitions grouped by topic, as messages contain them."""
    topics: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


ASSIGNORS: dict[str, type[Any]] = {
    a.name: a for a in (RangeAssignor, RoundRobinAssignor, StickyAssignor, CooperativeStickyAssignor)
}
"""The classes of assignors by name."""


def make_assignors(options: Sequence[Any]) -> list[Assignor]:
    """Create the assignors of partition.assignment.strategy. Each is a name, a class or an object. Raises
    ConfigurationError if one has no method `assign` or no name.
    """
    made: list[Assignor] = []
    for option in options:
        kind: Any = ASSIGNORS.get(option, option) if isinstance(option, str) else option
        assignor: Any = kind() if isinstance(kind, type) else kind
        if not hasattr(assignor, "assign") or not hasattr(assignor, "name"):
            raise ConfigurationError(f"partition.assignment.strategy: {option!r} is not an assignor")
        made.append(assignor)
    return made
