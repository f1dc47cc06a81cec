"""SaslHandshake: answered by `authentication` on SASL listeners, in all versions; what comes here is out of turn."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import IllegalSaslStateError
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse:
    """There is no mechanism to agree on."""
    return SaslHandshakeResponse(error_code=IllegalSaslStateError.code or 0, mechanisms=[])
