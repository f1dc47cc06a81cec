"""OAUTHBEARER messages of clients and servers."""

from __future__ import annotations

import json

import pytest

from ottla.errors import ConfigurationError, SaslAuthenticationFailedError
from ottla.security.sasl.oauthbearer import AuthenticatedUser, InvalidTokenError, OAuthBearerServer, first_message


def check(token: str) -> AuthenticatedUser:
    if token != "a.b.c":
        raise InvalidTokenError("no", "insufficient_scope", "write")
    return AuthenticatedUser("alice", 99.0)


def test_valid_token_authenticates_its_user_until_its_expiry() -> None:
    server = OAuthBearerServer(check)
    assert server.step(first_message("a.b.c", {"traceId": "7 8", "site": "x=y"})) == b""
    assert (server.user, server.expires) == ("alice", 99.0)


def test_invalid_token_gets_an_error_response_and_then_fails() -> None:
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
def test_malformed_first_message_is_rejected(message: bytes) -> None:
    server = OAuthBearerServer(check)
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(message)
    assert server.user is None


def test_authzid_equal_to_the_token_user_is_accepted() -> None:
    server = OAuthBearerServer(check)
    server.step(b"n,a=alice,\x01auth=bearer a.b.c\x01\x01")
    assert server.user == "alice"


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"a1": "x"}, {"name": "x\x01y"}, {"name": ""}])
def test_invalid_extension_is_a_configuration_error(extension: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="extension"):
        first_message("a.b.c", extension)
