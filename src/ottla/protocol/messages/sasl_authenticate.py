"""SaslAuthenticate (key 36): one step of a SASL exchange (KIP-152).

- version 1 adds the lifetime of the session, after which the client authenticates again (KIP-368); 2 is flexible
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], api_key=36, versions="0-2", flexible="2+"):
    """The client's bytes of this step."""

    auth_bytes: bytes = f.binary("0+")


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    """The broker's bytes of this step, and after the last step the lifetime of the session; 0 if it is unlimited."""

    error_code: int = f.int16("0+")
    error_message: str | None = f.string("0+", nullable="0+")
    auth_bytes: bytes = f.binary("0+")
    session_lifetime_ms: int = f.int64("1+", ignorable=True)
