"""RenewDelegationToken (key 39): postpone the expiry of a token (KIP-48).

- since 1, throttling follows the response (KIP-219); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"], api_key=39, versions="0-2", flexible="2+"):
    """The token's HMAC, and the time in milliseconds until its new expiry; negative for the broker's default."""

    hmac: bytes = f.binary("0+")
    renew_period_ms: int = f.int64("0+")


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+"):
    """The token's new expiry timestamp."""

    error_code: int = f.int16("0+")
    expiry_timestamp_ms: int = f.int64("0+")
    throttle_time_ms: int = f.int32("0+")
