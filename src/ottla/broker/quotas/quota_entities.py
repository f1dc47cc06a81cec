"""Conversion of quota entities: from the types and names of the protocol to paths in the metadata store, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla import addresses
from ottla.broker.config.dynamic_config import CONNECTION_RATE
from ottla.broker.quotas.client_quotas import CONSUMER_BYTES, MUTATIONS, PRODUCER_BYTES, REQUEST_PERCENT
from ottla.cluster.store import config_entities
from ottla.errors import InvalidRequestError

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
KEYS: Final[Mapping[str, Mapping[str, type]]] = {
    USER: {PRODUCER_BYTES: int, CONSUMER_BYTES: int, REQUEST_PERCENT: float, MUTATIONS: float},
    IP: {CONNECTION_RATE: int},
}
"""The quotas that an entity can have, with the types of their values: those of users and clients, and those of IP
addresses.
"""

Parts = Mapping[str, str | None]
"""An entity: the name by entity type. The name None means the default entity of the type."""


def path_of(parts: Parts) -> str:
    """Return the path of an entity.

    Raises InvalidRequestError for an empty name, an invalid IP address or an unsupported combination of types.
    """
    if any(name == "" for name in parts.values()):
        raise InvalidRequestError("an entity's name must not be empty")
    address = parts.get(IP)
    if address is not None and addresses.canonical(address) is None:
        raise InvalidRequestError(f"{address!r} is not an IP address")
    path = config_entities.quota_path(parts)
    if path is None:
        raise InvalidRequestError(f"quotas of {' and '.join(sorted(parts)) or 'nothing'} are not supported")
    return path


def parts_of(path: str) -> dict[str, str | None] | None:
    """Return the entity of a path; None if entities of this type have no quotas."""
    head, nested, client = path.partition(f"{config_entities.NESTED}/")
    if nested:
        return {USER: config_entities.name_of(head), CLIENT_ID: config_entities.decoded(client)}
    kind = {config_entities.USERS: USER, config_entities.CLIENTS: CLIENT_ID, config_entities.IPS: IP}.get(
        path.partition("/")[0]
    )
    return None if kind is None else {kind: config_entities.name_of(path)}
