"""SaslAuthenticate: answered by `authentication` on SASL listeners, in all versions; what comes here is out of turn."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import IllegalSaslStateError
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """Nobody is to be authenticated now."""
    raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
