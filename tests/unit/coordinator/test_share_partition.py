"""Records of a share partition: acquisition, acknowledgement, delivery limit, lock timeout and restore."""

from __future__ import annotations

from random import Random

import pytest

from ottla.coordinator.runtime.deadline_queue import NEVER
from ottla.coordinator.share_partition.share_partition import (
    AcknowledgedRange,
    RecordRange,
    RecordState,
    ShareLimits,
    SharePartition,
)
from ottla.coordinator.share_partition.share_state_records import merge_runs
from ottla.errors import InvalidRecordStateError, InvalidRequestError

LIMITS = ShareLimits(max_records=10, max_deliveries=3, lock_seconds=30.0)
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


def new_share_partition(at: int = 0, limits: ShareLimits = LIMITS) -> SharePartition:
    return SharePartition(at, at, limits)


def ranges(runs: list[RecordRange]) -> list[tuple[int, int, int]]:
    return [(run.first, run.last, run.delivered) for run in runs]


def acknowledge(shared: SharePartition, member: str, acknowledged: list[AcknowledgedRange], now: float) -> list[int]:
    """Apply acknowledgements, and write the states."""
    changed = shared.acknowledge(member, acknowledged, now)
    shared.begin_write()
    shared.end_write(is_stored=True)
    return changed


def test_acquire_returns_available_records() -> None:
    shared = new_share_partition(5)
    assert ranges(shared.acquire("a", 5, 8, 3, 0)) == [(5, 7, 1)]
    assert shared.next_offset == 8
    assert ranges(shared.acquire("b", 5, 8, 9, 0)) == [(8, 8, 1)]
    assert shared.acquire("a", 5, 8, 9, 0) == []


def test_start_offset_advances_past_acknowledged_records() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 4, 9, 0)
    acknowledge(shared, "a", [AcknowledgedRange(1, 2, [ACCEPT])], 0)
    assert shared.start == 0
    acknowledge(shared, "a", [AcknowledgedRange(0, 0, [REJECT])], 0)
    assert (shared.start, sorted(shared.slots)) == (3, [3, 4])


def test_archive_leaves_records_that_are_acquired() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 1, 9, 0)
    assert shared.archive(1, 3) == [2, 3]
    assert (shared.start, shared.next_offset, shared.done) == (0, 4, 2)
    acknowledge(shared, "a", [AcknowledgedRange(0, 1, [ACCEPT])], 0)
    assert (shared.start, shared.slots) == (4, {})


def test_archive_ends_at_the_limit_of_records_in_flight() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 7, 9, 0)
    assert shared.archive(8, 20) == [8, 9]


def test_released_records_are_redelivered_up_to_the_delivery_limit() -> None:
    shared = new_share_partition()
    for delivery in (1, 2, 3):
        assert ranges(shared.acquire("a", 0, 0, 9, 0)) == [(0, 0, delivery)]
        acknowledge(shared, "a", [AcknowledgedRange(0, 0, [RELEASE])], 0)
    assert (shared.start, shared.slots) == (1, {})


def test_acknowledgement_types_may_differ_per_record() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 3, 9, 0)
    acknowledge(shared, "a", [AcknowledgedRange(0, 3, [ACCEPT, RELEASE, REJECT, 0])], 0)
    assert (shared.start, {o: s.state for o, s in shared.slots.items()}) == (
        1,
        {1: RecordState.AVAILABLE, 2: RecordState.ARCHIVED, 3: RecordState.ARCHIVED},
    )


@pytest.mark.parametrize(
    ("ranges", "error"),
    [
        (AcknowledgedRange(0, 9, [ACCEPT]), InvalidRequestError),
        (AcknowledgedRange(2, 1, [ACCEPT]), InvalidRequestError),
        (AcknowledgedRange(0, 2, [ACCEPT, ACCEPT]), InvalidRequestError),
        (AcknowledgedRange(0, 0, [9]), InvalidRequestError),
        (AcknowledgedRange(3, 3, [ACCEPT]), InvalidRecordStateError),
        (AcknowledgedRange(2, 2, [ACCEPT]), InvalidRecordStateError),
    ],
)
def test_invalid_acknowledgement_changes_nothing(ranges: AcknowledgedRange, error: type[Exception]) -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 2, 9, 0)
    shared.acquire("b", 3, 3, 9, 0)
    acknowledge(shared, "a", [AcknowledgedRange(2, 2, [RELEASE])], 0)
    with pytest.raises(error):
        acknowledge(shared, "a", [AcknowledgedRange(1, 1, [ACCEPT]), ranges], 0)
    assert shared.slots[1].state is RecordState.ACQUIRED


