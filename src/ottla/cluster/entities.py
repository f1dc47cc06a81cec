"""What options can be set on while the cluster runs, besides topics: brokers, quotas' owners, groups, client metrics.

An entity is known by its path under `/config`, as Kafka writes it: `brokers/0`, `brokers/<default>`, `clients/app`,
`users/alice/clients/app`, `ips/10.0.0.1`, `groups/g`, `client-metrics/m`. Names are percent-encoded in it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

DEFAULT: Final = "<default>"
"""Stands for all entities of a type that have no options of their own."""

BROKERS: Final = "brokers"
CLIENTS: Final = "clients"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
IPS: Final = "ips"
USERS: Final = "users"
TYPES: Final = (BROKERS, CLIENTS, CLIENT_METRICS, GROUPS, IPS, USERS)
NESTED: Final = f"/{CLIENTS}"
"""Between a user and the client that its options are for."""


def entity(kind: str, name: str | None) -> str:
    """The path of one entity; None is the default of its type."""
    return f"{kind}/{encoded(name)}"


def user_client(user: str | None, client_id: str | None) -> str:
    """The path of a client as one user runs it."""
    return f"{entity(USERS, user)}{NESTED}/{encoded(client_id)}"


def encoded(name: str | None) -> str:
    """A name as it stands in a path: what ZooKeeper or the path itself could trip over is percent-encoded."""
    return DEFAULT if name is None else quote(name, safe="").replace("*", "%2A")


def decoded(part: str) -> str | None:
    """The reverse of `encoded`."""
    return None if part == DEFAULT else unquote(part)


def name_of(path: str) -> str | None:
    """The name at the end of a path; None for the default."""
    return decoded(path.rpartition("/")[2])
