"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials (KIP-554)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class ScramCredentialDeletion(Struct):
    """A credential to remove: its user, and its mechanism (1: SCRAM-SHA-256, 2: SCRAM-SHA-512)."""

    name: str = f.string("0+")
    mechanism: int = f.int8("0+")


class ScramCredentialUpsertion(Struct):
    """A credential to set; the password is salted and hashed."""

    name: str = f.string("0+")
    mechanism: int = f.int8("0+")
    iterations: int = f.int32("0+")
    salt: bytes = f.binary("0+")
    salted_password: bytes = f.binary("0+")


class AlterUserScramCredentialsRequest(
    Request["AlterUserScramCredentialsResponse"], api_key=51, versions="0", flexible="0+"
):
    """The SCRAM credentials to remove and to set."""

    deletions: list[ScramCredentialDeletion] = f.array(ScramCredentialDeletion, "0+")
    upsertions: list[ScramCredentialUpsertion] = f.array(ScramCredentialUpsertion, "0+")


class AlterUserScramCredentialsResult(Struct):
    """The result of all changes of one user's credentials."""

    user: str = f.string("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")


class AlterUserScramCredentialsResponse(Response, api_key=51, versions="0", flexible="0+"):
    """The result of each user."""

    throttle_time_ms: int = f.int32("0+")
    results: list[AlterUserScramCredentialsResult] = f.array(AlterUserScramCredentialsResult, "0+")
