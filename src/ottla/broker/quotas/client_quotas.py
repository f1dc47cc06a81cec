"""Quotas of users and clients (KIP-13, KIP-55, KIP-124, KIP-219, KIP-599): who exceeds one has to wait.

A request above its quota is carried out and answered at once, with `throttle_time_ms` saying how long the client
should keep still; for that long the broker does not read from its connection either. Quotas are found by user and
client id in Kafka's order of precedence, and everyone whom a default applies to has a share of his own. Loop thread.
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
"""Kafka's name for a user who has not said who he is."""
MAX_REMEMBERED_ID = 255
MAX_SHARES = 10_000
"""Shares that are remembered; clients with ever new ids must not fill the memory."""


class _Share(NamedTuple):
    """One client's (or user's) quota: what it has used, and how much that may be per second."""

    rate: SampledRate
    bound: float


class Quotas:
    """What each user and client may do, and has done."""

    def __init__(self, live: DynamicBrokerConfig, monotonic: Callable[[], float]) -> None:
        self._live = live
        self._monotonic = monotonic
        self._image = ClusterImage("")
        self._shares: dict[tuple[str, str, str], _Share | None] = {}
        self._rates: dict[tuple[str, str, str], SampledRate] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self.active = False
        """Whether there is any quota at all; without one nothing is measured."""

    def update(self, image: ClusterImage) -> None:
        """Take over changed quotas. What was used so far counts on."""
        self._image = image
        self._shares.clear()
        self.active = any(
            key in options
            for path, options in image.configs.items()
            if path.startswith((config_entities.USERS, config_entities.CLIENTS))
            for key in USER_KEYS
        )

    def wait_seconds(self, key: str, user: str, client_id: str, amount: float) -> float:
        """Count `amount` against a quota; how long its owner has to keep still now."""
        share = self._share(key, user, client_id)
        if share is None:
            return 0.0
        now = self._monotonic()
        share.rate.add(amount, now)
        return share.rate.wait_seconds(share.bound, now)

    def mutations(self, user: str, client_id: str, *, strict: bool) -> MutationQuota:
        """What one request may change; `strict`: refuse where the client understands it (KIP-599)."""
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
            bucket = self._buckets[owner] = TokenBucket(rate, burst, self._monotonic())
        return MutationQuota(bucket, self._monotonic(), strict)

    def _share(self, key: str, user: str, client_id: str) -> _Share | None:
        share_key = (key, user, _short(client_id))
        if share_key in self._shares:
            return self._shares[share_key]
        if len(self._shares) >= MAX_SHARES:
            self._shares.clear()
            now = self._monotonic()
            self._rates = {owner: rate for owner, rate in self._rates.items() if rate.per_second(now)}
        limit = self._find(key, user, client_id)
        share = None
        if limit is not None:
            config = self._live.current
            new = SampledRate(config.quota_window_num, config.quota_window_size_seconds)
            share = _Share(self._rates.setdefault((key, *limit[0]), new), limit[1])
        self._shares[share_key] = share
        return share

    def _find(self, key: str, user: str, client_id: str) -> tuple[tuple[str, str], float] | None:
        """Whose quota it is, and how much; the first that is set, in Kafka's order."""
        for path, owner in _precedence(user, client_id):
            value = self._image.configs.get(path, {}).get(key)
            if value is not None:
                return owner, float(value)
        return None


def _short(client_id: str) -> str:
    """The client id, or a digest of one that is so long that thousands of them would fill the memory."""
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
    """`rate` tokens come in per second, up to `burst`; what is taken beyond them has to be waited for."""

    __slots__ = ("_filled", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._tokens = burst
        self._filled = now

    def spend(self, tokens: float, now: float) -> None:
        """Take tokens, even those that are not there yet."""
        self._tokens = self.tokens(now) - tokens
        self._filled = now

    def tokens(self, now: float) -> float:
        """How many there are; negative after more were taken."""
        return min(self.burst, self._tokens + (now - self._filled) * self.rate)

    def wait_seconds(self, now: float) -> float:
        """Until the tokens are back at zero."""
        return max(0.0, -self.tokens(now)) / self.rate if self.rate > 0 else float(self.tokens(now) < 0)


class MutationQuota:
    """Counts the partitions that one request creates or deletes."""

    def __init__(self, bucket: TokenBucket | None, now: float, strict: bool) -> None:
        self._bucket = bucket
        self._now = now
        self._strict = strict

    def record(self, partitions: int) -> None:
        """Count a change before it is made; ThrottlingQuotaExceededError where it has to wait."""
        if self._bucket is None:
            return
        if self._strict and self._bucket.tokens(self._now) < 0:
            raise ThrottlingQuotaExceededError
        self._bucket.spend(partitions, self._now)

    @property
    def wait_seconds(self) -> float:
        """How long the client has to keep still."""
        return 0.0 if self._bucket is None else self._bucket.wait_seconds(self._now)
