import resource
from typing import Any

import pytest

from ottla.net.sampled_rate import SampledRate
from ottla.net.server.connection_quotas import ConnectionLimits, ConnectionQuotas


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def waiter() -> None:
    raise AssertionError("not expected to be called")


def test_connections_of_one_address_are_bounded_with_overrides() -> None:
    admission = ConnectionQuotas(ConnectionLimits(per_ip=2, per_ip_overrides={"10.0.0.9": 1}))
    assert [admission.enter("A", "10.0.0.1") for _ in range(3)] == [None, None, "max.connections.per.ip"]
    assert [admission.enter("A", "10.0.0.9") for _ in range(2)] == [None, "max.connections.per.ip"]
    admission.left("A", "10.0.0.1")
    assert admission.enter("A", "10.0.0.1") is None


def test_a_listener_of_its_own_limit_waits_alone() -> None:
    admission = ConnectionQuotas(ConnectionLimits(per_listener={"A": 1}))
    called = []
    admission.enter("A", "x")
    assert admission.wait_seconds("A", lambda: called.append("A")) is None
    assert admission.wait_seconds("B", waiter) == 0
    admission.left("A", "x")
    assert called == ["A"]


def test_connections_that_come_too_fast_wait_until_the_rate_is_kept() -> None:
    clock = Clock()
    admission = ConnectionQuotas(ConnectionLimits(rate=10), clock)
    entered = 0
    for _ in range(3000):
        wait = admission.wait_seconds("A", waiter)
        assert wait is not None
        if wait:
            clock.now += wait
        else:
            admission.enter("A", "x")
            entered += 1
    took = clock.now - 100.0
    assert entered / took == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(("rates", "allowed"), [({"x": 1.0}, 11), ({None: 1.0}, 11), ({"y": 1.0}, 50), ({}, 50)])
def test_the_rate_of_one_address_is_bounded(rates: Any, allowed: int) -> None:
    admission = ConnectionQuotas(ConnectionLimits(rate_per_ip=rates), Clock())
    outcomes = [admission.enter("A", "x") for _ in range(50)]
    assert outcomes.count(None) == allowed


def test_a_rate_forgets_what_is_older_than_its_windows() -> None:
    rate = SampledRate(11)
    rate.add(110, now=0.0)
    assert rate.per_second(0.5) == 11
    assert rate.per_second(10.9) == pytest.approx(110 / 10.9)
    assert rate.per_second(11.1) == 0


def test_waiting_the_throttle_time_restores_the_rate() -> None:
    rate = SampledRate(11)
    for second in range(10):
        rate.add(200, now=float(second))
    wait = rate.wait_seconds(100, now=9.5)
    assert wait == pytest.approx(10.0)
    assert rate.per_second(9.5 + wait) <= 100
    assert rate.wait_seconds(1000, now=9.5) == 0


def test_brokers_come_in_when_clients_have_used_up_the_connections_and_a_client_goes() -> None:
    admission, removed = ConnectionQuotas(ConnectionLimits(connections=2)), 0

    def remove() -> None:
        nonlocal removed
        removed += 1
        admission.left("CLIENTS", "x")

    admission.protect("BROKERS", remove)
    for _ in range(2):
        assert admission.enter("CLIENTS", "x") is None
    assert admission.wait_seconds("CLIENTS", lambda: None) is None
    assert admission.wait_seconds("BROKERS", waiter) == 0
    assert admission.enter("BROKERS", "y") is None
    assert removed == 1
    assert admission.count == 2


def test_rate_of_clients_does_not_keep_brokers_waiting() -> None:
    clock = Clock()
    admission = ConnectionQuotas(ConnectionLimits(rate=1), clock)
    admission.protect("BROKERS", waiter)
    for _ in range(50):
        admission.enter("CLIENTS", "x")
    seconds = admission.wait_seconds("CLIENTS", waiter)
    assert seconds is not None
    assert seconds > 0
    assert admission.wait_seconds("BROKERS", waiter) == 0


def test_descriptors_are_left_to_logs_and_some_of_them_to_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    admission = ConnectionQuotas()
    admission.protect("BROKERS", waiter)
    assert [admission.has_descriptors("CLIENTS", number) for number in (749, 750)] == [True, False]
    assert [admission.has_descriptors("BROKERS", number) for number in (874, 875)] == [True, False]
