"""CreateDelegationToken (key 38): create a token with which a client authenticates as the token's owner (KIP-48).

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 can create tokens for others (KIP-373)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: str = f.string("0+")
    principal_name: str = f.string("0+")


class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"], api_key=38, versions="0-3", flexible="2+"):
    """The token's owner (None: the requester) and renewers, and its maximum lifetime (0 or less: the broker's)."""

    owner_principal_type: str | None = f.string("3+", nullable="3+")
    owner_principal_name: str | None = f.string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = f.array(CreatableRenewers, "0+")
    max_lifetime_ms: int = f.int64("0+")


class CreateDelegationTokenResponse(Response, api_key=38, versions="0-3", flexible="2+"):
    """The new token: its owner, requester, times in milliseconds, id and HMAC."""

    error_code: int = f.int16("0+")
    principal_type: str = f.string("0+")
    principal_name: str = f.string("0+")
    token_requester_principal_type: str = f.string("3+")
    token_requester_principal_name: str = f.string("3+")
    issue_timestamp_ms: int = f.int64("0+")
    expiry_timestamp_ms: int = f.int64("0+")
    max_timestamp_ms: int = f.int64("0+")
    token_id: str = f.string("0+")
    hmac: bytes = f.binary("0+")
    throttle_time_ms: int = f.int32("0+")
