"""Tell a broker who we are, on a channel that is open: what clients do, and brokers among themselves."""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import for_code
from ottla.net.client.channel import Channel
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.sasl.oauthbearer import SEPARATOR, first_message
from ottla.security.sasl.scram import HASHES, ScramClient
from ottla.security.sasl.token_provider import TokenProvider


class Login(NamedTuple):
    """A mechanism, and what it needs to know."""

    mechanism: str
    user: str = ""
    password: str = ""
    tokens: TokenProvider | None = None
    """What OAUTHBEARER has instead of user and password."""


async def log_in(channel: Channel, login: Login, timeout: float, *, handshake: int = 1, authenticate: int = 2) -> int:
    """Authenticate, with these versions of the requests; for how many milliseconds that holds (0: for ever).

    Raises UnsupportedSaslMechanismError, SaslAuthenticationFailedError, or an error of the channel.
    """
    shaken = await channel.send(SaslHandshakeRequest(mechanism=login.mechanism), handshake, timeout)
    if shaken.error_code:
        raise for_code(shaken.error_code)(f"the broker offers {', '.join(shaken.mechanisms) or 'nothing'}")

    async def step(token: bytes) -> SaslAuthenticateResponse:
        answer = await channel.send(SaslAuthenticateRequest(auth_bytes=token), authenticate, timeout)
        if answer.error_code:
            raise for_code(answer.error_code)(answer.error_message)
        return answer

    if login.tokens is not None:
        token = await login.tokens.token()
        answer = await step(first_message(token.value, token.extensions))
        if answer.auth_bytes:
            # why the token is not taken; the error comes with the answer to this byte
            await step(SEPARATOR.encode())
        return answer.session_lifetime_ms
    if login.mechanism not in HASHES:
        return (await step(f"\0{login.user}\0{login.password}".encode())).session_lifetime_ms
    scram = ScramClient(login.mechanism, login.user, login.password)
    challenge = await step(scram.first())
    last = await step(scram.final(bytes(challenge.auth_bytes)))
    scram.verify(bytes(last.auth_bytes))
    return last.session_lifetime_ms
