"""The leader's view of its followers: which are in sync, and where the high watermark is."""

from __future__ import annotations

import pytest

from ottla.cluster.image.cluster_image import PartitionImage
from ottla.errors import NotLeaderOrFollowerError
from ottla.replication.isr_state import LeaderState

IMAGE = PartitionImage(leader=0, leader_epoch=3, replicas=(0, 1, 2), isr=(0, 1), state_version=5)


def leader_state(image: PartitionImage = IMAGE, end: int = 10) -> LeaderState:
    return LeaderState(image, end, now=0.0, lag_seconds=30.0)


def fetched(leadership: LeaderState, replica: int, offset: int, *, end: int, now: float, epoch: int = 1) -> None:
    leadership.replicas[replica].fetched(offset, 0, epoch, end, now)


def test_high_watermark_is_the_lowest_end_of_the_isr() -> None:
    leadership = leader_state()
    assert leadership.high_watermark(10, 1, 0.0) == -1, "the follower has not fetched yet"
    fetched(leadership, 1, 8, end=10, now=1.0)
    fetched(leadership, 2, 3, end=10, now=1.0)
    assert leadership.high_watermark(10, 1, 1.0) == 8


def test_high_watermark_waits_for_a_joining_replica() -> None:
    leadership = leader_state()
    fetched(leadership, 1, 10, end=10, now=1.0)
    fetched(leadership, 2, 10, end=10, now=1.0)
    assert leadership.high_watermark(12, 1, 1.0) == 10
    leadership.set_pending((0, 1, 2))
    fetched(leadership, 1, 12, end=12, now=100.0)
    assert leadership.high_watermark(12, 1, 100.0) == 10, "the proposal may hold, though the replica is slow again"
    leadership.clear_pending()
    assert leadership.high_watermark(12, 1, 100.0) == 12


def test_high_watermark_does_not_wait_for_removed_brokers() -> None:
    leadership = leader_state()
    fetched(leadership, 2, 10, end=10, now=1.0)
    fetched(leadership, 1, 12, end=12, now=2.0)
    assert leadership.high_watermark(12, 1, 2.0) == 10, "it may join at any moment"
    leadership.on_brokers_removed([2])
    assert leadership.high_watermark(12, 1, 2.0) == 12
    fetched(leadership, 2, 12, end=12, now=3.0)
    assert leadership.high_watermark(13, 1, 3.0) == 12, "the broker fetches again"


def test_removed_broker_does_not_join_the_isr_before_it_fetches() -> None:
    leadership = leader_state()
    fetched(leadership, 2, 10, end=10, now=1.0)
    assert leadership.expanded_isr(leadership.replicas[2], 10) == (0, 1, 2)
    leadership.on_brokers_removed([2])
    assert leadership.expanded_isr(leadership.replicas[2], 10) is None
    fetched(leadership, 2, 10, end=10, now=2.0)
    assert leadership.expanded_isr(leadership.replicas[2], 10) == (0, 1, 2)


def test_high_watermark_below_min_insync_replicas_does_not_move() -> None:
    leadership = leader_state(PartitionImage(0, 3, (0, 1, 2), (0,), 6))
    assert leadership.high_watermark(10, 2, 0.0) == -1
    assert leadership.high_watermark(10, 1, 0.0) == 10


def test_required_replicas_are_at_most_the_replicas() -> None:
    assert leader_state(PartitionImage(0, 3, (0, 1), (0, 1))).required(3) == 2


@pytest.mark.parametrize(
    ("min_isr", "isr", "followed"),
    [
        (1, (0, 1, 2), 5.0),  # either follower could lead, and commit alone
        (2, (0, 1, 2), 8.0),  # a follower that has not fetched since cannot commit without the other one
        (3, (0, 1, 2), 8.0),  # at least one follower: appended records that are not committed may matter
        (1, (0, 1), 5.0),
        (2, (0, 1), 5.0),
        (1, (0,), float("inf")),
    ],
)
def test_followed_at_is_the_time_until_which_no_other_leader_can_have_committed(
    min_isr: int, isr: tuple[int, ...], followed: float
) -> None:
    leadership = leader_state(PartitionImage(leader=0, leader_epoch=3, replicas=(0, 1, 2), isr=isr, state_version=5))
    leadership.replicas[1].followed_at, leadership.replicas[2].followed_at = 5.0, 8.0
    assert leadership.followed_at(min_isr) == followed
    if isr == (0, 1):
        leadership.replicas[2].followed_at = 3.0
        leadership.set_pending((0, 1, 2))
        assert leadership.followed_at(1) == 3.0, "a replica that the controller may have added counts"


def test_lagging_replica_is_removed_from_the_isr() -> None:
    leadership = leader_state()
    fetched(leadership, 1, 9, end=10, now=5.0)
    assert leadership.shrunk_isr(10, 29.0) is None, "it was in sync when the epoch began"
    assert leadership.shrunk_isr(10, 31.0) == (0,)
    fetched(leadership, 1, 10, end=12, now=31.0)
    assert leadership.shrunk_isr(12, 32.0) is None, "it has all that there was at its last fetch"


def test_isr_update_is_sent_one_at_a_time() -> None:
    leadership = leader_state()
    leadership.set_pending((0,))
    assert leadership.shrunk_isr(10, 99.0) is None
    assert leadership.maximal_isr == {0, 1}


def test_follower_at_the_high_watermark_and_epoch_start_joins_the_isr() -> None:
    leadership = leader_state()
    replica = leadership.replicas[2]
    fetched(leadership, 2, 9, end=10, now=1.0)
    assert leadership.expanded_isr(replica, 8) is None, "the epoch begins at 10"
    fetched(leadership, 2, 10, end=11, now=1.0)
    assert leadership.expanded_isr(replica, 11) is None
    assert leadership.expanded_isr(replica, 10) == (0, 1, 2)


def test_fetch_of_an_earlier_registration_is_rejected() -> None:
    leadership = leader_state()
    fetched(leadership, 1, 5, end=10, now=1.0, epoch=7)
    with pytest.raises(NotLeaderOrFollowerError):
        fetched(leadership, 1, 10, end=10, now=1.0, epoch=6)
    assert leadership.replicas[1].log_end == 5
