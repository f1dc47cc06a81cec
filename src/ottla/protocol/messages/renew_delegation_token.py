"""RenewDelegationToken (key 39): let a token live longer (KIP-48).

- 1 throttles after the response is sent; 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"], api_key=39, versions="0-2", flexible="2+"):
    """Which token, and for how long."""

    hmac: bytes = f.binary("0+")
    renew_period_ms: int = f.int64("0+")


class RenewDelegationTokenResponse(Response, api_key=39, versions="0-2", flexible="2+"):
    """When it ends now."""

    error_code: int = f.int16("0+")
    expiry_timestamp_ms: int = f.int64("0+")
    throttle_time_ms: int = f.int32("0+")
