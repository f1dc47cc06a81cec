"""Exponential backoff with jitter, as in `org.apache.kafka.common.utils.ExponentialBackoff` (KIP-580)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

MULTIPLIER: Final = 2
"""The default factor by which delays grow, as in Kafka's `CommonClientConfigs.RETRY_BACKOFF_EXP_BASE`."""
JITTER: Final = 0.2
"""A jitter that keeps clients from retrying at the same time: `CommonClientConfigs.RETRY_BACKOFF_JITTER` in Kafka."""


STABLE_SECONDS: Final = 60.0
"""Time in seconds after which a process counts as stable: the delay before its next restart is the initial one."""


class ExponentialBackoff:
    """Delays that grow with the number of failed attempts, up to a maximum.

    Objects are immutable: the caller counts the attempts. `initial`, `maximum` and the delays have the same unit. If
    `initial` is more than `maximum`, the delay does not grow: it is `maximum`, apart from jitter, as KIP-580 specifies
    for `retry.backoff.ms`.
    """

    __slots__ = ("_initial", "_jitter", "_max_exponent", "_maximum", "_multiplier", "_uniform")

    def __init__(
        self,
        initial: float,
        maximum: float,
        *,
        multiplier: float = MULTIPLIER,
        jitter: float = 0.0,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Create delays. Each one is multiplied by a random factor from 1 - jitter to 1 + jitter, which `uniform`
        returns, but does not exceed `maximum`.
        """
        self._initial = min(initial, maximum)
        self._maximum = maximum
        self._multiplier = multiplier
        self._jitter = jitter
        self._uniform = uniform
        grows = maximum > initial > 0
        self._max_exponent = math.ceil(math.log(maximum / initial, multiplier)) if grows else 0

    def backoff(self, attempts: int) -> float:
        """Return the delay for a number of attempts: the initial delay for 0, a longer one for each further attempt, up
        to the maximum. To wait after a failure, pass the number of failures before it.
        """
        delay = min(self._initial * self._multiplier ** min(attempts, self._max_exponent), self._maximum)
        if self._jitter:
            delay = min(delay * self._uniform(1 - self._jitter, 1 + self._jitter), self._maximum)
        return delay


class RestartBackoff:
    """The delays before a process that has failed is started again. They grow up to a maximum, until the process
    has been stable.
    """

    def __init__(self, initial: float, maximum: float) -> None:
        self._backoff = ExponentialBackoff(initial, maximum)
        self._failures = 0

    def delay(self, ran_seconds: float) -> float:
        """Return the delay in seconds after a failure of a process that has run for this time."""
        if ran_seconds > STABLE_SECONDS:
            self._failures = 0
        delay = self._backoff.backoff(self._failures)
        self._failures += 1
        return delay
