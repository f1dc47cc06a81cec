"""SCRAM credentials of users."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.admin.driver import AdminCalls, Errors, check, failure
from ottla.errors import KafkaError, ResourceNotFoundError
from ottla.protocol.messages import alter_user_scram_credentials as alter_scram
from ottla.protocol.messages import describe_user_scram_credentials as scram

MIN_ITERATIONS: Final = 4096
SALT_BYTES: Final = 24


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


class ScramAdmin(AdminCalls):
    """Calls about passwords."""

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
