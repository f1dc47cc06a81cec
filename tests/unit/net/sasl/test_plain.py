from __future__ import annotations

import pytest

from ottla.errors import SaslAuthenticationFailedError
from ottla.security.sasl.plain import PlainServer

USERS = {"alice": "secret", "ä": "ö", "empty": ""}


@pytest.mark.parametrize(
    ("message", "user"), [("\0alice\0secret", "alice"), ("alice\0alice\0secret", "alice"), ("\0ä\0ö", "ä")]
)
def test_client_with_correct_password_is_authenticated(message: str, user: str) -> None:
    server = PlainServer(USERS)
    assert server.step(message.encode()) == b""
    assert server.user == user


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"\0alice\0wrong",
        b"\0bob\0secret",
        b"\0\0secret",
        b"\0empty\0",
        b"bob\0alice\0secret",
        b"\xff\0\xff\0\xff",
    ],
)
def test_malformed_message_or_wrong_credentials_are_rejected(message: bytes) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslAuthenticationFailedError):
        server.step(message)
    assert server.user is None
