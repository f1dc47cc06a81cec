"""What options can be set on while the cluster runs, besides topics: brokers, quotas' owners, groups, client metrics.

An entity is known by its path under `/config`, as Kafka writes it: `brokers/0`, `brokers/<default>`, `clients/app`,
`users/alice/clients/app`, `ips/10.0.0.1`, `groups/g`, `client-metrics/m`. Names are percent-encoded in it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

DEFAULT: Final = "<default>"
"""Stands for all entities of a type that have no options of their own."""

BROKERS: Final = "brokers"
CLIENTS: Final = "clients"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"
IPS: Final = "ips"
USERS: Final = "users"
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")
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
    if name is None:
        return DEFAULT
    if _PLAIN.fullmatch(name):
        return name
    from urllib.parse import quote  # 5 ms, for what few nodes have

    return quote(name, safe="").replace("~", "%7E")  # as Java has it


def decoded(part: str) -> str | None:
    """The reverse of `encoded`."""
    if part == DEFAULT:
        return None
    if "%" not in part:
        return part
    from urllib.parse import unquote  # as above

    return unquote(part)


def name_of(path: str) -> str | None:
    """The name at the end of a path; None for the default."""
    return decoded(path.rpartition("/")[2])


def of_type(options: Mapping[str, Mapping[str, str]], kind: str) -> dict[str | None, Mapping[str, str]]:
    """The options of all entities of a type, by name; those of a user's clients are not among them."""
    prefix = f"{kind}/"
    return {name_of(p): configs for p, configs in options.items() if p.startswith(prefix) and NESTED + "/" not in p}


def quota_path(parts: Mapping[str, str | None]) -> str | None:
    """The path of whom a quota is for, by types and names as the protocol has them; None for no such combination."""
    types = set(parts)
    if types == {"user", "client-id"}:
        return user_client(parts["user"], parts["client-id"])
    if len(types) == 1:
        kind, name = next(iter(parts.items()))
        of_type = {"user": USERS, "client-id": CLIENTS, "ip": IPS}.get(kind)
        return None if of_type is None else entity(of_type, name)
    return None


def scram_value(salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> str:
    """A SCRAM credential as it is kept among the options of its user."""
    parts = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    texts = [f"{name}={b64encode(value).decode()}" for name, value in parts.items()]
    return ",".join([*texts, f"iterations={iterations}"])
