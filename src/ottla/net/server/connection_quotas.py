"""Limits of the number of open connections, in total and per IP address, and of new connections per second (KIP-402,
KIP-612).

All listeners of a broker share the counts. If the broker has too many connections, or they arrive too fast, further
ones wait in the kernel's backlog. A connection from an IP address that has too many, or opens them too fast, is
rejected at once. If clients have another listener, the inter-broker listener is protected: `max.connections` and the
broker's rate limit do not apply to it; if the broker is full, a client is disconnected. Connections of
clients do not use the last quarter of the file descriptors, and those of the protected listener not the last eighth,
because logs need them. Not thread-safe: event loop only.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.net.sampled_rate import SampledRate

CLIENT_RESERVE, PROTECTED_RESERVE = 4, 8
"""Divisors for the file descriptors that are reserved for logs: one fourth cannot be used by connections of clients,
one eighth not by those of the protected listener either.
"""
MAX_INT = 2**31 - 1
MAX_ADDRESSES = 10_000
"""Number of IP addresses with measured rates above which the idle ones are dropped."""
WINDOWS = 11
"""Number of windows of one second over which rates are measured, as Kafka's default of quota.window.num."""
MAX_WAIT_SECONDS = 1.0
"""Maximum time in seconds that a listener waits because of a rate limit before it asks again: a window, as in Kafka."""


class ConnectionLimits(NamedTuple):
    """The limits of connections. Rates are in new connections per second."""

    connections: int = MAX_INT
    per_listener: Mapping[str, int] = {}
    per_ip: int = MAX_INT
    per_ip_overrides: Mapping[str, int] = {}
    rate: float = MAX_INT
    rate_per_listener: Mapping[str, float] = {}
    rate_per_ip: Mapping[str | None, float] = {}
    """The rate limits by IP address. The key None is for addresses without a specific limit."""


UNLIMITED = ConnectionLimits()


class ConnectionQuotas:
    """Counts connections, and decides whether more are accepted. The limits may be updated at any time."""

    def __init__(self, limits: ConnectionLimits = UNLIMITED, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._by_listener: Counter[str] = Counter()
        self._by_ip: Counter[str] = Counter()
        self._rate = SampledRate(WINDOWS)
        self._listener_rates: dict[str, SampledRate] = {}
        self._ip_rates: dict[str, SampledRate] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self._protected: str | None = None
        self._make_room: Callable[[], None] = lambda: None

    @property
    def limits(self) -> ConnectionLimits:
        return self._limits

    def update_limits(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._wake()

    @property
    def count(self) -> int:
        """The number of open connections."""
        return self._by_listener.total()

    def protect(self, listener: str, make_room: Callable[[], None]) -> None:
        """Accept connections of this listener even if `max.connections` or the broker's rate limit is reached.

        `make_room`: closes a connection of another listener, if there is one.
        """
        self._protected, self._make_room = listener, make_room

    def is_protected(self, listener: str) -> bool:
        """Return whether this is the inter-broker listener and clients have another one."""
        return listener == self._protected

    def has_descriptors(self, listener: str, descriptor: int) -> bool:
        """Return whether a new connection with this file descriptor leaves enough for logs.

        The kernel assigns the lowest free number, so a high one means that few are left.
        """
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        left = most // (PROTECTED_RESERVE if self.is_protected(listener) else CLIENT_RESERVE)
        return most == resource.RLIM_INFINITY or descriptor < most - left

    def wait_seconds(self, listener: str, waiter: Callable[[], None]) -> float | None:
        """Return the time in seconds until the listener may accept the next connection; None if it has to wait until
        `waiter` is called.

        After at most MAX_WAIT_SECONDS, the listener has to ask again: after a limit was lowered, the rate of the
        connections before that may be a multiple of it, or the limit may be raised meanwhile.
        """
        limits = self._limits
        of_listener = limits.per_listener.get(listener, MAX_INT)
        is_full = self.count >= limits.connections and not self.is_protected(listener)
        if is_full or self._by_listener[listener] >= of_listener:
            self._waiting[waiter] = None
            return None
        now = self._clock()
        wait = 0.0 if self.is_protected(listener) else self._rate.wait_seconds(limits.rate, now)
        own = limits.rate_per_listener.get(listener)
        if own is not None:
            wait = max(wait, self._listener_rates.setdefault(listener, SampledRate(WINDOWS)).wait_seconds(own, now))
        return min(wait, MAX_WAIT_SECONDS)

    def reached(self, listener: str) -> str:
        """Return the config whose limit the listener has reached, for log lines.

        It has the form `name=value` if the number of connections is limited. If their rate is limited, it is
        `max.connection.creation.rate`, also for the limit of the listener.
        """
        limits = self._limits
        of_listener = limits.per_listener.get(listener, MAX_INT)
        if self._by_listener[listener] >= of_listener:
            return f"listener.name.{listener.lower()}.max.connections={of_listener}"
        if self.count >= limits.connections and not self.is_protected(listener):
            return f"max.connections={limits.connections}"
        return "max.connection.creation.rate"

    def forget(self, waiter: Callable[[], None]) -> None:
        """Remove a waiter."""
        self._waiting.pop(waiter, None)

    def enter(self, listener: str, ip: str) -> str | None:
        """Count a new connection. Return None if it is accepted, or the name of the limit that rejects it.

        A rejected connection is counted only in the rates of the broker and the listener.
        """
        limits, now = self._limits, self._clock()
        if not self.is_protected(listener):
            self._rate.add(1, now)
        if listener in limits.rate_per_listener:
            self._listener_rates.setdefault(listener, SampledRate(WINDOWS)).add(1, now)
        maximum = limits.per_ip_overrides.get(ip, limits.per_ip)
        if self._by_ip[ip] >= maximum:
            overrides = f".overrides={ip}:" if ip in limits.per_ip_overrides else "="
            return f"max.connections.per.ip{overrides}{maximum}"
        if not self._within_ip_rate(ip, now):
            return "connection_creation_rate of its address"
        self._by_listener[listener] += 1
        self._by_ip[ip] += 1
        if self.count > limits.connections and self.is_protected(listener):
            self._make_room()
        return None

    def left(self, listener: str, ip: str) -> None:
        """Count a closed connection."""
        self._by_listener[listener] -= 1
        self._by_ip[ip] -= 1
        if not self._by_ip[ip]:
            del self._by_ip[ip]
        self._wake()

    def _within_ip_rate(self, ip: str, now: float) -> bool:
        limits = self._limits.rate_per_ip
        bound = limits.get(ip, limits.get(None)) if limits else None
        if bound is None:
            return True
        if len(self._ip_rates) > MAX_ADDRESSES:
            self._ip_rates = {key: rate for key, rate in self._ip_rates.items() if rate.per_second(now)}
        rate = self._ip_rates.setdefault(ip, SampledRate(WINDOWS))
        if rate.wait_seconds(bound, now) > 0:
            return False
        rate.add(1, now)
        return True

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            waiter()
