"""DescribeDelegationToken (key 41): tokens by owner (KIP-48).

- since 1, throttling follows the response (KIP-219); 2 is flexible; 3 adds the requester of a token (KIP-373)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response, Struct


class DescribeDelegationTokenOwner(Struct):
    """An owner whose tokens are described."""

    principal_type: str = f.string("0+")
    principal_name: str = f.string("0+")


class DescribeDelegationTokenRequest(
    Request["DescribeDelegationTokenResponse"], api_key=41, versions="0-3", flexible="2+"
):
    """The owners whose tokens are described; None for all."""

    owners: list[DescribeDelegationTokenOwner] | None = f.array(DescribeDelegationTokenOwner, "0+", nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: str = f.string("0+")
    principal_name: str = f.string("0+")


class DescribedDelegationToken(Struct):
    """One token: its owner, requester, renewers, times in milliseconds, id and HMAC."""

    principal_type: str = f.string("0+")
    principal_name: str = f.string("0+")
    token_requester_principal_type: str = f.string("3+")
    token_requester_principal_name: str = f.string("3+")
    issue_timestamp: int = f.int64("0+")
    expiry_timestamp: int = f.int64("0+")
    max_timestamp: int = f.int64("0+")
    token_id: str = f.string("0+")
    hmac: bytes = f.binary("0+")
    renewers: list[DescribedDelegationTokenRenewer] = f.array(DescribedDelegationTokenRenewer, "0+")


class DescribeDelegationTokenResponse(Response, api_key=41, versions="0-3", flexible="2+"):
    """The described tokens, or an error code."""

    error_code: int = f.int16("0+")
    tokens: list[DescribedDelegationToken] = f.array(DescribedDelegationToken, "0+")
    throttle_time_ms: int = f.int32("0+")
