"""DescribeUserScramCredentials (key 50): the SCRAM mechanisms for which users have credentials (KIP-554)."""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class UserName(Struct):
    """A user to describe."""

    name: str = f.string("0+")


class DescribeUserScramCredentialsRequest(
    Request["DescribeUserScramCredentialsResponse"], api_key=50, versions="0", flexible="0+"
):
    """The users to describe; None or an empty list for all."""

    users: list[UserName] | None = f.array(UserName, "0+", nullable="0+")


class CredentialInfo(Struct):
    """One credential; mechanism 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    mechanism: int = f.int8("0+")
    iterations: int = f.int32("0+")


class DescribeUserScramCredentialsResult(Struct):
    """One user and its credentials, or an error."""

    user: str = f.string("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    credential_infos: list[CredentialInfo] = f.array(CredentialInfo, "0+")


class DescribeUserScramCredentialsResponse(Response, api_key=50, versions="0", flexible="0+"):
    """The mechanisms of each user's credentials."""

    throttle_time_ms: int = f.int32("0+")
    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = f.array(DescribeUserScramCredentialsResult, "0+")