def test_record_that_another_member_has_accepted_cannot_be_acknowledged() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 2, 9, 0)
    shared.expire(30)
    shared.acquire("b", 0, 2, 9, 30)
    acknowledge(shared, "b", [AcknowledgedRange(0, 1, [ACCEPT])], 31)
    assert shared.start == 2
    for kind in (ACCEPT, RELEASE, REJECT, RENEW):
        with pytest.raises(InvalidRecordStateError):
            acknowledge(shared, "a", [AcknowledgedRange(0, 1, [kind])], 32)
    with pytest.raises(InvalidRecordStateError):
        acknowledge(shared, "b", [AcknowledgedRange(1, 2, [ACCEPT])], 32)
    assert shared.slots[2].state is RecordState.ACQUIRED


def test_record_that_was_accepted_under_another_leader_cannot_be_acknowledged() -> None:
    shared = new_share_partition()
    shared.restore(8, [])
    with pytest.raises(InvalidRecordStateError):
        acknowledge(shared, "a", [AcknowledgedRange(0, 2, [RELEASE, ACCEPT, ACCEPT])], 0)


def test_acquisition_lock_expires_unless_renewed() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 1, 9, 0)
    acknowledge(shared, "a", [AcknowledgedRange(1, 1, [RENEW])], 20)
    assert shared.next_expiry == 30
    assert shared.expire(30) == [0]
    assert shared.next_expiry == 50
    assert (shared.next_offset, shared.slots[1].state) == (0, RecordState.ACQUIRED)
    assert shared.expire(50) == [1]
    assert shared.next_expiry == NEVER


def test_waiters_are_called_when_records_are_available_again() -> None:
    shared = new_share_partition()
    wakes: list[int] = []
    shared.waiters[lambda: wakes.append(1)] = None
    shared.acquire("a", 0, 1, 9, 0)
    shared.release("b")
    assert wakes == []
    shared.release("a")
    assert wakes == [1]


def test_acquire_stops_at_the_limit_of_records_in_flight() -> None:
    shared = new_share_partition()
    assert ranges(shared.acquire("a", 0, 99, 99, 0)) == [(0, 9, 1)]
    assert shared.is_full
    assert shared.acquire("a", 10, 99, 99, 0) == []
    acknowledge(shared, "a", [AcknowledgedRange(0, 3, [ACCEPT])], 0)
    assert ranges(shared.acquire("a", 10, 99, 99, 0)) == [(10, 13, 1)]


def test_gaps_of_a_compacted_log_are_archived() -> None:
    shared = new_share_partition()
    assert ranges(shared.acquire("a", 50, 51, 9, 0)) == [(50, 51, 1)]
    assert ranges(shared.acquire("a", 55, 55, 9, 0)) == [(55, 55, 1)]
    acknowledge(shared, "a", [AcknowledgedRange(50, 51, [ACCEPT])], 0)
    assert shared.start == 55


def test_records_deleted_from_the_log_are_archived() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 3, 9, 0)
    shared.archive_before(2)
    assert sorted(shared.slots) == [2, 3]
    shared.archive_before(100)
    assert (shared.start, shared.end, shared.slots) == (100, 100, {})


def test_acquired_records_deleted_from_the_log_can_be_acknowledged_once() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 3, 9, 0)
    shared.archive_before(3)
    for stranger in ("b", ""):
        with pytest.raises(InvalidRecordStateError):
            acknowledge(shared, stranger, [AcknowledgedRange(0, 0, [ACCEPT])], 0)
    assert acknowledge(shared, "a", [AcknowledgedRange(2, 3, [ACCEPT, RELEASE])], 0) == [3]
    assert acknowledge(shared, "a", [AcknowledgedRange(1, 1, [ACCEPT])], 0) == []
    assert (shared.start, shared.slots[3].state) == (3, RecordState.AVAILABLE)
    with pytest.raises(InvalidRecordStateError):
        acknowledge(shared, "a", [AcknowledgedRange(1, 1, [ACCEPT])], 0)


def test_locks_of_records_deleted_from_the_log_end() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 0, 9, 0)
    shared.acquire("b", 1, 1, 9, 0)
    shared.acquire("c", 2, 2, 9, 0)
    shared.archive_before(10)
    acknowledge(shared, "c", [AcknowledgedRange(2, 2, [RENEW])], 20)
    assert shared.release("a") == []
    assert (sorted(shared.deleted), shared.next_expiry) == ([1, 2], 30)
    assert shared.expire(30) == []
    assert (sorted(shared.deleted), shared.next_expiry) == ([2], 50)


def test_acquired_records_deleted_from_the_log_are_limited() -> None:
    shared = new_share_partition()
    for start in (0, 6, 12):
        shared.acquire("a", start, start + 5, 9, 0)
        shared.archive_before(start + 6)
    assert sorted(shared.deleted) == list(range(8, 18))


