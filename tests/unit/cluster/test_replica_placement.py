"""Names and replica placement of topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from ottla.cluster.controller import replica_placement
from ottla.cluster.store import znodes
from ottla.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    TopicAlreadyExistsError,
)
from ottla.names import check_topic_name


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249])
def test_valid_topic_names_are_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ü", "x" * 250])
def test_invalid_topic_names_are_rejected(name: str) -> None:
    with pytest.raises(InvalidTopicError):
        check_topic_name(name)


def test_topic_names_that_differ_in_dot_and_underscore_collide() -> None:
    with pytest.raises(InvalidTopicError, match=r"'a_b' collides with existing topic 'a\.b'"):
        replica_placement.check_collision("a_b", ["a.b"])
    with pytest.raises(TopicAlreadyExistsError):
        replica_placement.check_collision("a", ["a"])
    replica_placement.check_collision("c", ["a.b"])


def test_name_without_dot_or_underscore_is_not_compared_with_all_topics() -> None:
    class Names(set[str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("all topics are read")

    replica_placement.check_collision("c", Names(["a.b"]))


def test_assign_replicas_is_even_and_without_duplicates() -> None:
    placed = replica_placement.assign_replicas(30, 3, dict.fromkeys(range(5)))
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {6}
    assert set(Counter(b for replicas in placed for b in replicas).values()) == {18}


def test_assign_replicas_spreads_over_racks_first() -> None:
    racks = {0: "a", 1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    placed = replica_placement.assign_replicas(36, 3, racks, first=1)
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {6}
    uneven = replica_placement.assign_replicas(6, 4, racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in uneven)


def test_invalid_counts_are_rejected() -> None:
    with pytest.raises(InvalidReplicationFactorError, match="available brokers, 1"):
        replica_placement.assign_replicas(1, 2, {0: None})
    with pytest.raises(InvalidPartitionsError):
        replica_placement.assign_replicas(0, 1, {0: None})


@pytest.mark.parametrize("wrong", [{1: [0]}, {0: []}, {0: [0, 0]}, {0: [7]}, {0: [0], 1: [0, 1]}])
def test_invalid_assignments_are_rejected(wrong: dict[int, list[int]]) -> None:
    with pytest.raises(InvalidReplicaAssignmentError):
        replica_placement.validate_assignment(wrong, [0, 1])


def test_znodes_have_kafkas_paths_and_json() -> None:
    state = znodes.state_value(1, 2, 0, [2, 1])
    assert state == b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'
    assert znodes.partition_state("t", 3) == "/brokers/topics/t/partitions/3/state"
    uuid = znodes.uuid_of("MkU3OEVBNTcwNTJENDM2Qg")
    assert znodes.uuid_text(uuid) == "MkU3OEVBNTcwNTJENDM2Qg"


def test_assignment_with_too_many_partitions_is_rejected() -> None:
    with pytest.raises(InvalidPartitionsError):
        replica_placement.validate_assignment(
            {index: [0] for index in range(replica_placement.MAX_PARTITIONS + 1)}, [0]
        )
    with pytest.raises(InvalidPartitionsError):
        replica_placement.validate_assignment(
            {replica_placement.MAX_PARTITIONS: [0]}, [0], first=replica_placement.MAX_PARTITIONS
        )
