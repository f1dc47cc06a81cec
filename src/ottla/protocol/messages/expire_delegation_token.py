"""ExpireDelegationToken (key 40): set the time at which a token expires (KIP-48).

- since 1, throttling follows the response (KIP-219); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"], api_key=40, versions="0-2", flexible="2+"):
    """The token's HMAC, and the time in milliseconds until the token expires; negative to expire it now."""

    hmac: bytes = f.binary("0+")
    expiry_time_period_ms: int = f.int64("0+")


class ExpireDelegationTokenResponse(Response, api_key=40, versions="0-2", flexible="2+"):
    """The timestamp at which the token expires."""

    error_code: int = f.int16("0+")
    expiry_timestamp_ms: int = f.int64("0+")
    throttle_time_ms: int = f.int32("0+")
