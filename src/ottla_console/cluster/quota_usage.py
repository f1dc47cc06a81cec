"""The usage of quotas by users and clients, and their throttle times, from the Prometheus metrics of the brokers.

Each broker enforces a quota on its own, so a client may be throttled by one broker and not by another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.admin.quotas import Entity
from ottla_console.cluster.metric_pages import samples_of

PREFIX: Final = "kafka_server_quota_"
THROTTLE_TIME: Final = f"{PREFIX}throttle_time"
RATES: Final = {
    f"{PREFIX}byte_rate": ("Produce", "Fetch"),
    f"{PREFIX}request_time": ("Request",),
    f"{PREFIX}mutation_rate": ("ControllerMutation",),
}
"""The metrics of rates, and the values of their label `resource`."""
QUOTAS: Final = {
    "Produce": "producer_byte_rate",
    "Fetch": "consumer_byte_rate",
    "Request": "request_percentage",
    "ControllerMutation": "controller_mutation_rate",
}
"""The quotas by resource."""
NAMES: Final = (*RATES, THROTTLE_TIME)
MAX_ROWS: Final = 500
"""The maximum number of rows: those with the longest throttle times, then those with the highest rates."""


class UsageRow(NamedTuple):
    """The usage of one quota by one user or client at one broker. An empty user or client id stands for all.

    `address` is that of the broker's metrics. `rate` is in bytes or partitions per second, or in percent of a thread.
    `throttle_ms` is the average throttle time of requests above the quota in the last seconds; 0 if there were none.
    """

    address: str
    quota: str
    user: str
    client_id: str
    rate: float
    throttle_ms: float

    def limit(self, quotas: Mapping[Entity, Mapping[str, float]]) -> float | None:
        """Return the limit that applies, from all configured quotas. Return None if no quota applies any more."""
        for entity in _precedence(self.user, self.client_id):
            limit = quotas.get(entity, {}).get(self.quota)
            if limit is not None:
                return limit
        return None


def usage_of(pages: Mapping[str, str]) -> list[UsageRow]:
    """Return the usage of quotas from the metrics by address: first the rows with the longest throttle times."""
    rows = (row for address, page in pages.items() for row in _rows(address, page))
    return heapq.nsmallest(MAX_ROWS, rows, key=lambda row: (-row.throttle_ms, -row.rate, row))


def _rows(address: str, page: str) -> Iterator[UsageRow]:
    rates: dict[tuple[str, str, str], float] = {}
    throttled: dict[tuple[str, str, str], float] = {}
    for sample in samples_of(page, PREFIX):
        labels = sample.labels
        owner = labels.get("resource", ""), labels.get("user", ""), labels.get("clientId", "")
        if sample.name == THROTTLE_TIME:
            throttled[owner] = sample.value
        elif owner[0] in RATES.get(sample.name, ()):
            rates[owner] = sample.value
    for owner, rate in rates.items():
        resource, user, client_id = owner
        yield UsageRow(address, QUOTAS[resource], user, client_id, rate, throttled.get(owner, 0.0))


def _precedence(user: str, client_id: str) -> Iterator[Entity]:
    """Yield the entities whose quota may apply, in Kafka's order."""
    if user and client_id:
        for of_user in (user, None):
            for of_client in (client_id, None):
                yield ("user", of_user), ("client-id", of_client)
    elif user or client_id:
        kind = "user" if user else "client-id"
        yield ((kind, user or client_id),)
        yield ((kind, None),)
