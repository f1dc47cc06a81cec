"""Committed offsets: commit checks, deletion and expiry."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ottla.clock import ManualClock
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.config.broker.broker_config import BrokerConfig
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.classic.records import CommittedOffset
from ottla.coordinator.group.common.group import Committer
from ottla.coordinator.group.group_coordinator import GroupCoordinator
from ottla.coordinator.group.offsets import Offsets
from ottla.errors import (
    GroupIdNotFoundError,
    IllegalGenerationError,
    KafkaError,
    NonEmptyGroupError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from ottla.model import TopicPartition
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.versioned import encode_versioned

TP = TopicPartition("t", 0)
NON_MEMBER = Committer("", None, -1)
DAY_MS = 86_400_000


class OffsetsWorld:
    """The offsets of one coordinator, with a clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        config = BrokerConfig({})
        ids = count()
        self.groups = GroupCoordinator(config, self.clock, lambda: ClusterImage(""), lambda: str(next(ids)))
        self.offsets = Offsets(config, self.clock, self.groups)

    def group(
        self, state: ClassicGroupState = ClassicGroupState.STABLE, kind: str | None = "consumer", topics: str = "t"
    ) -> ClassicGroup:
        group = ClassicGroup(
            "g", ClassicGroupState.EMPTY if state is ClassicGroupState.EMPTY else state, 3, kind, "range"
        )
        if state is not ClassicGroupState.EMPTY:
            subscription = encode_versioned(ConsumerProtocolSubscription(topics=topics.split(",")), 0)
            group.add(ClassicMember("m", None, "c", "/h", 10, 60, {"range": subscription}, b"", deadline=10))
        self.groups.by_id["g"] = group
        return group

    def commit(self, tp: TopicPartition = TP, **more: Any) -> None:
        self.offsets.replay("g", tp, CommittedOffset(5, -1, "", self.clock.now_ms(), **more))

    def expired(self) -> list[Any]:
        result = self.offsets.expire(self.groups.by_id["g"])
        return [records.read_key(record.key) for record in result.records]

    def after(self, days: float) -> list[Any]:
        self.clock.advance(days * DAY_MS)
        return self.expired()


@pytest.mark.parametrize(
    ("state", "committer", "error"),
    [
        (ClassicGroupState.EMPTY, NON_MEMBER, None),
        (ClassicGroupState.EMPTY, Committer("outsider", None, -1), None),
        (ClassicGroupState.STABLE, NON_MEMBER, UnknownMemberIdError),
        (ClassicGroupState.STABLE, Committer("m", None, 3), None),
        (ClassicGroupState.STABLE, Committer("m", None, 2), IllegalGenerationError),
        (ClassicGroupState.STABLE, Committer("x", None, 3), UnknownMemberIdError),
        (ClassicGroupState.PREPARING, Committer("m", None, 3), None),
        (ClassicGroupState.COMPLETING, Committer("m", None, 3), RebalanceInProgressError),
        (ClassicGroupState.COMPLETING, Committer("m", None, 3, transactional=True), None),
        (ClassicGroupState.STABLE, Committer("", None, -1, transactional=True), None),
    ],
)
def test_commit_requires_a_member_of_the_current_generation(
    state: ClassicGroupState, committer: Committer, error: type[KafkaError] | None
) -> None:
    world = OffsetsWorld()
    world.group(state)
    if error is None:
        world.offsets.check_commit("g", committer, 8)
    else:
        with pytest.raises(error):
            world.offsets.check_commit("g", committer, 8)


def test_commit_renews_the_session() -> None:
    world = OffsetsWorld()
    group = world.group()
    world.clock.advance(4_000)
    world.offsets.check_commit("g", Committer("m", None, 3), 8)
    assert group.members["m"].deadline == 14


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGenerationError), (9, GroupIdNotFoundError)])
def test_commit_with_a_generation_for_an_unknown_group_is_rejected(version: int, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        OffsetsWorld().offsets.check_commit("g", Committer("m", None, 3), version)


def test_commit_for_an_unknown_group_creates_a_simple_group() -> None:
    world = OffsetsWorld()
    world.offsets.check_commit("g", NON_MEMBER, 8)
    world.commit()
    assert world.after(6.9) == []
    assert world.after(0.1) == [("g", TP), ("g", None)]


def test_offsets_expire_after_the_retention_since_the_group_became_empty() -> None:
    world = OffsetsWorld()
    group = world.group(ClassicGroupState.EMPTY)
    world.commit()
    world.clock.advance(3 * DAY_MS)
    group.empty_since_ms = world.clock.now_ms()
    assert world.after(6.9) == []
    assert world.after(0.1) == [("g", TP), ("g", None)]


def test_offsets_of_an_active_group_expire_for_unsubscribed_topics_only() -> None:
    world = OffsetsWorld()
    world.group(topics="t,u")
    world.commit()
    world.commit(TopicPartition("old", 0))
    assert world.after(8) == [("g", TopicPartition("old", 0))]


@pytest.mark.parametrize("state", [ClassicGroupState.PREPARING, ClassicGroupState.COMPLETING])
def test_offsets_during_a_rebalance_do_not_expire(state: ClassicGroupState) -> None:
    world = OffsetsWorld()
    world.group(state, topics="u")
    world.commit()
    assert world.after(30) == []


def test_offset_with_an_expiry_time_expires_at_that_time() -> None:
    world = OffsetsWorld()
    world.group(ClassicGroupState.EMPTY)
    world.commit(expire_ms=world.clock.now_ms() + DAY_MS)
    assert world.after(0.9) == []
    assert world.after(0.1) == [("g", TP), ("g", None)]


def test_offset_delete_rejects_subscribed_topics() -> None:
    world = OffsetsWorld()
    world.group(topics="t")
    other = TopicPartition("u", 0)
    deleted = dict(world.offsets.delete("g", [TP, other]))
    assert deleted[TP] is None
    assert deleted[other] == records.offset_record("g", other, None)


def test_offset_delete_of_another_protocol_type_requires_an_empty_group() -> None:
    world = OffsetsWorld()
    world.group(kind="connect")
    with pytest.raises(NonEmptyGroupError):
        world.offsets.delete("g", [TP])
    world.group(ClassicGroupState.EMPTY, kind="connect")
    assert dict(world.offsets.delete("g", [TP]))[TP] is not None
    with pytest.raises(GroupIdNotFoundError):
        world.offsets.delete("none", [TP])
