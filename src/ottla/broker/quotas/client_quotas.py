"""Quotas of users and clients (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599).

A request above its quota is executed and answered as usual. The `throttle_time_ms` of the response, if it has this
field, is the time for which the client should pause; for that time the broker does not read from the connection either.
Only topic and partition changes above the controller mutation quota are rejected, if the client knows
THROTTLING_QUOTA_EXCEEDED. Quotas are looked up by user and client id in Kafka's order of precedence; each user or
client under a default quota has the full quota for itself. Not thread-safe: event loop only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.broker.config.dynamic_config import DynamicBrokerConfig
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.store import config_entities
from ottla.errors import ThrottlingQuotaExceededError
from ottla.net.sampled_rate import SampledRate

PRODUCER_BYTES: Final = "producer_byte_rate"
CONSUMER_BYTES: Final = "consumer_byte_rate"
REQUEST_PERCENT: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
USER_KEYS: Final = (PRODUCER_BYTES, CONSUMER_BYTES, REQUEST_PERCENT, MUTATIONS)

ANONYMOUS: Final = "ANONYMOUS"
"""Kafka's name for an unauthenticated user."""
MAX_REMEMBERED_ID = 255
MAX_SHARES = 10_000
"""Maximum number of remembered look-ups, and of token buckets, so that generated client ids cannot fill the memory."""


class MeasuredUsage:
    """The usage of a quota per second and the throttle times of requests, measured over the same time windows."""

    __slots__ = ("_throttled", "rate")

    def __init__(self, windows: int, window_seconds: float) -> None:
        self.rate = SampledRate(windows, window_seconds)
        self._throttled: tuple[SampledRate, SampledRate] | None = None  # seconds, and requests; most owners have none

    def add_throttle(self, seconds: float, now: float) -> None:
        if self._throttled is None:
            windows, window_seconds = self.rate.windows, self.rate.window_seconds
            self._throttled = SampledRate(windows, window_seconds), SampledRate(windows, window_seconds)
        for rate, amount in zip(self._throttled, (seconds, 1), strict=True):
            rate.add(amount, now)

    def throttle_ms(self, now: float) -> float:
        """Return the average throttle time of recent throttled requests in milliseconds; 0 if there are none."""
        if self._throttled is None:
            return 0.0
        seconds, requests = (rate.per_second(now) for rate in self._throttled)
        return 1000 * seconds / requests if requests else 0.0


class _Share(NamedTuple):
    """The quota of one client or user: its measured usage, and its limit per second."""

    measured: MeasuredUsage
    bound: float


class QuotaUsage(NamedTuple):
    """The usage of a quota per second: bytes, percent of one thread's time, or partitions created and deleted.

    An empty name means all users, or all clients.
    """

    quota: str
    user: str
    client_id: str
    per_second: float
    throttle_ms: float
    """The average throttle time, in milliseconds, of the requests that exceed the quota."""


class Quotas:
    """The quotas of all users and clients, and their usage."""

    def __init__(self, live: DynamicBrokerConfig, monotonic: Callable[[], float]) -> None:
        self._live = live
        self._monotonic = monotonic
        self._image = ClusterImage("")
        self._shares: dict[tuple[str, str, str], _Share | None] = {}
        self._measured: dict[tuple[str, str, str], MeasuredUsage] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.active = False
        """Whether any quota of a user or client is set; otherwise nothing is measured."""

    def update(self, image: ClusterImage) -> None:
        """Apply changed quotas. If only the value of a quota has changed, the usage that was measured before still
        counts, except against a controller mutation quota.
        """
        self._image = image
        self._shares.clear()
        self.active = any(
            key in options
            for path, options in image.configs.items()
            if path.startswith((config_entities.USERS, config_entities.CLIENTS))
            for key in USER_KEYS
        )

    def wait_seconds(self, key: str, user: str, client_id: str, amount: float) -> float:
        """Count `amount` against a quota, and return the time in seconds for which the client has to pause.

        The time is 0 if the quota is not set, or not exceeded. For the request quota, it is at most the length of a
        window, as in Kafka (KIP-124): a single slow request may exceed that quota many times, and a member of a group
        must not miss its heartbeats for it.
        """
        share = self._share(key, user, client_id)
        if share is None:
            return 0.0
        now = self._monotonic()
        rate = share.measured.rate
        rate.add(amount, now)
        seconds = rate.wait_seconds(share.bound, now)
        if key == REQUEST_PERCENT:
            seconds = min(seconds, rate.window_seconds)
        if seconds > 0:
            share.measured.add_throttle(seconds, now)
        return seconds

    def usage(self) -> list[QuotaUsage]:
        """Return the usage of each quota that was measured, by user and client."""
        now = self._monotonic()
        return [
            QuotaUsage(*owner, measured.rate.per_second(now), measured.throttle_ms(now))
            for owner, measured in self._measured.items()
        ]

    def mutations(self, user: str, client_id: str, *, strict: bool) -> MutationQuota:
        """Return the controller mutation quota of one request (KIP-599).

        `strict`: reject changes if the quota is exceeded, for clients that know the error THROTTLING_QUOTA_EXCEEDED.
        """
        limit = self._find(MUTATIONS, user, client_id) if self.active else None
        if limit is None:
            return MutationQuota(None, 0.0, strict)
        owner, rate = limit
        config = self._live.current
        burst = rate * config.controller_quota_window_num * config.controller_quota_window_size_seconds
        bucket = self._buckets.get(owner)
        if bucket is None or (bucket.rate, bucket.burst) != (rate, burst):
            if len(self._buckets) >= MAX_SHARES:
                self._buckets.clear()
                self._forget_idle()
            bucket = self._buckets[owner] = TokenBucket(rate, burst, self._monotonic())
        new = MeasuredUsage(config.controller_quota_window_num, config.controller_quota_window_size_seconds)
        measured = self._measured.setdefault((MUTATIONS, *owner), new)
        return MutationQuota(MutationShare(owner, bucket, measured), self._monotonic(), strict)

    def _share(self, key: str, user: str, client_id: str) -> _Share | None:
        share_key = (key, user, _short(client_id))
        if share_key in self._shares:
            return self._shares[share_key]
        if len(self._shares) >= MAX_SHARES:
            self._forget_idle()
        limit = self._find(key, user, client_id)
        share = None
        if limit is not None:
            config = self._live.current
            new = MeasuredUsage(config.quota_window_num, config.quota_window_size_seconds)
            share = _Share(self._measured.setdefault((key, *limit[0]), new), limit[1])
        self._shares[share_key] = share
        return share

    def _forget_idle(self) -> None:
        self._shares.clear()
        now = self._monotonic()
        self._measured = {owner: m for owner, m in self._measured.items() if m.rate.per_second(now)}

    def _find(self, key: str, user: str, client_id: str) -> tuple[tuple[str, str], float] | None:
        """Return the (user, client id) that the quota applies to and its limit: the first that is set, in Kafka's
        order. Return None if none is set.
        """
        for path, owner in _precedence(user, client_id):
            value = self._image.configs.get(path, {}).get(key)
            if value is not None:
                return owner, float(value)
        return None


