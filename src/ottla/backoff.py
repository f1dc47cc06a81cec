"""Exponential backoff with jitter: `org.apache.kafka.common.utils.ExponentialBackoff` (KIP-580)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

MULTIPLIER: Final = 2
"""`CommonClientConfigs.RETRY_BACKOFF_EXP_BASE`."""
JITTER: Final = 0.2
"""`CommonClientConfigs.RETRY_BACKOFF_JITTER`: what clients use, so that they do not retry all at once."""


class ExponentialBackoff:
    """Delays that grow with the number of failed attempts, up to a maximum.

    Immutable: callers count their attempts. `initial`, `maximum` and the delays have one unit, in Ottla seconds.
    An `initial` above `maximum` makes `maximum` a constant delay, as KIP-580 specifies for `retry.backoff.ms`.
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
        """Multiply each delay by `uniform(1 - jitter, 1 + jitter)`; with a jitter of 0 the delays are exact."""
        self._initial = min(initial, maximum)
        self._maximum = maximum
        self._multiplier = multiplier
        self._jitter = jitter
        self._uniform = uniform
        grows = maximum > initial > 0
        self._max_exponent = math.ceil(math.log(maximum / initial, multiplier)) if grows else 0

    def backoff(self, attempts: int) -> float:
        """Return the delay before the next attempt; `attempts` is 0 after the first failure."""
        delay = min(self._initial * self._multiplier ** min(attempts, self._max_exponent), self._maximum)
        if self._jitter:
            delay = min(delay * self._uniform(1 - self._jitter, 1 + self._jitter), self._maximum)
        return delay
