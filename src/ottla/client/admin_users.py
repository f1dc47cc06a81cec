"""Quotas of users, clients and addresses, SCRAM credentials, and delegation tokens."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.admin_calls import AdminCalls, Errors, check, failure
from ottla.errors import KafkaError, ResourceNotFoundError
from ottla.protocol.messages import alter_client_quotas as alter_quotas
from ottla.protocol.messages import alter_user_scram_credentials as alter_scram
from ottla.protocol.messages import create_delegation_token as create_token
from ottla.protocol.messages import describe_client_quotas as quotas
from ottla.protocol.messages import describe_delegation_token as tokens
from ottla.protocol.messages import describe_user_scram_credentials as scram
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

EXACT, DEFAULT, SPECIFIED = range(3)
"""How a part of a quota filter matches: a name, the default entity, any that is specified."""
MIN_ITERATIONS: Final = 4096
SALT_BYTES: Final = 24

Entity = tuple[tuple[str, str | None], ...]
"""What has quotas: (type, name) pairs, such as (("user", "alice"), ("client-id", None)); None is the default."""


class ClientQuotaFilterComponent(NamedTuple):
    """A part of an entity: of this type and name (None: the default one), or (`any_name`) of any name."""

    entity_type: str
    name: str | None = None
    any_name: bool = False


class ClientQuotaFilter(NamedTuple):
    """Entities with all of these parts and (`strict`) no others; no parts and not strict: all."""

    components: tuple[ClientQuotaFilterComponent, ...] = ()
    strict: bool = False


class ClientQuotaAlteration(NamedTuple):
    """Quotas to set of an entity, or (None) to remove: `{"producer_byte_rate": 1024.0}`."""

    entity: Entity | Mapping[str, str | None]
    ops: Mapping[str, float | None]


class ScramMechanism(IntEnum):
    """How a password is hashed."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class ScramCredentialInfo(NamedTuple):
    """A credential that a user has."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialDeletion(NamedTuple):
    """A credential to remove."""

    user: str
    mechanism: ScramMechanism


class UserScramCredentialUpsertion(NamedTuple):
    """A credential to make or change. The password itself is never sent; the salt is made up where none is given."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism!r}, [hidden], {self.iterations})"


