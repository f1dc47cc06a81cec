"""Leader election: one row for each case of each rule."""

from __future__ import annotations

import pytest

from ottla.cluster.controller import leader_election, reassignment_rules
from ottla.cluster.controller.leader_election import Candidates, Reason
from ottla.cluster.image.cluster_image import BrokerImage, PartitionImage
from ottla.config.broker.listener_config import Endpoint


def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
    return PartitionImage(leader, 4, replicas, isr)


@pytest.mark.parametrize(
    ("reason", "leader", "replicas", "isr", "alive", "leaving", "expected"),
    [
        (Reason.BROKERS, 1, (1, 2, 3), (1, 2, 3), {1, 2, 3}, (), None),
        (Reason.BROKERS, 1, (1, 2, 3), (1, 2, 3), {2, 3}, (), (2, (2, 3))),
        (Reason.BROKERS, 1, (1, 2, 3), (3, 1), {2, 3}, (), (3, (3,))),
        (Reason.BROKERS, 1, (1, 2, 3), (1, 2, 3), {1, 3}, (), (1, (1, 3))),
        (Reason.BROKERS, 1, (1, 2, 3), (1,), {2, 3}, (), (-1, (1,))),
        (Reason.BROKERS, -1, (1, 2, 3), (1,), {2, 3}, (), None),
        (Reason.BROKERS, -1, (1, 2, 3), (2, 1), {1, 3}, (), (1, (1,))),
        (Reason.UNCLEAN, 1, (1, 2, 3), (1,), {2, 3}, (), (2, (2,))),
        (Reason.UNCLEAN, 1, (1, 2, 3), (1, 3), {2, 3}, (), (3, (3,))),
        (Reason.UNCLEAN, 1, (1, 2, 3), (1,), set(), (), (-1, (1,))),
        (Reason.PREFERRED, 2, (1, 2, 3), (2, 1), {1, 2, 3}, (), (1, (2, 1))),
        (Reason.PREFERRED, 2, (1, 2, 3), (2, 3), {1, 2, 3}, (), None),
        (Reason.PREFERRED, 1, (1, 2, 3), (1, 2), {1, 2, 3}, (), None),
        (Reason.SHUTDOWN, 1, (1, 2, 3), (1, 2, 3), {1, 2, 3}, {1}, (2, (2, 3))),
        (Reason.SHUTDOWN, 2, (1, 2, 3), (1, 2, 3), {1, 2, 3}, {1}, (2, (2, 3))),
        (Reason.SHUTDOWN, 1, (1, 2), (1,), {1, 2}, {1}, None),
        (Reason.SHUTDOWN, 1, (1,), (1,), {1}, {1}, None),
        (Reason.SHUTDOWN, 1, (1, 2, 3), (1, 2, 3), {1, 2, 3}, {1, 2}, (3, (3,))),
    ],
)
def test_election_rules_choose_in_sync_replicas(
    reason: Reason,
    leader: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    alive: set[int],
    leaving: tuple[int, ...],
    expected: tuple[int, tuple[int, ...]] | None,
) -> None:
    p = partition(leader, replicas, isr)
    after = leader_election.DECISIONS[reason](p, Candidates(alive, leaving))
    if expected is None:
        assert after is None
    else:
        assert after is not None
        assert (after.leader, after.isr) == expected
        assert after.leader_epoch == p.leader_epoch + 1


@pytest.mark.parametrize(
    ("registered", "isr", "expected"),
    [
        ({1: 5, 2: 5, 3: 5}, (1, 2, 3), None),
        ({1: 20, 2: 5, 3: 5}, (1, 2, 3), (2, 5, (2, 3))),  # the leader has restarted since the state was written
        ({1: 5, 2: 20, 3: 5}, (1, 2, 3), (1, 5, (1, 3))),
        ({1: 20, 2: 5, 3: 5}, (1,), (1, 5, (1,))),  # no other replica is in sync
        ({1: 20, 3: 5}, (1, 2), (1, 5, (1,))),
        ({1: 20, 2: 21, 3: 22}, (1, 2, 3), (1, 5, (1, 2, 3))),  # the whole cluster has restarted
        ({2: 20, 3: 5}, (1, 2), (2, 5, (2,))),
    ],
)
def test_new_controller_treats_brokers_that_have_restarted_unnoticed_as_dead(
    registered: dict[int, int], isr: tuple[int, ...], expected: tuple[int, int, tuple[int, ...]] | None
) -> None:
    endpoints = (Endpoint("PLAINTEXT", "h", 1),)
    brokers = {number: BrokerImage(number, endpoints, epoch=epoch) for number, epoch in registered.items()}
    state = PartitionImage(1, 4, (1, 2, 3), isr, modified=10)
    after = leader_election.on_new_term(state, Candidates(brokers, (), brokers))
    assert (None if after is None else (after.leader, after.leader_epoch, after.isr)) == expected
    unknown = PartitionImage(1, 4, (1, 2, 3), isr)
    assert leader_election.on_new_term(unknown, Candidates(brokers, (), brokers)) == leader_election.on_broker_change(
        unknown, Candidates(brokers)
    )


def test_election_reasons_have_rules() -> None:
    assert leader_election.DECISIONS.keys() == set(Reason)


def test_reassignment_can_be_redirected_and_cancelled() -> None:
    p = partition(1, (1, 2), (1, 2))
    candidates = Candidates({1, 2, 3, 4})
    moving = reassignment_rules.start(p, (3, 2), candidates)
    assert moving is not None
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 2, 1), (3,), (1,))
    assert reassignment_rules.target_of(moving) == (3, 2)
    assert reassignment_rules.origin_of(moving) == (2, 1)
    elsewhere = reassignment_rules.start(moving, (4, 2), candidates)
    assert elsewhere is not None
    assert (elsewhere.replicas, elsewhere.adding, elsewhere.removing) == ((4, 2, 1), (4,), (1,))
    assert reassignment_rules.complete(moving, candidates) is None
    back = reassignment_rules.cancel(moving, candidates)
    assert back is not None
    assert (back.replicas, back.adding, back.removing, back.leader) == ((2, 1), (), (), 1)


def test_reassignment_completes_when_the_target_is_in_sync() -> None:
    moving = PartitionImage(1, 4, (3, 2, 1), (1, 2, 3), 0, (3,), (1,))
    done = reassignment_rules.complete(moving, Candidates({1, 2, 3}))
    assert done is not None
    assert (done.leader, done.replicas, done.isr, done.leader_epoch) == (3, (3, 2), (2, 3), 5)
    assert reassignment_rules.complete(moving, Candidates({1, 2, 3}, {2, 3})) is None


def test_reassignment_to_another_order_completes_at_once() -> None:
    p = partition(1, (1, 2), (1, 2))
    turned = reassignment_rules.start(p, (2, 1), Candidates({1, 2}))
    assert turned is not None
    assert not reassignment_rules.is_reassigning(turned)
    assert turned.replicas == (2, 1)
