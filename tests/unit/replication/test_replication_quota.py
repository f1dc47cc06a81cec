"""What replicas that are moved may take of the network, and how a rate that is changed counts."""

from __future__ import annotations

import pytest

from ottla.replication.replication_quota import ReplicationQuota, is_throttled


def limited(rate: float) -> ReplicationQuota:
    quota = ReplicationQuota()
    quota.bytes_per_second = rate
    return quota


def test_what_was_taken_is_waited_for() -> None:
    quota = limited(100)
    assert not quota.is_exceeded(5.0)
    quota.record(1000, 5.0)
    assert quota.is_exceeded(14.9)
    assert not quota.is_exceeded(15.0)


@pytest.mark.parametrize(("rate", "seconds"), [(1000, 1.0), (50, 20.0), (float("inf"), 0.0)])
def test_a_new_rate_counts_for_what_is_waited_for(rate: float, seconds: float) -> None:
    quota = limited(100)
    quota.record(2000, 0.0)
    quota.bytes_per_second = rate
    quota.is_exceeded(10.0)
    assert quota.available_at == 10.0 + seconds


def test_what_went_through_without_a_limit_is_not_waited_for_with_one() -> None:
    quota = limited(float("inf"))
    quota.record(1_000_000, 1.0)
    quota.bytes_per_second = 1
    assert not quota.is_exceeded(1.0)


def test_replicas_are_named_by_partition_and_broker_or_all() -> None:
    assert is_throttled("0:1, 1:2", 1, 2)
    assert not is_throttled("0:1,1:2", 0, 2)
    assert is_throttled("*", 7, 7)
    assert not is_throttled("", 0, 0)
