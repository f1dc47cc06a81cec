"""Authentication on SASL listeners (KIP-43, KIP-152, KIP-368). Before it, clients send only ApiVersions.

A connection goes from INITIAL (ApiVersions or SaslHandshake) to AUTHENTICATE (SaslAuthenticate requests, or raw tokens
after version 0 of the handshake) to COMPLETE, where requests go to the broker. After a failed authentication, the
broker waits, sends the error if there is a response that can contain it, and closes the connection, so that passwords
cannot be guessed quickly. With `connections.max.reauth.ms` the client has to authenticate again within that time, as
the same user. Not thread-safe: event loop only.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.broker.apis import BY_KEY
from ottla.broker.dispatch import framed
from ottla.cluster.interbroker.membership_proof import MECHANISM
from ottla.errors import KafkaError, MalformedMessageError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from ottla.logs import shortened
from ottla.net.server.connection import BY_TOKEN, USER, CloseConnectionError, Connection, Reply, Service
from ottla.protocol.header import API_VERSIONS, RequestHeader, decode_request_header
from ottla.protocol.message import decode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

log = logging.getLogger("ottla.net")

M = TypeVar("M", SaslHandshakeRequest, SaslAuthenticateRequest)

HANDSHAKE: Final = SaslHandshakeRequest.API_KEY
AUTHENTICATE: Final = SaslAuthenticateRequest.API_KEY
SESSION: Final = "sasl"
"""The key of the `SaslSession` in a connection's state."""
REAUTHENTICATION_PAUSE_SECONDS: Final = 1.0
"""Minimum time in seconds between re-authentications of one connection, as in Kafka."""


class SaslMechanism(Protocol):
    """The broker's side of one SASL exchange."""

    user: str | None
    """The user; None until authenticated."""
    claimed: str
    """The user that the client claims to be; empty if it is unknown."""
    expires: float | None
    """The time when the client's token expires, in seconds since 1970; None without a token that expires.

    The listener's configs may end the session earlier.
    """
    by_token: bool
    """Whether the client authenticates with a delegation token."""

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message. Raises SaslAuthenticationFailedError if the authentication fails."""
        ...


class MechanismFactory(NamedTuple):
    """Begins exchanges of one mechanism of a listener. `lifetime_ms`: maximum lifetime of sessions (0: unlimited)."""

    begin: Callable[[], SaslMechanism]
    lifetime_ms: int = 0


class SaslState(enum.Enum):
    """The state of a connection, like Kafka's `SaslServerAuthenticator.SaslState` but with fewer states."""

    INITIAL = enum.auto()
    AUTHENTICATE = enum.auto()
    COMPLETE = enum.auto()


class SaslSession:
    """The authentication of one connection."""

    __slots__ = ("expires", "lifetime_ms", "mechanism", "name", "raw", "renewed", "stage", "user")

    def __init__(self) -> None:
        self.stage = SaslState.INITIAL
        self.name = ""  # of the mechanism
        self.mechanism: SaslMechanism | None = None
        self.raw = False
        self.user: str | None = None
        self.expires: float | None = None
        self.lifetime_ms = 0
        self.renewed = 0.0


