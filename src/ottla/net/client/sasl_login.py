"""SASL authentication at a broker, for clients and for inter-broker connections."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import IllegalSaslStateError, for_code
from ottla.net.client.channel import Channel
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.sasl.oauthbearer import SEPARATOR, first_message
from ottla.security.sasl.scram import HASHES, ScramClient
from ottla.security.sasl.token_provider import TokenProvider


class Login(NamedTuple):
    """A SASL mechanism and its credentials."""

    mechanism: str
    user: str = ""
    password: str = ""
    tokens: TokenProvider | None = None
    """The provider of OAUTHBEARER tokens, instead of user and password."""
    by_token: bool = False
    """Whether user and password are the id and the secret of a delegation token. Only with SCRAM."""


async def log_in(channel: Channel, login: Login, timeout: float, *, handshake: int = 1, authenticate: int = 2) -> int:
    """Authenticate the connection with SASL.

    Return the session's lifetime in milliseconds; 0 if it is unlimited. `handshake`, `authenticate`: the versions of
    SaslHandshake and SaslAuthenticate.

    Raises IllegalSaslStateError if the listener does not use SASL, UnsupportedSaslMechanismError,
    SaslAuthenticationFailedError, or an error of the channel or of the token provider.
    """
    shaken = await channel.send(SaslHandshakeRequest(mechanism=login.mechanism), handshake, timeout)
    peer = f"{channel.host}:{channel.port}"
    if shaken.error_code == IllegalSaslStateError.code:
        raise IllegalSaslStateError(
            f"{peer}: the listener does not use SASL; set security.protocol to PLAINTEXT or SSL, or use the port of a "
            "listener with SASL"
        )
    if shaken.error_code:
        raise for_code(shaken.error_code)(
            f"{peer}: the listener does not offer sasl.mechanism={login.mechanism}; mechanisms enabled on the broker: "
            f"{', '.join(shaken.mechanisms) or 'none'}"
        )
    user = f" user={login.user}" if login.user else ""

    async def step(token: bytes) -> SaslAuthenticateResponse:
        answer = await channel.send(SaslAuthenticateRequest(auth_bytes=token), authenticate, timeout)
        if answer.error_code:
            raise for_code(answer.error_code)(
                f"{peer}: {answer.error_message} (sasl.mechanism={login.mechanism}{user})"
            )
        return answer

    if login.tokens is not None:
        token = await login.tokens.token()
        answer = await step(first_message(token.value, token.extensions))
        if answer.auth_bytes:
            # the answer was the reason for the failure; after this byte, the broker sends the error
            await step(SEPARATOR.encode())
        return answer.session_lifetime_ms
    if login.mechanism not in HASHES:
        return (await step(f"\0{login.user}\0{login.password}".encode())).session_lifetime_ms
    scram = ScramClient(login.mechanism, login.user, login.password, by_token=login.by_token)
    challenge = await step(scram.first())
    last = await step(scram.final(bytes(challenge.auth_bytes)))
    scram.verify(bytes(last.auth_bytes))
    return last.session_lifetime_ms