def _short(client_id: str) -> str:
    """Return the client id, or a digest of a very long one, so that long client ids cannot fill the memory."""
    if len(client_id) <= MAX_REMEMBERED_ID:
        return client_id
    return hashlib.sha256(client_id.encode(errors="replace")).hexdigest()


def _precedence(user: str, client_id: str) -> tuple[tuple[str, tuple[str, str]], ...]:
    short = _short(client_id)
    both, of_user, of_client = (user, short), (user, ""), ("", short)
    return (
        (config_entities.user_client(user, client_id), both),
        (config_entities.user_client(user, None), both),
        (config_entities.entity(config_entities.USERS, user), of_user),
        (config_entities.user_client(None, client_id), both),
        (config_entities.user_client(None, None), both),
        (config_entities.entity(config_entities.USERS, None), of_user),
        (config_entities.entity(config_entities.CLIENTS, client_id), of_client),
        (config_entities.entity(config_entities.CLIENTS, None), of_client),
    )


class TokenBucket:
    """A token bucket: `rate` tokens are added per second, up to `burst`. It may be overspent, which leads to a wait."""

    __slots__ = ("_filled", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._filled = now

    def spend(self, tokens: float, now: float) -> None:
        """Spend tokens. The number of tokens may become negative."""
        self._tokens = self.tokens(now) - tokens
        self._filled = now

    def tokens(self, now: float) -> float:
        """Return the number of tokens; negative after overspending."""
        return min(self.burst, self._tokens + (now - self._filled) * self.rate)

    def wait_seconds(self, now: float) -> float:
        """Return the time in seconds until the number of tokens is not negative.

        With a rate of 0, this is 1 if the number is negative.
        """
        return max(0.0, -self.tokens(now)) / self.rate if self.rate > 0 else float(self.tokens(now) < 0)


class MutationShare(NamedTuple):
    """The mutation quota of one user or client: its token bucket and its measured usage."""

    owner: tuple[str, str]
    """The user and the client id that the quota applies to; an empty name means all."""
    bucket: TokenBucket
    measured: MeasuredUsage


class MutationQuota:
    """Counts the partitions that one request creates or deletes."""

    def __init__(self, share: MutationShare | None, now: float, strict: bool) -> None:
        self._share = share
        self._now = now
        self._strict = strict

    def record(self, partitions: int) -> None:
        """Count partitions before they are changed.

        Raises ThrottlingQuotaExceededError if `strict` and the quota is exceeded already.
        """
        if self._share is None:
            return
        bucket = self._share.bucket
        if self._strict and bucket.tokens(self._now) < 0:
            user, client_id = self._share.owner
            owner = " of ".join(f"{kind} '{name}'" for kind, name in (("client", client_id), ("user", user)) if name)
            raise ThrottlingQuotaExceededError(
                f"The quota {MUTATIONS}={bucket.rate:g} of {owner} is exceeded: "
                f"retry in {bucket.wait_seconds(self._now):.0f} s."
            )
        bucket.spend(partitions, self._now)
        self._share.measured.rate.add(partitions, self._now)

    def throttle(self) -> float:
        """Return the time in seconds for which the client has to pause, and record it as a throttle time. Call it once,
        at the end.
        """
        if self._share is None:
            return 0.0
        seconds = self._share.bucket.wait_seconds(self._now)
        if seconds > 0:
            self._share.measured.add_throttle(seconds, self._now)
        return seconds