class SaslAuthenticator:
    """The service of a SASL listener.

    It authenticates clients, and passes requests of authenticated ones to the broker.
    """

    def __init__(
        self, service: Service, offers: Mapping[str, MechanismFactory], *, failure_delay_ms: int, max_frame_bytes: int
    ) -> None:
        """`max_frame_bytes`: the maximum size of a request after authentication."""
        self._service = service
        self._offers = offers
        self._delay = failure_delay_ms / 1000
        self._max_frame = max_frame_bytes

    def __call__(self, frame: memoryview, connection: Connection) -> Reply | Awaitable[Reply]:
        """Pass the request to the broker, or process it as a step of the client's authentication."""
        session = connection.state.get(SESSION)
        if not isinstance(session, SaslSession):
            session = connection.state[SESSION] = SaslSession()
        if session.stage is SaslState.COMPLETE and (
            session.expires is None or not self._must_renew(session, frame, connection)
        ):
            return self._service(frame, connection)
        if session.stage is SaslState.AUTHENTICATE:
            return self._token(frame, session, connection)
        return self._handshake(frame, session, connection)

    def _must_renew(self, session: SaslSession, frame: memoryview, connection: Connection) -> bool:
        """Return whether the client starts to authenticate again. Raises CloseConnectionError for any request but
        SaslHandshake after the session has expired.
        """
        assert session.expires is not None
        now = time.monotonic()
        if int.from_bytes(frame[:2], "big") == HANDSHAKE:
            if now - session.renewed >= REAUTHENTICATION_PAUSE_SECONDS:
                session.renewed = now
                return True
        elif now > session.expires:
            connection.listener.counts.expired += 1
            raise CloseConnectionError(f"{session.user} has not authenticated again in time")
        return False

    def _handshake(self, frame: memoryview, session: SaslSession, connection: Connection) -> Reply | Awaitable[Reply]:
        header, pos = _header(frame)
        if header.api_key == API_VERSIONS and session.stage is SaslState.INITIAL:
            return self._service(frame, connection)
        if header.api_key != HANDSHAKE or header.api_version not in SaslHandshakeRequest.VERSIONS:
            raise CloseConnectionError(
                f"expected SaslHandshake, received {_name(header)} (client_id={shortened(header.client_id)}); "
                "the client's security.protocol may be without SASL"
            )
        handshake = _decoded(SaslHandshakeRequest, frame, header, pos).mechanism
        answer = SaslHandshakeResponse(mechanisms=list(self._offers))
        if handshake == MECHANISM and session.user is not None:
            return self._service(frame, connection)  # another broker proves its membership; it is authenticated already
        offer = self._offers.get(handshake)
        if offer is None:
            answer.error_code = UnsupportedSaslMechanismError.code or 0
            mechanism = shortened(handshake)
            why = f"mechanism {mechanism!r} is not enabled (client_id={shortened(header.client_id)})"
            return self._fail(framed(answer, header), connection, why)
        if session.user is not None and handshake != session.name:
            return self._fail(None, connection, f"mechanism {handshake} differs from {session.name}, used before")
        session.stage, session.name, session.raw = SaslState.AUTHENTICATE, handshake, header.api_version == 0
        session.mechanism = offer.begin()
        return framed(answer, header)

    def _token(self, frame: memoryview, session: SaslSession, connection: Connection) -> Reply | Awaitable[Reply]:
        assert session.mechanism is not None
        if session.raw:
            try:
                challenge = self._step(bytes(frame), session, connection)
            except SaslAuthenticationFailedError as error:
                return self._fail(None, connection, error.message)
            return [len(challenge).to_bytes(4, "big"), challenge]
        header, pos = _header(frame)
        if header.api_key != AUTHENTICATE or header.api_version not in SaslAuthenticateRequest.VERSIONS:
            raise CloseConnectionError(f"expected SaslAuthenticate, received {_name(header)}")
        token = _decoded(SaslAuthenticateRequest, frame, header, pos).auth_bytes
        try:
            challenge = self._step(bytes(token), session, connection)
        except SaslAuthenticationFailedError as error:
            response = SaslAuthenticateResponse(
                error_code=error.code or 0, error_message=_error_message(error, session)
            )
            why = error.message if error.__cause__ is None else f"{error.message}: {error.__cause__}"
            claimed = session.mechanism.claimed if session.mechanism is not None else ""
            why += f" (user={shortened(claimed)} sasl.mechanism={session.name} client_id={shortened(header.client_id)})"
            return self._fail(framed(response, header), connection, why)
        lifetime_ms = session.lifetime_ms if session.stage is SaslState.COMPLETE else 0
        return framed(SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms), header)

    def _step(self, token: bytes, session: SaslSession, connection: Connection) -> bytes:
        mechanism = session.mechanism
        assert mechanism is not None
        challenge = mechanism.step(token)
        if mechanism.user is None:
            return challenge
        if session.user not in (None, mechanism.user):
            raise SaslAuthenticationFailedError(
                f"Cannot change principals during re-authentication from {session.user} to {mechanism.user}"
            )
        counts = connection.listener.counts
        if session.user is None:
            counts.authenticated += 1
        else:
            counts.reauthenticated += 1
        lifetime_ms = session.lifetime_ms = _lifetime_ms(self._offers[session.name], mechanism)
        session.expires = time.monotonic() + lifetime_ms / 1000 if lifetime_ms else None
        session.stage, session.user, session.mechanism = SaslState.COMPLETE, mechanism.user, None
        connection.state[USER], connection.state[BY_TOKEN] = mechanism.user, mechanism.by_token
        connection.max_frame = self._max_frame
        return challenge

    async def _fail(self, answer: Reply, connection: Connection, why: str) -> Reply:
        connection.listener.counts.failed_authentication += 1
        log.warning(
            "Authentication of %s on listener %s failed; closing the connection: %s",
            connection.peer,
            connection.listener.name,
            why,
        )
        await asyncio.sleep(self._delay)
        raise CloseConnectionError(why, answer)


def _lifetime_ms(offer: MechanismFactory, mechanism: SaslMechanism) -> int:
    """Return the lifetime of the session in milliseconds: that of the listener, at most that of the token.

    0: unlimited.
    """
    if mechanism.expires is None:
        return offer.lifetime_ms
    left = max(1, int((mechanism.expires - time.time()) * 1000))
    return min(left, offer.lifetime_ms) if offer.lifetime_ms else left


def _error_message(error: KafkaError, session: SaslSession) -> str:
    """Return the error message for the client; with SCRAM it does not reveal which users exist."""
    if session.name.startswith("SCRAM"):
        during = "authentication" if session.user is None else "re-authentication"
        return f"Authentication failed during {during} due to invalid credentials with SASL mechanism {session.name}"
    return error.message


def _header(frame: memoryview) -> tuple[RequestHeader, int]:
    try:
        return decode_request_header(frame)
    except MalformedMessageError as error:
        raise CloseConnectionError(f"cannot decode a request: {error}") from None


def _decoded(kind: type[M], frame: memoryview, header: RequestHeader, pos: int) -> M:
    try:
        return decode(kind, frame, header.api_version, pos)
    except MalformedMessageError as error:
        raise CloseConnectionError(f"cannot decode a request: {error}") from None


def _name(header: RequestHeader) -> str:
    served = BY_KEY.get(header.api_key)
    return f"API {header.api_key}" if served is None else f"{served.name} version {header.api_version}"
