"""Share groups: members, epochs, assignments and records."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.coordinator.consumer_world import CLIENT, World, error, topic_id

from ottla.coordinator.group.share.share_assignor import assign
from ottla.coordinator.group.share.share_group import ShareGroup, ShareGroupState
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


class ShareWorld(World):
    def share(self, member: str, epoch: int = 0, topics: str | None = "t") -> ShareGroupHeartbeatResponse:
        names = None if topics is None else topics.split(",")
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, subscribed_topic_names=names
        )
        token = object()
        self.apply(self.coordinator.share_heartbeat(request, CLIENT, token))
        response = self.responses[token]
        assert isinstance(response, ShareGroupHeartbeatResponse)
        return response

    @property
    def shared(self) -> ShareGroup:
        group = self.coordinator.by_id["g"]
        assert isinstance(group, ShareGroup)
        return group


def read(response: ShareGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    if response.assignment is None:
        return None
    return {t.topic_id.bytes.rstrip(b".").decode(): t.partitions for t in response.assignment.topic_partitions}


def test_share_members_are_assigned_at_once() -> None:
    world = ShareWorld({"t": 2})
    assert read(world.share("a")) == {"t": [0, 1]}
    assert read(world.share("b")) == {"t": [1]}
    response = world.share("a", 1, None)
    assert (response.member_epoch, read(response)) == (2, {"t": [0]})
    assert read(world.share("a", 1, None)) == {"t": [0]}  # the response was lost
    assert read(world.share("a", 2, None)) is None
    assert len(read(world.share("c")) or {}) == 1  # more members than partitions share them


def test_next_assignment_of_a_share_group_waits_for_the_assignment_interval() -> None:
    world = ShareWorld({"t": 2}, group_share_assignment_interval_ms=1000)
    assert read(world.share("a")) == {"t": [0, 1]}
    response = world.share("b")
    assert (response.member_epoch, read(response)) == (1, {})
    assert (world.shared.epoch, world.shared.target_epoch) == (2, 1)
    world.restart()
    world.pass_time(999)
    response = world.share("a", 1, None)
    assert (response.member_epoch, read(response)) == (1, None)
    world.pass_time(1)
    response = world.share("b", 1, None)
    assert (response.member_epoch, read(response)) == (2, {"t": [1]})
    assert read(world.share("a", 1, None)) == {"t": [0]}


def test_share_members_that_leave_or_time_out_are_removed() -> None:
    world = ShareWorld({"t": 2})
    world.share("a")
    world.share("b")
    world.share("a", 1, None)
    assert world.share("b", -1, None).member_epoch == -1
    assert read(world.share("a", 2, None)) == {"t": [0, 1]}
    world.pass_time(45_000)
    assert (world.shared.state_name, world.shared.members, world.shared.targets) == (ShareGroupState.EMPTY, {}, {})


def test_share_group_reads_new_partitions() -> None:
    world = ShareWorld({"t": 1})
    world.share("a")
    world.topics({"t": 3})
    assert read(world.share("a", 1, None)) == {"t": [0, 1, 2]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"member": ""}, "INVALID_REQUEST"),
        ({"topics": None}, "INVALID_REQUEST"),
        ({"epoch": -2}, "INVALID_REQUEST"),
        ({"epoch": 1}, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_invalid_request_is_rejected_with_its_error(changes: dict[str, Any], expected: str) -> None:
    assert error(ShareWorld().share(**{"member": "a", **changes})) == expected


def test_unknown_member_wrong_epoch_and_full_group_are_rejected() -> None:
    world = ShareWorld(group_share_max_size=1)
    world.share("a")
    assert error(world.share("b", 1)) == "UNKNOWN_MEMBER_ID"
    assert error(world.share("b")) == "GROUP_MAX_SIZE_REACHED"
    assert error(world.share("a", 7)) == "FENCED_MEMBER_EPOCH"


def test_request_for_a_group_of_another_type_is_rejected() -> None:
    world = ShareWorld()
    world.share("a")
    assert error(world.join("new")) == "GROUP_ID_NOT_FOUND"
    other = ShareWorld()
    other.join("new")
    assert error(other.share("a")) == "GROUP_ID_NOT_FOUND"


def test_restart_restores_the_group() -> None:
    world = ShareWorld({"t": 3})
    world.share("a")
    world.share("b")
    world.share("a", 1, None)
    before = world.shared
    world.restart()
    for attribute in ("epoch", "metadata_hash", "target_epoch", "members", "targets"):
        assert getattr(world.shared, attribute) == getattr(before, attribute), attribute
    assert world.shared.deadlines.keys() == {"a", "b"}


@pytest.mark.parametrize(("members", "partitions"), [(1, 5), (3, 5), (5, 3), (4, 4)])
def test_share_assignor_assigns_every_member_and_partition(members: int, partitions: int) -> None:
    topic = topic_id("t")
    shares = assign({f"m{i}": frozenset({topic}) for i in range(members)}, {topic: partitions})
    assert {p.partition for share in shares.values() for p in share} == set(range(partitions))
    sizes = [len(share) for share in shares.values()]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