class DelegationToken(NamedTuple):
    """A token that stands in for its owner. Times in milliseconds."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int


class UsersAdmin(AdminCalls):
    """Calls about users: their quotas, passwords and tokens."""

    # Quotas

    async def describe_client_quotas(
        self,
        quota_filter: ClientQuotaFilter | None = None,
        timeout_ms: float | None = None,
    ) -> dict[Entity, dict[str, float]]:
        """The quotas of entities (of all of them with None), by entity and name."""
        wanted = quota_filter or ClientQuotaFilter()
        request = quotas.DescribeClientQuotasRequest(
            components=[_component(part) for part in wanted.components], strict=wanted.strict
        )

        async def attempt() -> dict[Entity, dict[str, float]]:
            response = await self.connections.ask_any(request)
            check(response.error_code, "quotas", response.error_message)
            return {
                tuple((e.entity_type, e.entity_name) for e in entry.entity): {v.key: v.value for v in entry.values}
                for entry in response.entries or ()
            }

        return await self.retried(attempt, timeout_ms)

    async def alter_client_quotas(
        self,
        entries: Iterable[ClientQuotaAlteration],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set and remove quotas."""
        wanted = {_entity(entry.entity): dict(entry.ops) for entry in entries}

        async def attempt(left: list[Entity]) -> dict[Entity, KafkaError | None]:
            request = alter_quotas.AlterClientQuotasRequest(
                entries=[_quota_entry(entity, wanted[entity]) for entity in left], validate_only=validate_only
            )
            response = await self.ask_controller(request)
            found: dict[Entity, KafkaError | None] = {}
            for entry in response.entries:
                entity = _entity(tuple((e.entity_type, e.entity_name) for e in entry.entity))
                found[entity] = failure(entry.error_code, entity, entry.error_message)
            return found

        await self.settled(wanted, attempt, timeout_ms, errors)

    # SCRAM

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """The credentials of users (of all that have some with None). Raises ResourceNotFoundError for one without."""
        names = None if users is None else [scram.UserName(name=user) for user in users]

        async def ask() -> dict[str, tuple[ScramCredentialInfo, ...] | KafkaError]:
            response = await self.connections.ask_any(scram.DescribeUserScramCredentialsRequest(users=names))
            check(response.error_code, "SCRAM credentials", response.error_message)
            found: dict[str, tuple[ScramCredentialInfo, ...] | KafkaError] = {}
            for r in response.results:
                infos = tuple(
                    ScramCredentialInfo(ScramMechanism(c.mechanism), c.iterations) for c in r.credential_infos
                )
                found[r.user] = failure(r.error_code, r.user, r.error_message) or infos
            return found

        answers = await self.retried(ask, timeout_ms)

        async def known(left: list[str]) -> dict[str, tuple[ScramCredentialInfo, ...] | KafkaError]:
            return {user: answers[user] for user in left}

        return await self.settled(answers, known, timeout_ms, errors, (ResourceNotFoundError, KafkaError))

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Set and remove credentials. Errors are by user."""
        deletions: dict[str, list[alter_scram.ScramCredentialDeletion]] = {}
        upsertions: dict[str, list[alter_scram.ScramCredentialUpsertion]] = {}
        for change in alterations:
            if isinstance(change, UserScramCredentialDeletion):
                gone = alter_scram.ScramCredentialDeletion(name=change.user, mechanism=int(change.mechanism))
                deletions.setdefault(change.user, []).append(gone)
            else:
                upsertions.setdefault(change.user, []).append(_salted(change))

        async def attempt(left: list[str]) -> dict[str, KafkaError | None]:
            request = alter_scram.AlterUserScramCredentialsRequest(
                deletions=[d for user in left for d in deletions.get(user, ())],
                upsertions=[u for user in left for u in upsertions.get(user, ())],
            )
            response = await self.ask_controller(request)
            return {r.user: failure(r.error_code, r.user, r.error_message) for r in response.results}

        await self.settled([*deletions, *upsertions], attempt, timeout_ms, errors)

    # Tokens

    async def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        max_lifetime_ms: int = -1,
        owner: str | None = None,
        timeout_ms: float | None = None,
    ) -> DelegationToken:
        """A token for this client's user, or for `owner`. Principals are written `User:name`."""
        allowed = list(renewers)
        owner_type, owner_name = _principal(owner) if owner is not None else (None, None)
        request = create_token.CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[
                create_token.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, allowed)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )

        async def attempt() -> DelegationToken:
            t = await self.ask_controller(request)
            check(t.error_code, "delegation token")
            return DelegationToken(
                t.token_id,
                bytes(t.hmac),
                f"{t.principal_type}:{t.principal_name}",
                f"{t.token_requester_principal_type}:{t.token_requester_principal_name}",
                tuple(allowed),
                t.issue_timestamp_ms,
                t.expiry_timestamp_ms,
                t.max_timestamp_ms,
            )

        return await self.retried(attempt, timeout_ms)

    async def renew_delegation_token(
        self, hmac: bytes, renew_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """Let a token live longer; when it expires now, in milliseconds."""

        async def attempt() -> int:
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
            response = await self.ask_controller(request)
            check(response.error_code, "delegation token")
            return int(response.expiry_timestamp_ms)

        return await self.retried(attempt, timeout_ms)

    async def expire_delegation_token(
        self, hmac: bytes, expiry_time_period_ms: int = -1, timeout_ms: float | None = None
    ) -> int:
        """End a token, at once (-1) or after a time; when it expires, in milliseconds."""

        async def attempt() -> int:
            request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
            response = await self.ask_controller(request)
            check(response.error_code, "delegation token")
            return int(response.expiry_timestamp_ms)

        return await self.retried(attempt, timeout_ms)

    async def describe_delegation_token(
        self, owners: Iterable[str] | None = None, timeout_ms: float | None = None
    ) -> list[DelegationToken]:
        """The tokens of owners (`User:name`; None: of all) that this client may see."""
        wanted = None
        if owners is not None:
            wanted = [
                tokens.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, owners)
            ]

        async def attempt() -> list[DelegationToken]:
            response = await self.connections.ask_any(tokens.DescribeDelegationTokenRequest(owners=wanted))
            check(response.error_code, "delegation tokens")
            return [
                DelegationToken(
                    t.token_id,
                    bytes(t.hmac),
                    f"{t.principal_type}:{t.principal_name}",
                    f"{t.token_requester_principal_type}:{t.token_requester_principal_name}",
                    tuple(f"{r.principal_type}:{r.principal_name}" for r in t.renewers),
                    t.issue_timestamp,
                    t.expiry_timestamp,
                    t.max_timestamp,
                )
                for t in response.tokens
            ]

        return await self.retried(attempt, timeout_ms)


def _entity(given: Entity | Mapping[str, str | None]) -> Entity:
    """The parts in one order, whoever tells them."""
    return tuple(sorted(given.items() if isinstance(given, Mapping) else given, key=lambda part: part[0]))


def _component(part: ClientQuotaFilterComponent) -> quotas.ComponentData:
    kind = SPECIFIED if part.any_name else DEFAULT if part.name is None else EXACT
    return quotas.ComponentData(entity_type=part.entity_type, match_type=kind, match=part.name)


def _quota_entry(entity: Entity, ops: Mapping[str, float | None]) -> alter_quotas.EntryData:
    return alter_quotas.EntryData(
        entity=[alter_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[alter_quotas.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )


def _salted(change: UserScramCredentialUpsertion) -> alter_scram.ScramCredentialUpsertion:
    salt = os.urandom(SALT_BYTES) if change.salt is None else change.salt
    password = change.password.encode() if isinstance(change.password, str) else change.password
    name = HASHES[ScramMechanism(change.mechanism)]
    return alter_scram.ScramCredentialUpsertion(
        name=change.user,
        mechanism=int(change.mechanism),
        iterations=change.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(name, password, salt, change.iterations),
    )


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r}: a principal is written User:name")
    return kind, name
