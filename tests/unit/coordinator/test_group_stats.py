"""Counters of rebalances, by type and by group."""

from __future__ import annotations

from ottla.clock import ManualClock
from ottla.coordinator.group.classic import records
from ottla.coordinator.group.classic.classic_group import ClassicGroup, ClassicGroupState, ClassicMember
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.group_stats import WINDOW_SECONDS, WINDOWS, GroupStats


def test_new_generations_and_target_epochs_count_as_rebalances() -> None:
    clock = ManualClock()
    stats = GroupStats(clock.monotonic)
    group = ClassicGroup("g", ClassicGroupState.STABLE, 7, "consumer", "range")
    group.add(ClassicMember("m1", "i1", "c", "/1.2.3.4", 10, 60, {"range": b"sub"}, b"mine"))

    def append() -> None:
        stats.on_group_record("g", *records.group_record(group, 123))

    append()
    append()  # a static member has restarted
    group.generation += 1
    append()
    group.generation, group.protocol = group.generation + 1, None  # all members have left
    append()
    stats.on_group_record("h", *consumer_records.epoch_record("h", 1, 0))
    stats.on_group_record("h", *consumer_records.target_epoch_record("h", 1, 123))
    assert {name: stats.rebalances[name].count for name in stats.rebalances} == {
        "classic": 2,
        "consumer": 1,
        "share": 0,
        "streams": 0,
    }
    assert stats.by_group == {"g": 2, "h": 1}
    assert stats.rebalances_per_second("classic") == 2 / WINDOW_SECONDS
    clock.advance(1000 * WINDOWS * WINDOW_SECONDS)
    assert stats.rebalances_per_second("classic") == 0
    stats.on_group_record("g", *records.group_tombstone("g"))
    assert stats.by_group == {"h": 1}
    stats.remove("h")
    assert stats.by_group == stats._generations == {}


def test_generation_is_read_from_a_value_without_its_members() -> None:
    group = ClassicGroup("g", ClassicGroupState.EMPTY, 2**31 - 1, "", None)
    _, value = records.group_record(group, 123)
    assert value is not None
    assert records.read_generation(value) is None
    group.protocol = ""
    _, value = records.group_record(group, 123)
    assert value is not None
    assert records.read_generation(value) == 2**31 - 1
