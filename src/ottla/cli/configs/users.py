"""Quotas of users, clients and addresses, and passwords of users: their part of `ottla configs`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from ottla.cli.configs.entities import DEFAULT, Entity
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.quotas import ClientQuotaAlteration, ClientQuotaFilter, ClientQuotaFilterComponent
from ottla.client.admin.scram import (
    MIN_ITERATIONS,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.errors import ConfigurationError, InvalidConfigError, KafkaError, ResourceNotFoundError

MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
"""By the names that users know them by."""
SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
"""What quotas belong to, in the order and by the names that Kafka's tool has."""

_CREDENTIAL: Final = re.compile(r"(?:iterations=(?P<iterations>[0-9]+),\s*)?password=(?P<password>.+)")

Quotas = Mapping[str, float]
Credentials = Mapping[str, Sequence[ScramCredentialInfo]]


def describe(admin: KafkaAdminClient, entities: Sequence[Entity], *, as_json: bool) -> None:
    """`--describe` of users, clients or addresses."""
    quotas = admin.describe_client_quotas(_filter(entities))
    credentials = _credentials(admin, entities)
    if as_json:
        print(json.dumps(_as_json(quotas, credentials)))
        return
    for entity, values in quotas.items():
        told = ", ".join(f"{name}={java_double(value)}" for name, value in values.items())
        print(f"Quota configs for {_shown(dict(entity))} are {told}")
    for user, infos in credentials.items():
        told = ", ".join(f"{_name(info)}=iterations={info.iterations}" for info in infos)
        print(f"SCRAM credential configs for user-principal '{user}' are {told}")


def java_double(value: float) -> str:
    """As Java writes a double, which scripts may compare: `1024.0`, but `1.0E7`."""
    if not value or 1e-3 <= abs(value) < 1e7:
        return str(value)
    exact = Decimal(str(value)).normalize()
    mantissa = f"{exact.scaleb(-exact.adjusted()):f}"
    return f"{mantissa}{'' if '.' in mantissa else '.0'}E{exact.adjusted()}"


def _filter(entities: Sequence[Entity]) -> ClientQuotaFilter:
    parts = [
        ClientQuotaFilterComponent(str(kind.quota), name or None, any_name=name is None) for kind, name in entities
    ]
    return ClientQuotaFilter(tuple(parts), strict=True)


def _credentials(admin: KafkaAdminClient, entities: Sequence[Entity]) -> Credentials:
    """Of one user or of all, unless clients or defaults are asked for: these have none."""
    (kind, name), *others = entities
    if kind.quota != "user" or others or name == DEFAULT:
        return {}
    errors: dict[Any, KafkaError] = {}
    found = admin.describe_user_scram_credentials(None if name is None else [name], errors=errors)
    for error in errors.values():
        if not isinstance(error, ResourceNotFoundError):
            raise error
    return found


def _shown(entity: Mapping[str, str | None]) -> str:
    parts = ((shown, entity[kind]) for kind, shown in SHOWN.items() if kind in entity)
    return ", ".join(f"the default {shown}" if name is None else f"{shown} '{name}'" for shown, name in parts)


def _name(info: ScramCredentialInfo) -> str:
    return info.mechanism.name.replace("_", "-")


def _as_json(quotas: Mapping[Any, Quotas], credentials: Credentials) -> dict[str, Any]:
    return {
        "quotas": [{"entity": dict(entity), "values": dict(values)} for entity, values in quotas.items()],
        "scram": [
            {"user": user, "mechanism": _name(info), "iterations": info.iterations}
            for user, infos in credentials.items()
            for info in infos
        ],
    }


def alter(admin: KafkaAdminClient, entities: Sequence[Entity], changes: Mapping[str, str | None]) -> None:
    """`--alter` of users, clients or addresses: their quotas, or a user's passwords."""
    passwords = {name: value for name, value in changes.items() if name in MECHANISMS}
    if passwords and len(passwords) < len(changes):
        # Two requests: the second could be refused when the first is done.
        raise ConfigurationError(
            f"quotas and {' and '.join(passwords)} cannot be altered at once: make it two commands"
        )
    if passwords:
        admin.alter_user_scram_credentials(_password(entities, name, value) for name, value in passwords.items())
        return
    quotas = {name: None if value is None else _number(name, value) for name, value in changes.items()}
    _check_removed(admin, entities, quotas)
    entity = {str(kind.quota): name or None for kind, name in entities}
    admin.alter_client_quotas([ClientQuotaAlteration(entity, quotas)])


def _check_removed(admin: KafkaAdminClient, entities: Sequence[Entity], quotas: Mapping[str, float | None]) -> None:
    """InvalidConfigError for quotas that were never set, as Kafka's tool has it: it may be a slip of the pen."""
    removed = {name for name, value in quotas.items() if value is None}
    if removed:
        there = admin.describe_client_quotas(_filter(entities)).values()
        missing = removed.difference(*there)
        if missing:
            raise InvalidConfigError(f"Invalid config(s): {','.join(sorted(missing))}: not set, so not removed")


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigurationError(f"--add-config: {name}={value!r} is not allowed: quotas are numbers") from None


def _password(
    entities: Sequence[Entity], mechanism: str, value: str | None
) -> UserScramCredentialUpsertion | UserScramCredentialDeletion:
    (kind, user), *others = entities
    if kind.quota != "user" or others or not user:
        raise ConfigurationError(f"{mechanism} belongs to a single user: --entity-type users --entity-name NAME")
    if value is None:
        return UserScramCredentialDeletion(user, MECHANISMS[mechanism])
    given = _CREDENTIAL.fullmatch(value)
    if given is None:
        # What was given is not told: it may be a password.
        raise ConfigurationError(f"{mechanism}: [password=…] or [iterations=N,password=…] is wanted")
    iterations = int(given["iterations"] or MIN_ITERATIONS)
    if iterations < MIN_ITERATIONS:
        raise ConfigurationError(f"{mechanism}: iterations={iterations} is less than {MIN_ITERATIONS}, the least")
    return UserScramCredentialUpsertion(user, MECHANISMS[mechanism], given["password"], iterations)
