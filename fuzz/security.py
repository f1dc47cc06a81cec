"""Input of clients that are not authenticated yet: SASL tokens, the requests before them, names in certificates."""

from __future__ import annotations

import random
from collections.abc import Awaitable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz.damage import damaged
from ottla.broker.security.sasl_authenticator import SESSION, MechanismFactory, SaslAuthenticator
from ottla.errors import SaslAuthenticationFailedError
from ottla.net.server.connection import USER, CloseConnectionError, ConnectionCounts
from ottla.protocol.header import encode_request_header
from ottla.protocol.message import encode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.security.sasl.plain import PlainServer
from ottla.security.sasl.scram import Credential, ScramClient, ScramServer
from ottla.security.tls.distinguished_name import subject_of
from ottla.security.tls.jks import read_jks

STORE = Path(__file__).resolve().parent.parent / "tests" / "unit" / "net" / "stores" / "trust.jks"
KNOWN = Credential(b"salt" * 4, b"\1" * 32, b"\2" * 32, 4096)


def sasl_tokens(r: random.Random) -> None:
    """Process damaged messages of SCRAM, in both directions, and of PLAIN. They never authenticate a client."""
    client, server = ScramClient("SCRAM-SHA-256", "alice", "secret"), _scram()
    try:
        first = client.first()
        challenge = server.step(damaged(first, r) if r.random() < 0.5 else first)
        final = client.final(damaged(challenge, r) if r.random() < 0.5 else challenge)
        server.step(damaged(final, r))
    except SaslAuthenticationFailedError:
        pass
    assert server.user is None
    plain = PlainServer({"alice": "secret"})
    token = damaged(b"\0alice\0secret", r)
    try:
        plain.step(token)
    except SaslAuthenticationFailedError:
        pass
    assert plain.user is None or token.split(b"\0", 1)[1] == b"alice\0secret"


def _scram() -> ScramServer:
    return ScramServer("SCRAM-SHA-256", {"alice": KNOWN}.get)


def first_requests(r: random.Random) -> None:
    """Send valid and damaged requests in any order to a listener with SASL. Only ApiVersions reaches the broker."""
    offers = {
        "PLAIN": MechanismFactory(lambda: PlainServer({"alice": "secret"})),
        "SCRAM-SHA-256": MechanismFactory(_scram),
    }

    def served(frame: memoryview, connection: Any) -> list[bytes]:
        assert bytes(frame[:2]) == b"\0\x12" or connection.state.get(USER) == "alice"
        return []

    door = SaslAuthenticator(served, offers, failure_delay_ms=0, max_frame_bytes=100)
    connection: Any = SimpleNamespace(
        peer="p", listener=SimpleNamespace(name="L", counts=ConnectionCounts()), state={}, max_frame=10
    )
    for _ in range(r.randint(1, 5)):
        try:
            answer = door(memoryview(_frame(r)), connection)
        except CloseConnectionError:
            return
        if isinstance(answer, Awaitable):
            answer.close()  # type: ignore[attr-defined]  # it would be refused after a pause
            return
    assert SESSION in connection.state


def _frame(r: random.Random) -> bytes:
    request: Any = r.choice(
        (
            SaslHandshakeRequest(mechanism=r.choice(("PLAIN", "SCRAM-SHA-256", "GSSAPI"))),
            SaslAuthenticateRequest(auth_bytes=r.choice((b"\0alice\0secret", b"n,,n=alice,r=abc"))),
        )
    )
    version = r.choice(request.VERSIONS)
    frame = bytearray()
    encode_request_header(frame, request.API_KEY, version, 1, "c")
    encode(request, version, frame)
    return damaged(bytes(frame), r) if r.random() < 0.5 else bytes(frame)


def certificate_names(r: random.Random) -> None:
    """Read the distinguished name of a certificate."""
    try:
        subject_of(damaged(_certificate(), r))
    except ValueError:
        pass


@cache
def _certificate() -> bytes:
    return read_jks(STORE.read_bytes(), None).trusted[0]
