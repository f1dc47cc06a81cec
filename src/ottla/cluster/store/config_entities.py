"""Entities with dynamic configs other than topics: brokers, users, clients, IP addresses, groups, client metrics.

An entity is identified by its path under `/config`, as in Kafka: `brokers/0`, `brokers/<default>`, `clients/app`,
`users/alice/clients/app`, `ips/10.0.0.1`, `groups/g`, `client-metrics/m`. Names are percent-encoded. Kafka's
`ConfigEntity`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

DEFAULT: Final = "<default>"
"""The path component of a type's default entity. Each of its configs applies to the entities of the type that do not
set that config themselves.
"""

BROKERS: Final = "brokers"
CLIENTS: Final = "clients"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
IPS: Final = "ips"
USERS: Final = "users"
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
TYPES: Final = (BROKERS, CLIENTS, CLIENT_METRICS, GROUPS, IPS, USERS)
NESTED: Final = f"/{CLIENTS}"
"""The part of a path between a user and a client of that user."""


def entity(kind: str, name: str | None) -> str:
    """Return the path of an entity. `name`: None for the default entity of the type."""
    return f"{kind}/{encoded(name)}"


def user_client(user: str | None, client_id: str | None) -> str:
    return f"{entity(USERS, user)}{NESTED}/{encoded(client_id)}"


def encoded(name: str | None) -> str:
    """Return the path component of a name: percent-encoded, or `<default>` for None."""
    if name is None:
        return DEFAULT
    if _PLAIN.fullmatch(name):
        return name
    from urllib.parse import quote  # takes 5 ms, and few names need it

    return quote(name, safe="").replace("~", "%7E")  # like Java


def decoded(part: str) -> str | None:
    """Decode a path component into an entity's name; None for `<default>`."""
    if part == DEFAULT:
        return None
    if "%" not in part:
        return part
    from urllib.parse import unquote  # as above

    return unquote(part)


def name_of(path: str) -> str | None:
    """Return the name at the end of a path; None for the default entity."""
    return decoded(path.rpartition("/")[2])


def of_type(configs: Mapping[str, Mapping[str, str]], kind: str) -> dict[str | None, Mapping[str, str]]:
    """Return the configs of all entities of a type by name (None: the default entity).

    Clients of users are not included.
    """
    prefix = f"{kind}/"
    return {
        name_of(p): entity_configs
        for p, entity_configs in configs.items()
        if p.startswith(prefix) and NESTED + "/" not in p
    }


def quota_path(parts: Mapping[str, str | None]) -> str | None:
    """Return the path of a quota's entity from the protocol's entity types and names; None for an invalid
    combination.
    """
    types = set(parts)
    if types == {"user", "client-id"}:
        return user_client(parts["user"], parts["client-id"])
    if len(types) == 1:
        kind, name = next(iter(parts.items()))
        of_type = {"user": USERS, "client-id": CLIENTS, "ip": IPS}.get(kind)
        return None if of_type is None else entity(of_type, name)
    return None


def scram_value(salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> str:
    """Return a SCRAM credential as the value of its user's config."""
    parts = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    texts = [f"{name}={b64encode(value).decode()}" for name, value in parts.items()]
    return ",".join([*texts, f"iterations={iterations}"])
