import resource
from typing import Any

import pytest

from ottla.net.sampled_rate import SampledRate
from ottla.net.server.connection_quotas import ConnectionLimits, ConnectionQuotas


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def unexpected_call() -> None:
    raise AssertionError("not expected to be called")


def test_connections_per_ip_are_limited_with_overrides() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(per_ip=2, per_ip_overrides={"10.0.0.9": 1}))
    assert [quotas.enter("A", "10.0.0.1") for _ in range(3)] == [None, None, "max.connections.per.ip=2"]
    assert [quotas.enter("A", "10.0.0.9") for _ in range(2)] == [None, "max.connections.per.ip.overrides=10.0.0.9:1"]
    quotas.left("A", "10.0.0.1")
    assert quotas.enter("A", "10.0.0.1") is None


def test_listener_at_its_own_limit_does_not_block_others() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(per_listener={"A": 1}))
    called = []
    quotas.enter("A", "x")
    assert quotas.wait_seconds("A", lambda: called.append("A")) is None
    assert quotas.wait_seconds("B", unexpected_call) == 0
    quotas.left("A", "x")
    assert called == ["A"]


def test_connection_creation_rate_is_limited() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(ConnectionLimits(rate=10), clock)
    entered = 0
    for _ in range(3000):
        wait = quotas.wait_seconds("A", unexpected_call)
        assert wait is not None
        if wait:
            clock.now += wait
        else:
            quotas.enter("A", "x")
            entered += 1
    took = clock.now - 100.0
    assert entered / took == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(("rates", "allowed"), [({"x": 1.0}, 11), ({None: 1.0}, 11), ({"y": 1.0}, 50), ({}, 50)])
def test_connection_creation_rate_per_ip_is_limited(rates: Any, allowed: int) -> None:
    quotas = ConnectionQuotas(ConnectionLimits(rate_per_ip=rates), Clock())
    outcomes = [quotas.enter("A", "x") for _ in range(50)]
    assert outcomes.count(None) == allowed


def test_sampled_rate_drops_expired_windows() -> None:
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


def test_broker_connection_at_max_connections_replaces_a_client() -> None:
    quotas, removed = ConnectionQuotas(ConnectionLimits(connections=2)), 0

    def remove() -> None:
        nonlocal removed
        removed += 1
        quotas.left("CLIENTS", "x")

    quotas.protect("BROKERS", remove)
    for _ in range(2):
        assert quotas.enter("CLIENTS", "x") is None
    assert quotas.wait_seconds("CLIENTS", lambda: None) is None
    assert quotas.wait_seconds("BROKERS", unexpected_call) == 0
    assert quotas.enter("BROKERS", "y") is None
    assert removed == 1
    assert quotas.count == 2


def test_connection_rate_limit_does_not_delay_brokers() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(ConnectionLimits(rate=1), clock)
    quotas.protect("BROKERS", unexpected_call)
    for _ in range(50):
        quotas.enter("CLIENTS", "x")
    seconds = quotas.wait_seconds("CLIENTS", unexpected_call)
    assert seconds is not None
    assert seconds > 0
    assert quotas.wait_seconds("BROKERS", unexpected_call) == 0


def test_lowered_connection_rate_delays_a_connection_only_until_the_rate_is_met() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(clock=clock)
    for _ in range(1000):
        quotas.enter("A", "x")
    quotas.update_limits(ConnectionLimits(rate=1, rate_per_listener={"A": 1}))
    waited = 0.0
    while wait := quotas.wait_seconds("A", unexpected_call):
        waited += wait
        clock.now += wait
    assert waited == pytest.approx(11)  # the windows of the earlier connections, not a thousand seconds


def test_file_descriptors_are_reserved_for_logs_and_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    quotas = ConnectionQuotas()
    quotas.protect("BROKERS", unexpected_call)
    assert [quotas.has_descriptors("CLIENTS", number) for number in (749, 750)] == [True, False]
    assert [quotas.has_descriptors("BROKERS", number) for number in (874, 875)] == [True, False]
