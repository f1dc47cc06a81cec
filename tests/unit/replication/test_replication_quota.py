"""The quota of replication traffic, and changes of its rate."""

from __future__ import annotations

import pytest

from ottla.replication.replication_quota import ReplicationQuota, is_throttled


def limited(rate: float) -> ReplicationQuota:
    quota = ReplicationQuota()
    quota.bytes_per_second = rate
    return quota


def test_quota_delays_after_traffic() -> None:
    quota = limited(100)
    assert not quota.is_exceeded(5.0)
    quota.record(1000, 5.0)
    assert quota.is_exceeded(14.9)
    assert not quota.is_exceeded(15.0)


@pytest.mark.parametrize(("rate", "seconds"), [(1000, 1.0), (50, 20.0), (float("inf"), 0.0)])
def test_changed_rate_applies_to_the_current_delay(rate: float, seconds: float) -> None:
    quota = limited(100)
    quota.record(2000, 0.0)
    quota.bytes_per_second = rate
    quota.is_exceeded(10.0)
    assert quota.available_at == 10.0 + seconds


def test_quota_set_later_ignores_earlier_traffic() -> None:
    quota = limited(float("inf"))
    quota.record(1_000_000, 1.0)
    quota.bytes_per_second = 1
    assert not quota.is_exceeded(1.0)


def test_throttled_replicas_are_partition_and_broker_or_all() -> None:
    assert is_throttled("0:1, 1:2", 1, 2)
    assert not is_throttled("0:1,1:2", 0, 2)
    assert is_throttled("*", 7, 7)
    assert not is_throttled("", 0, 0)
