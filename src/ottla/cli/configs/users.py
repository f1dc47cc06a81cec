"""Quotas of users, clients and IP addresses, and SCRAM credentials of users, for `ottla configs`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from ottla.cli.configs.entities import DEFAULT, Entity
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.client.admin.quotas import ClientQuotaAlteration, ClientQuotaFilter, ClientQuotaFilterComponent
from ottla.client.admin.security.scram import (
    MIN_ITERATIONS,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla.errors import ConfigurationError, InvalidConfigError, KafkaError, ResourceNotFoundError

MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
"""SCRAM mechanisms by their SASL names."""
SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
"""The names under which Kafka's tool prints the entity types of quotas, in its order."""

_CREDENTIAL: Final = re.compile(r"(?:iterations=(?P<iterations>[0-9]+),\s*)?password=(?P<password>.+)")

Quotas = Mapping[str, float]
Credentials = Mapping[str, Sequence[ScramCredentialInfo]]


def describe(
    admin: KafkaAdminClient, entities: Sequence[Entity], _: argparse.Namespace, output: Output
) -> dict[str, Any]:
    """Print the quotas of users, clients or IP addresses, and the SCRAM credentials of users; return both for JSON."""
    quotas = admin.describe_client_quotas(_filter(entities))
    credentials = _credentials(admin, entities)
    for entity, values in quotas.items():
        text = ", ".join(f"{name}={java_double(value)}" for name, value in sorted(values.items()))
        output.text(f"Quota configs for {_shown(dict(entity))} are {text}")
    for user, infos in credentials.items():
        text = ", ".join(f"{_name(info)}=iterations={info.iterations}" for info in infos)
        output.text(f"SCRAM credential configs for user-principal '{user}' are {text}")
    return _as_json(quotas, credentials)


def java_double(value: float) -> str:
    """Format a number like Java's Double.toString, because scripts may compare the output: `1024.0`, but `1.0E7`."""
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
    """Return the SCRAM credentials of the selected user, or of all users. Clients, IP addresses and defaults have
    none. Raises the first error other than ResourceNotFoundError.
    """
    (kind, name), *others = entities
    if kind.quota != "user" or others or name == DEFAULT:
        return {}
    errors: dict[Any, KafkaError] = {}
    credentials = admin.describe_user_scram_credentials(None if name is None else [name], errors=errors)
    for error in errors.values():
        if not isinstance(error, ResourceNotFoundError):
            raise error
    return credentials


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
    """Change the quotas of users, clients or IP addresses, or the SCRAM credentials of a user; None in `changes`
    removes one. Raises ConfigurationError if both kinds are combined, for invalid values, and for credentials unless a
    single user is selected, and InvalidConfigError if a quota to remove is not set.
    """
    passwords = {name: value for name, value in changes.items() if name in MECHANISMS}
    if passwords and len(passwords) < len(changes):
        # They take two requests, and the second could fail after the first has succeeded.
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
    """Raise InvalidConfigError if a quota to remove is not set, as Kafka's tool does: the name may be misspelled."""
    removed = {name for name, value in quotas.items() if value is None}
    if removed:
        quota_sets = admin.describe_client_quotas(_filter(entities)).values()
        missing = removed.difference(*quota_sets)
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
    match = _CREDENTIAL.fullmatch(value)
    if match is None:
        # The value is not printed: it may be a password.
        raise ConfigurationError(f"{mechanism}: expected [password=…] or [iterations=N,password=…]")
    iterations = int(match["iterations"] or MIN_ITERATIONS)
    if iterations < MIN_ITERATIONS:
        raise ConfigurationError(f"{mechanism}: iterations={iterations} is less than {MIN_ITERATIONS}, the least")
    return UserScramCredentialUpsertion(user, MECHANISMS[mechanism], match["password"], iterations)
