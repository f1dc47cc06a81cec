"""Admin calls for the SCRAM credentials of users."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.client.admin.driver import AdminCall, AdminDriver, Errors, distinct, results, successes, to_controller
from ottla.protocol.messages import alter_user_scram_credentials as alter_scram
from ottla.protocol.messages import describe_user_scram_credentials as scram

MIN_ITERATIONS: Final = 4096
SALT_BYTES: Final = 24


class ScramMechanism(IntEnum):
    """A SCRAM mechanism, named by its hash function."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


class ScramCredentialInfo(NamedTuple):
    """A user's credential, without its secret."""

    mechanism: ScramMechanism
    iterations: int


class UserScramCredentialDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


class UserScramCredentialUpsertion(NamedTuple):
    """A credential to create or change. The password itself is never sent; by default the salt is random."""

    user: str
    mechanism: ScramMechanism
    password: str | bytes
    iterations: int = MIN_ITERATIONS
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"UserScramCredentialUpsertion({self.user!r}, {self.mechanism!r}, [hidden], {self.iterations})"


class ScramAdmin(AdminDriver):
    """Admin calls for SCRAM credentials."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, timeout_ms: float | None = None, *, errors: Errors | None = None
    ) -> dict[str, tuple[ScramCredentialInfo, ...]]:
        """Return the credentials of users (None or empty: of all users who have some). Raises ResourceNotFoundError
        for a user without credentials.
        """
        names = None if users is None else [scram.UserName(name=user) for user in distinct(users)]
        outcomes = await self.call(
            scram.DescribeUserScramCredentialsRequest(users=names),
            lambda response: results(
                response.results,
                lambda r: str(r.user),
                lambda r: tuple(
                    ScramCredentialInfo(ScramMechanism(c.mechanism), c.iterations) for c in r.credential_infos
                ),
            ),
            timeout_ms,
            "SCRAM credentials",
        )
        return successes(outcomes, errors)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialDeletion | UserScramCredentialUpsertion],
        timeout_ms: float | None = None,
        *,
        errors: Errors | None = None,
    ) -> None:
        """Create, change and delete credentials. The keys of `errors` are user names."""
        deletions: dict[str, list[alter_scram.ScramCredentialDeletion]] = {}
        upsertions: dict[str, list[alter_scram.ScramCredentialUpsertion]] = {}
        for change in alterations:
            if isinstance(change, UserScramCredentialDeletion):
                deletion = alter_scram.ScramCredentialDeletion(name=change.user, mechanism=int(change.mechanism))
                deletions.setdefault(change.user, []).append(deletion)
            else:
                upsertions.setdefault(change.user, []).append(_salted(change))
        call: AdminCall[str, None] = AdminCall(
            lambda users: alter_scram.AlterUserScramCredentialsRequest(
                deletions=[d for user in users for d in deletions.get(user, ())],
                upsertions=[u for user in users for u in upsertions.get(user, ())],
            ),
            lambda response, *_: results(response.results, lambda r: str(r.user)),
            to_controller,
        )
        await self.call_per_key(call, [*deletions, *upsertions], timeout_ms, errors)


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
