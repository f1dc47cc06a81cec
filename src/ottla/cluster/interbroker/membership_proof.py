"""Proof of membership: a broker proves on any listener that it belongs to the cluster, by its knowledge of the
cluster's secret.

The secret is a random value in `/cluster/secret` of the metadata store, created by the first broker. A broker that
connects to another sends SaslHandshake with the mechanism `MECHANISM`, then two SaslAuthenticate requests. Each side
answers a random challenge of the other with an HMAC-SHA-256, so the secret itself is never sent. On a listener without
SASL, Apache Kafka's brokers answer ILLEGAL_SASL_STATE and keep the connection; they accept inter-broker requests of
every client that their authorizer allows.

Only `prove` and `shared_secret` do I/O. Not thread-safe: event loop only.
"""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING, Final

from ottla.cluster.store import znodes
from ottla.cluster.store.metadata_store import Create, MetadataStore, NodeExistsError
from ottla.errors import IllegalSaslStateError, SaslAuthenticationFailedError, StartupError, for_code

if TYPE_CHECKING:
    from ottla.net.client.channel import Channel

MECHANISM: Final = "OTTLA-CLUSTER-MEMBER"
"""The mechanism in SaslHandshake.

It is not in `sasl.enabled.mechanisms`, because it does not authenticate a principal.
"""
MEMBER: Final = "cluster-member"
"""Key in a connection's state whose value is true if the peer has proved that it is a broker of this cluster."""
PROOF: Final = "cluster-proof"
"""Key in a connection's state for the ProofVerifier of an exchange that has begun."""
SECRET_BYTES: Final = 32
CHALLENGE_BYTES: Final = 32
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 2


async def shared_secret(store: MetadataStore) -> bytes:
    """Return the cluster's secret. Create it if there is none. Raises StartupError if it is malformed or too short."""
    node = await store.get(znodes.CLUSTER_SECRET)
    if node is None:
        value = znodes.secret_value(os.urandom(SECRET_BYTES))
        try:
            await store.multi([Create(znodes.CLUSTER_SECRET, value)])
        except NodeExistsError:
            pass  # another broker has created it first
        return await shared_secret(store)
    secret = znodes.secret_of(node.value)
    if len(secret) < SECRET_BYTES:
        raise StartupError(
            f"zookeeper.connect: {znodes.CLUSTER_SECRET} does not hold a secret of the cluster; delete the node and "
            "restart all brokers"
        )
    return secret


class ProofVerifier:
    """The accepting side of an exchange: verifies the proof of the broker that connects."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._expected = b""
        self.is_proven = False

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message of the peer.

        Raises SaslAuthenticationFailedError if the peer's challenge has the wrong size, or its proof is not the one
        that the secret gives.
        """
        if not self._expected:
            if len(message) != CHALLENGE_BYTES:
                raise SaslAuthenticationFailedError(f"a challenge has {CHALLENGE_BYTES} bytes, not {len(message)}")
            own = os.urandom(CHALLENGE_BYTES)
            self._expected = _proof(self._secret, b"connecting", message, own)
            return own + _proof(self._secret, b"accepting", message, own)
        self.is_proven = hmac.compare_digest(message, self._expected)
        if not self.is_proven:
            raise SaslAuthenticationFailedError("the peer does not know the secret of this cluster")
        return b""


async def prove(channel: Channel, secret: bytes, timeout: float) -> bool:
    """Prove to another broker that this is a broker of its cluster.

    Return False if the other broker answers ILLEGAL_SASL_STATE (Apache Kafka on a listener without SASL), else True.

    Raises SaslAuthenticationFailedError if either side does not know the secret, any other error in a response, and the
    errors of the channel.
    """
    from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

    handshake = await channel.send(SaslHandshakeRequest(mechanism=MECHANISM), HANDSHAKE_VERSION, timeout)
    if handshake.error_code == IllegalSaslStateError.code:
        return False
    if handshake.error_code:
        raise for_code(handshake.error_code)

    async def step(message: bytes) -> bytes:
        response = await channel.send(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION, timeout)
        if response.error_code:
            raise for_code(response.error_code)(response.error_message)
        return bytes(response.auth_bytes)

    own = os.urandom(CHALLENGE_BYTES)
    response = await step(own)
    challenge = response[:CHALLENGE_BYTES]
    if not hmac.compare_digest(response[CHALLENGE_BYTES:], _proof(secret, b"accepting", own, challenge)):
        raise SaslAuthenticationFailedError(
            f"{channel.host}:{channel.port} does not know the secret of this cluster (ZooKeeper: "
            f"{znodes.CLUSTER_SECRET}); restart the brokers that were started before it was replaced"
        )
    await step(_proof(secret, b"connecting", own, challenge))
    return True


def _proof(secret: bytes, side: bytes, connecting: bytes, accepting: bytes) -> bytes:
    return hmac.digest(secret, b"ottla cluster member\0" + side + connecting + accepting, "sha256")
