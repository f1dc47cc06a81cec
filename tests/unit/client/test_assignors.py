"""Partition assignors of the classic protocol: range, roundrobin, sticky and cooperative-sticky."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.group.assignors import (
    ASSIGNORS,
    Assignment,
    CooperativeStickyAssignor,
    MemberSubscription,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    range_shares,
)
from ottla.model import TopicPartition


def members(expected: Mapping[str, str]) -> dict[str, MemberSubscription]:
    return {name: MemberSubscription(tuple(topics)) for name, topics in expected.items()}


def formatted(assignment: Assignment) -> dict[str, str]:
    return {member: " ".join(f"{tp.topic}{tp.partition}" for tp in tps) for member, tps in assignment.items()}


def test_range_assigns_consecutive_partitions_and_extra_ones_to_the_first_members() -> None:
    result = RangeAssignor().assign(members({"c1": "a", "c2": "a", "c3": "a"}), {"a": 4})
    assert formatted(result) == {"c1": "a0 a1", "c2": "a2", "c3": "a3"}


def test_range_assigns_each_topic_separately() -> None:
    result = RangeAssignor().assign(members({"c1": "ab", "c2": "ab"}), {"a": 3, "b": 3})
    assert formatted(result) == {"c1": "a0 a1 b0 b1", "c2": "a2 b2"}


@pytest.mark.parametrize(("partitions", "member_count"), [(4, 6), (5, 5), (7, 3), (0, 2)])
def test_range_shares_cover_each_partition_once(partitions: int, member_count: int) -> None:
    shares = range_shares(partitions, member_count)
    assert [n for share in shares for n in share] == list(range(partitions))
    assert len(shares) == member_count


def test_roundrobin_alternates_members_across_topics() -> None:
    result = RoundRobinAssignor().assign(members({"c1": "ab", "c2": "ab"}), {"a": 3, "b": 3})
    assert formatted(result) == {"c1": "a0 a2 b1", "c2": "a1 b0 b2"}


def test_roundrobin_skips_members_not_subscribed_to_the_topic() -> None:
    result = RoundRobinAssignor().assign(members({"c1": "a", "c2": "ab", "c3": "abc"}), {"a": 1, "b": 2, "c": 3})
    assert formatted(result) == {"c1": "a0", "c2": "b0", "c3": "b1 c0 c1 c2"}


def test_static_members_are_ordered_by_instance_id() -> None:
    expected = {
        "z": MemberSubscription(("a",), instance_id="1"),
        "y": MemberSubscription(("a",), instance_id="2"),
    }
    assert formatted(RangeAssignor().assign(expected, {"a": 2})) == {"z": "a0", "y": "a1"}


def with_owned_partitions(
    assignment: Assignment, topics: Mapping[str, str], generation: int = 1
) -> dict[str, MemberSubscription]:
    return {
        name: MemberSubscription(tuple(topics[name]), tuple(assignment.get(name, ())), generation) for name in topics
    }


def test_sticky_moves_as_few_partitions_as_balance_requires() -> None:
    before = StickyAssignor().assign(members({"c1": "a", "c2": "a"}), {"a": 6})
    after = StickyAssignor().assign(with_owned_partitions(before, {"c1": "a", "c2": "a", "c3": "a"}), {"a": 6})
    assert sorted(map(len, after.values())) == [2, 2, 2]
    assert set(after["c1"]) <= set(before["c1"])
    assert set(after["c2"]) <= set(before["c2"])


def test_sticky_reads_the_user_data_of_java_members() -> None:
    owned = [TopicPartition("a", 1), TopicPartition("a", 2)]
    data = StickyAssignor().user_data(owned, 5)
    expected = {"c1": MemberSubscription(("a",)), "c2": MemberSubscription(("a",), user_data=data)}
    assert set(StickyAssignor().assign(expected, {"a": 4})["c2"]) == set(owned)


def test_sticky_with_two_owners_prefers_the_later_generation() -> None:
    tp = TopicPartition("a", 0)
    expected = {"c1": MemberSubscription(("a",), (tp,), 3), "c2": MemberSubscription(("a",), (tp,), 4)}
    assert StickyAssignor().assign(expected, {"a": 1})["c2"] == [tp]


def test_cooperative_assigns_a_partition_only_after_its_owner_has_revoked_it() -> None:
    assignor = CooperativeStickyAssignor()
    topics = {"c1": "a", "c2": "a"}
    before: Assignment = {"c1": [TopicPartition("a", n) for n in range(4)]}
    first = assignor.assign(with_owned_partitions(before, topics), {"a": 4})
    assert len(first["c1"]) == 2
    assert first["c2"] == []
    second = assignor.assign(with_owned_partitions(first, topics, 2), {"a": 4})
    assert second["c1"] == first["c1"]
    assert len(second["c2"]) == 2


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 7), min_size=1),
    st.dictionaries(st.text("xyz", min_size=1, max_size=3), st.sets(st.sampled_from("abcd")), min_size=1, max_size=6),
    st.sampled_from(sorted(ASSIGNORS)),
)
def test_every_partition_is_assigned_to_exactly_one_subscribed_member(
    counts: dict[str, int], topics: dict[str, set[str]], name: str
) -> None:
    expected = {m: MemberSubscription(tuple(sorted(t))) for m, t in topics.items()}
    result = ASSIGNORS[name]().assign(expected, counts)
    assigned = [tp for tps in result.values() for tp in tps]
    subscribed = {t for ts in topics.values() for t in ts}
    assert len(assigned) == len(set(assigned))
    assert set(assigned) == {
        TopicPartition(t, n) for t, count in counts.items() if t in subscribed for n in range(count)
    }
    assert all(tp.topic in topics[m] for m, tps in result.items() for tp in tps)


@given(st.integers(0, 30), st.integers(1, 6), st.integers(1, 6))
def test_sticky_is_balanced_after_any_change_of_members(partitions: int, before: int, after: int) -> None:
    assignor = StickyAssignor()
    first = assignor.assign(members({f"m{i}": "a" for i in range(before)}), {"a": partitions})
    second = assignor.assign(with_owned_partitions(first, {f"m{i}": "a" for i in range(after)}), {"a": partitions})
    sizes = [len(tps) for tps in second.values()]
    assert max(sizes) - min(sizes) <= 1
