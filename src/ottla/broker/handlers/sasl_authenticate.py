"""SaslAuthenticate, on listeners without SASL or from clients that are authenticated already.

On SASL listeners, `security/sasl_authenticator` handles it during authentication and re-authentication (KIP-368).

This handler only verifies the proof that the client is a broker of this cluster
(`cluster/interbroker/membership_proof`).
"""

from __future__ import annotations

import logging

from ottla.broker.request_context import RequestContext
from ottla.cluster.interbroker.membership_proof import MEMBER, PROOF, ProofVerifier
from ottla.errors import IllegalSaslStateError, SaslAuthenticationFailedError
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

log = logging.getLogger("ottla.broker")


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    state = context.connection.state
    proof = state.get(PROOF)
    if not isinstance(proof, ProofVerifier):
        raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
    try:
        answer = proof.step(bytes(request.auth_bytes))
    except SaslAuthenticationFailedError as error:
        del state[PROOF]
        log.warning(
            "Cannot verify that the client %s is a broker of this cluster, so it is not accepted as one: %s",
            context.connection.peer,
            error.message,
        )
        raise
    if proof.is_proven:
        del state[PROOF]
        state[MEMBER] = True
    return SaslAuthenticateResponse(auth_bytes=answer)
