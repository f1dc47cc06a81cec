"""OAUTHBEARER's messages, both sides."""

from __future__ import annotations

import json

import pytest

from ottla.errors import ConfigurationError, SaslAuthenticationFailedError
from ottla.security.sasl.oauthbearer import AuthenticatedUser, InvalidTokenError, OAuthBearerServer, first_message


def check(token: str) -> AuthenticatedUser:
    if token != "a.b.c":
        raise InvalidTokenError("no", "insufficient_scope", "write")
    return AuthenticatedUser("alice", 99.0)


def test_a_good_token_says_who_it_is_and_for_how_long() -> None:
    server = OAuthBearerServer(check)
    assert server.step(first_message("a.b.c", {"traceId": "7 8", "site": "x=y"})) == b""
    assert (server.user, server.expires) == ("alice", 99.0)


def test_a_bad_token_is_answered_with_the_reason_and_then_refused() -> None:
    server = OAuthBearerServer(check)
    assert json.loads(server.step(first_message("x.y.z", {}))) == {"status": "insufficient_scope", "scope": "write"}
    with pytest.raises(SaslAuthenticationFailedError, match="insufficient_scope"):
        server.step(b"\x01")
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(first_message("a.b.c", {}))
    assert server.user is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01auth=Bearer a.b.c\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01token=Bearer a.b.c\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"\xff\xfe\x01\x01",
        b"n,a=bob,\x01auth=Bearer a.b.c\x01\x01",
    ],
)
def test_what_is_no_such_message_is_refused(message: bytes) -> None:
    server = OAuthBearerServer(check)
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(message)
    assert server.user is None


def test_whom_the_token_names_may_be_said_besides() -> None:
    server = OAuthBearerServer(check)
    server.step(b"n,a=alice,\x01auth=bearer a.b.c\x01\x01")
    assert server.user == "alice"


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"a1": "x"}, {"name": "x\x01y"}, {"name": ""}])
def test_extensions_that_could_be_taken_for_something_else_are_not_said(extension: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="extension"):
        first_message("a.b.c", extension)
