"""SaslHandshake (key 17): choose the SASL mechanism (KIP-43).

- version 0 is followed by the mechanism's bytes without request headers, 1 by SaslAuthenticate requests (KIP-152)
"""

from __future__ import annotations

from ottla.protocol import fields as f
from ottla.protocol.message import Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], api_key=17, versions="0-1"):
    """The mechanism that the client has chosen."""

    mechanism: str = f.string("0+")


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    """The mechanisms that the broker offers."""

    error_code: int = f.int16("0+")
    mechanisms: list[str] = f.array(f.string(), "0+")
