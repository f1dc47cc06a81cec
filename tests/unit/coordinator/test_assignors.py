"""Assignors of the broker: every partition has one reader, shares are balanced and sticky."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from uuid import UUID

import pytest

from ottla.config.broker.coordinator_config import SERVER_ASSIGNORS
from ottla.coordinator.group.common.consumer_member import NOTHING, Assignment
from ottla.coordinator.group.consumer.assignors import range as range_assignor
from ottla.coordinator.group.consumer.assignors import uniform
from ottla.coordinator.group.consumer.assignors.spec import Assignor, MemberSpec
from ottla.coordinator.group.consumer.assignors.table import ASSIGNORS
from ottla.model import TopicIdPartition

TOPICS = [UUID(int=n + 1) for n in range(5)]
Shares = Mapping[str, Assignment]


def members(n: int, *topics: UUID, previous: Shares | None = None) -> dict[str, MemberSpec]:
    return {f"m{i}": MemberSpec(frozenset(topics), (previous or {}).get(f"m{i}", NOTHING)) for i in range(n)}


def again(specs: Mapping[str, MemberSpec], shares: Shares) -> dict[str, MemberSpec]:
    return {m: spec._replace(assigned=shares.get(m, NOTHING)) for m, spec in specs.items()}


def check(specs: Mapping[str, MemberSpec], sizes: Mapping[UUID, int], shares: Shares) -> None:
    assert shares.keys() == specs.keys()
    read = Counter(p for share in shares.values() for p in share)
    subscribed_topics = {t for spec in specs.values() for t in spec.topics}
    assert set(read) == {TopicIdPartition(t, p) for t in subscribed_topics for p in range(sizes[t])}
    assert not read or max(read.values()) == 1
    for member, share in shares.items():
        assert {p.topic_id for p in share} <= specs[member].topics


def random_case(seed: int) -> tuple[dict[str, MemberSpec], dict[UUID, int]]:
    r = random.Random(seed)
    sizes = {t: r.randrange(1, 9) for t in TOPICS}
    same = frozenset(r.sample(TOPICS, r.randrange(1, 5)))
    specs = {}
    for i in range(r.randrange(1, 7)):
        topics = same if seed % 2 else frozenset(r.sample(TOPICS, r.randrange(1, 5)))
        specs[f"m{i}"] = MemberSpec(topics, NOTHING, f"i{i}" if r.random() < 0.3 else None)
    return specs, sizes


def test_assignors_have_the_names_of_kafka() -> None:
    assert set(ASSIGNORS) == set(SERVER_ASSIGNORS.values())


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("seed", range(60))
def test_assignors_assign_every_partition_once_and_deterministically(assign: Assignor, seed: int) -> None:
    specs, sizes = random_case(seed)
    shares = assign(specs, sizes)
    check(specs, sizes, shares)
    backwards = dict(reversed(specs.items()))
    assert assign(backwards, dict(reversed(sizes.items()))) == shares


@pytest.mark.parametrize("seed", range(60))
def test_uniform_assignor_is_balanced_and_sticky(seed: int) -> None:
    specs, sizes = random_case(seed)
    shares = uniform.assign(specs, sizes)
    counts = {m: len(share) for m, share in shares.items()}
    for member, share in shares.items():
        for partition in share:
            other = [m for m, spec in specs.items() if partition.topic_id in spec.topics]
            assert counts[member] - min(counts[m] for m in other) <= 1
    assert uniform.assign(again(specs, shares), sizes) == shares


@pytest.mark.parametrize("seed", range(1, 60, 2))
def test_uniform_assignor_moves_no_more_partitions_than_necessary(seed: int) -> None:
    specs, sizes = random_case(seed)
    shares = uniform.assign(specs, sizes)
    total = sum(map(len, shares.values()))
    more = {**again(specs, shares), "new": MemberSpec(next(iter(specs.values())).topics, NOTHING)}
    after = uniform.assign(more, sizes)
    check(more, sizes, after)
    moved = sum(len(after[m] - shares[m]) for m in specs)
    assert (moved, len(after["new"])) == (0, total // len(more))
    remaining = {m: spec for m, spec in again(specs, shares).items() if m != "m0"}
    if remaining:
        after_leave = uniform.assign(remaining, sizes)
        assert all(shares[m] <= after_leave[m] for m in remaining)


def test_range_assignor_divides_topics_of_the_same_size_alike() -> None:
    shares = range_assignor.assign(members(2, TOPICS[0], TOPICS[1]), {TOPICS[0]: 3, TOPICS[1]: 3})
    for topic in TOPICS[:2]:
        assert sorted(p.partition for p in shares["m0"] if p.topic_id == topic) == [0, 1]
        assert sorted(p.partition for p in shares["m1"] if p.topic_id == topic) == [2]


def test_range_assignor_orders_static_members_first_by_instance_id() -> None:
    topics = frozenset(TOPICS[:1])
    specs = {
        "z": MemberSpec(topics, NOTHING, "i1"),
        "a": MemberSpec(topics, NOTHING, "i2"),
        "b": MemberSpec(topics, NOTHING),
    }
    shares = range_assignor.assign(specs, {TOPICS[0]: 3})
    assert {m: [p.partition for p in share] for m, share in shares.items()} == {"z": [0], "a": [1], "b": [2]}


def test_assignors_with_more_members_than_partitions_leave_members_idle() -> None:
    for assign in ASSIGNORS.values():
        shares = assign(members(4, TOPICS[0]), {TOPICS[0]: 2})
        assert sorted(map(len, shares.values())) == [0, 0, 1, 1]


def test_assignors_ignore_deleted_topics_and_partitions() -> None:
    previous = {"m0": frozenset({TopicIdPartition(TOPICS[0], 7), TopicIdPartition(TOPICS[3], 0)})}
    shares = uniform.assign(members(1, TOPICS[0], previous=previous), {TOPICS[0]: 2})
    assert {p.partition for p in shares["m0"]} == {0, 1}


def test_uniform_assignor_ends_after_some_rounds_if_each_member_shares_a_topic_with_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = [UUID(int=n + 1) for n in range(10)]
    specs = {f"m{n}": MemberSpec(frozenset(topics[max(0, n - 1) : n + 1]), NOTHING) for n in range(10)}
    sizes = dict.fromkeys(topics, 100)
    balanced: list[object] = []
    balance = uniform._balance
    monkeypatch.setattr(uniform, "_balance", lambda *args: balanced.append(args) or balance(*args))  # type: ignore[func-returns-value]
    shares = uniform.assign(specs, sizes)
    assert len(balanced) <= 16 * len(topics)
    check(specs, sizes, shares)
    counts = [len(share) for share in shares.values()]
    assert max(counts) - min(counts) < 25, "the numbers are nearly equal"
