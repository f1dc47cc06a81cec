"""SaslAuthenticate: refused on a listener without SASL, as in Kafka. Served in all versions."""

from __future__ import annotations

from ottla.broker.services import Call
from ottla.errors import IllegalSaslStateError
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
    """There is nobody to be authenticated."""
    raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
