"""SaslHandshake, on listeners without SASL or from clients that are authenticated already.

On SASL listeners, `security/sasl_authenticator` handles it during authentication and re-authentication (KIP-368).

This handler only starts the proof that the client is a broker of this cluster (`cluster/interbroker/membership_proof`).
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.cluster.interbroker.membership_proof import MECHANISM, PROOF, ProofVerifier
from ottla.errors import IllegalSaslStateError
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    secret = context.broker.cluster_secret
    if request.mechanism != MECHANISM or secret is None or context.version == 0:
        return SaslHandshakeResponse(error_code=IllegalSaslStateError.code or 0, mechanisms=[])
    context.connection.state[PROOF] = ProofVerifier(secret)
    return SaslHandshakeResponse(mechanisms=[MECHANISM])
