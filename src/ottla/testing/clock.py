"""The clock of a test's broker, which the test advances."""

from __future__ import annotations

from datetime import timedelta

from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError


class BrokerClock:
    """Advances the clock of a broker and its timers, such as those of retention, session and transaction timeouts,
    quotas and long polls.

    It does not affect the clients' clocks, the limits for idle connections, or the sessions of a cluster's brokers in
    the metadata store. For the brokers of a cluster, an advance is like a pause of all of them.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def advance(self, seconds: float | timedelta) -> None:
        """Advance the clock by seconds or a timedelta. Return when the timers that are due have run.

        Raises ConfigurationError for a negative time or another type, or if the broker was created without a clock.
        """
        if not isinstance(seconds, int | float | timedelta):
            raise ConfigurationError(
                f"ottla_clock: advance({seconds!r}) is not allowed: expected seconds or a datetime.timedelta, such as "
                "timedelta(hours=1)"
            )
        value = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if value < 0:
            raise ConfigurationError(f"ottla_clock: advance({value:g}) is not allowed: a clock does not go back")
        self._broker.advance_clock(value)

    def now_ms(self) -> int:
        """Return the time of the broker in milliseconds since 1970."""
        return self._broker.now_ms()
