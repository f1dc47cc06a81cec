"""The checker of partition states accepts legal writes of controllers and reports illegal ones."""

from __future__ import annotations

import pytest

from ottla.cluster.store.znodes import CONTROLLER_EPOCH, partition_state, state_value
from ottla.simulation.checking.partition_states import PartitionStates

PATH = partition_state("orders", 0)


def violations_after(
    controller_epoch: int, leader: int, leader_epoch: int, isr: tuple[int, ...], *, unclean: bool = False
) -> list[str]:
    """Return the violations of a write after leader 1 of epoch 5 with the ISR 1, 2, written by controller epoch 3."""
    states = PartitionStates(lambda topic: unclean)
    states.on_write(CONTROLLER_EPOCH, b"3")
    states.on_write(PATH, state_value(3, 1, 5, (1, 2)))
    states.on_write(PATH, state_value(controller_epoch, leader, leader_epoch, isr))
    return states.violations


def test_elections_from_the_isr_and_isr_changes_are_legal() -> None:
    assert violations_after(3, 2, 6, (2,)) == []
    assert violations_after(4, 1, 5, (1, 2, 3)) == []
    assert violations_after(3, -1, 6, (1,)) == []


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ((2, 1, 6, (1,)), "a controller of epoch 2 wrote after 3"),
        ((3, 1, 4, (1,)), "went back from 5 to 4"),
        ((3, 2, 5, (2,)), "replaced 1 in epoch 5"),
        ((3, 3, 6, (3,)), "was not in the ISR"),
        ((3, 2, 6, (1,)), "is not in its ISR"),
        ((3, 1, 6, ()), "the ISR is empty"),
    ],
)
def test_illegal_partition_states_are_reported(state: tuple[int, int, int, tuple[int, ...]], text: str) -> None:
    assert any(text in violation for violation in violations_after(*state))


def test_unclean_election_is_legal_if_the_topic_allows_it() -> None:
    assert violations_after(3, 3, 6, (3,), unclean=True) == []


def test_unclean_elections_are_listed_with_their_time() -> None:
    states = PartitionStates(lambda topic: True, lambda: 7.0)
    for leader in (1, 2, 3):
        states.on_write(PATH, state_value(3, leader, 4 + leader, (1, 2) if leader < 3 else (3,)))
    assert states.unclean_elections == [(7.0, "orders")]


def test_recreated_topic_may_start_with_leader_epoch_0() -> None:
    states = PartitionStates()
    states.on_write(PATH, state_value(3, 1, 5, (1, 2)))
    states.on_write(PATH, None)
    states.on_write(PATH, state_value(3, 2, 0, (2,)))
    assert states.violations == []
