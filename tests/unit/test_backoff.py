"""Exponential backoff, compared with `ExponentialBackoffTest` of Apache Kafka."""

from __future__ import annotations

import pytest

from ottla.backoff import JITTER, STABLE_SECONDS, ExponentialBackoff, RestartBackoff


def test_backoff_without_jitter_doubles_up_to_the_maximum() -> None:
    backoff = ExponentialBackoff(0.1, 1.0)
    assert [backoff.backoff(attempts) for attempts in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_backoff_after_very_many_attempts_stays_at_the_maximum() -> None:
    assert ExponentialBackoff(0.1, 1.0).backoff(10**9) == pytest.approx(1.0)


def test_backoff_with_another_multiplier_grows_by_it() -> None:
    backoff = ExponentialBackoff(1, 100, multiplier=10)
    assert [backoff.backoff(attempts) for attempts in range(4)] == pytest.approx([1, 10, 100, 100])


def test_backoff_with_jitter_never_exceeds_the_maximum() -> None:
    low = ExponentialBackoff(0.1, 1.0, jitter=JITTER, uniform=min)
    high = ExponentialBackoff(0.1, 1.0, jitter=JITTER, uniform=max)
    assert [low.backoff(attempts) for attempts in (0, 1, 9)] == pytest.approx([0.08, 0.16, 0.8])
    assert [high.backoff(attempts) for attempts in (0, 1, 9)] == pytest.approx([0.12, 0.24, 1.0])


def test_backoff_with_jitter_draws_between_its_bounds() -> None:
    backoff = ExponentialBackoff(0.1, 1.0, jitter=JITTER)
    assert all(0.08 <= backoff.backoff(0) <= 0.12 for _ in range(100))


@pytest.mark.parametrize("attempts", [0, 1, 100])
def test_backoff_with_an_initial_delay_above_the_maximum_is_constant(attempts: int) -> None:
    assert ExponentialBackoff(5.0, 1.0).backoff(attempts) == 1.0


def test_backoff_with_an_initial_delay_of_zero_is_zero() -> None:
    assert ExponentialBackoff(0, 1.0).backoff(20) == 0


def test_restart_backoff_grows_until_the_process_was_stable() -> None:
    backoff = RestartBackoff(1.0, 5.0)
    assert [backoff.delay(ran) for ran in (0.0, STABLE_SECONDS, 1.0, 0.0)] == [1.0, 2.0, 4.0, 5.0]
    assert [backoff.delay(ran) for ran in (STABLE_SECONDS + 1, 0.0)] == [1.0, 2.0]