def test_stored_ranges_are_restored_without_owners() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 6, 9, 0)
    acknowledge(
        shared,
        "a",
        [
            AcknowledgedRange(0, 0, [ACCEPT]),
            AcknowledgedRange(2, 3, [ACCEPT]),
            AcknowledgedRange(4, 4, [RELEASE]),
        ],
        0,
    )
    again = new_share_partition()
    again.restore(shared.start, merge_runs((), shared.stored_runs(), shared.start))
    assert (again.start, again.end) == (1, 5)
    assert {o: (s.state, s.delivered) for o, s in again.slots.items()} == {
        1: (RecordState.AVAILABLE, 0),
        2: (RecordState.ACKNOWLEDGED, 1),
        3: (RecordState.ACKNOWLEDGED, 1),
        4: (RecordState.AVAILABLE, 1),
    }


def states(shared: SharePartition) -> dict[int, str]:
    return {offset: slot.state.name for offset, slot in shared.slots.items()}


def test_acknowledgements_that_cannot_be_stored_are_undone() -> None:
    shared = new_share_partition()
    wakes: list[int] = []
    shared.acquire("a", 0, 9, 10, 0)
    shared.acknowledge("a", [AcknowledgedRange(0, 3, [ACCEPT, REJECT, RELEASE, ACCEPT])], 0)
    shared.waiters[lambda: wakes.append(1)] = None
    shared.begin_write()
    shared.acknowledge("a", [AcknowledgedRange(4, 4, [ACCEPT])], 0)
    assert (shared.start, shared.stored_start, shared.done) == (0, 2, 2)
    shared.end_write(is_stored=False)
    assert states(shared) == dict.fromkeys(range(10), "ACQUIRED") | {2: "AVAILABLE", 4: "ACKNOWLEDGED"}
    acknowledge(shared, "a", [AcknowledgedRange(0, 1, [ACCEPT])], 0)
    assert (shared.start, shared.done, len(wakes)) == (2, 1, 3)
    assert shared.expire(30) == [3, *range(5, 10)]
    assert ranges(shared.acquire("b", 0, 9, 9, 30)) == [(2, 3, 2), (5, 9, 2)]


def test_acknowledgements_of_records_deleted_from_the_log_are_not_undone() -> None:
    shared = new_share_partition()
    shared.acquire("a", 0, 4, 9, 0)
    shared.acknowledge("a", [AcknowledgedRange(0, 1, [ACCEPT])], 0)
    shared.begin_write()
    shared.acknowledge("a", [AcknowledgedRange(2, 3, [ACCEPT])], 0)
    shared.archive_before(3)
    shared.end_write(is_stored=False)
    assert (shared.start, states(shared)) == (3, {3: "ACKNOWLEDGED", 4: "ACQUIRED"})
    shared.archive_before(100)
    assert (shared.start, shared.end, shared.slots) == (100, 100, {})


@pytest.mark.parametrize("seed", range(60))
def test_record_has_one_owner_at_a_time_and_limited_deliveries(seed: int) -> None:
    r = Random(seed)
    shared, now = new_share_partition(), 0.0
    owners: dict[int, str] = {}
    deliveries = dict.fromkeys(range(60), 0)
    accepted: set[int] = set()
    for _ in range(400):
        member = r.choice("abc")
        mine = sorted(o for o, member_name in owners.items() if member_name == member)
        what = r.random()
        if what < 0.5:
            first = shared.next_offset
            for run in shared.acquire(member, first, min(59, first + r.randrange(6)), r.randrange(1, 8), now):
                for offset in range(run.first, run.last + 1):
                    assert offset not in owners
                    assert offset not in accepted
                    owners[offset] = member
                    deliveries[offset] += 1
                    assert run.delivered == deliveries[offset]
        elif what < 0.85 and mine:
            offset = r.choice(mine)
            kind = r.choice([ACCEPT, RELEASE, REJECT])
            shared.acknowledge(member, [AcknowledgedRange(offset, offset, [kind])], now)
            is_done, is_stored = shared.slots[offset].state is not RecordState.AVAILABLE, r.random() < 0.8
            shared.begin_write()
            shared.end_write(is_stored=is_stored)
            if is_stored or not is_done:
                del owners[offset]
                accepted |= {offset} if kind == ACCEPT else set()
        elif what < 0.92:
            now += 10
            for offset in shared.expire(now):
                del owners[offset]
        elif what < 0.96:
            for offset in shared.release(member):
                assert owners.pop(offset) == member
        else:
            again = new_share_partition()
            again.restore(shared.start, merge_runs((), shared.stored_runs(), shared.start))
            assert again.start == shared.start
            for offset in owners:
                deliveries[offset] -= 1
            shared, owners = again, {}
        assert {o for o, slot in shared.slots.items() if slot.state is RecordState.ACQUIRED} == owners.keys()
        assert len(shared.slots) <= LIMITS.max_records
        assert sorted(shared.slots) == list(range(shared.start, shared.end))
        assert max(deliveries.values()) <= LIMITS.max_deliveries
