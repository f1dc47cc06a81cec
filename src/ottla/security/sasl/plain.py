"""SASL PLAIN (RFC 4616), the broker's side: user and password in plain text. Use it with TLS."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.errors import SaslAuthenticationFailedError


class PlainServer:
    """The broker's side of PLAIN: one message with an empty answer. `user` is set after success."""

    expires: float | None = None
    by_token = False
    claimed = ""
    """The user that the client claims to be."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.user: str | None = None
        self._passwords = passwords

    def step(self, message: bytes) -> bytes:
        """Check user and password, and return the empty answer.

        Raises SaslAuthenticationFailedError if the message is malformed, the user or the password is wrong, or the
        authorization id differs from the user. The error does not reveal whether the user exists.
        """
        parts = message.decode("utf-8", "replace").split("\0")
        if len(parts) != 3 or not parts[1] or not parts[2]:
            raise SaslAuthenticationFailedError("Invalid SASL/PLAIN response: user and password are required")
        authorization, user, password = parts
        self.claimed = user
        expected = self._passwords.get(user)
        # passwords of unknown users are compared, too, so that timing does not reveal which users exist
        same = hmac.compare_digest((expected or password + "!").encode(), password.encode())
        if expected is None or not same:
            raise SaslAuthenticationFailedError("Authentication failed: Invalid username or password")
        if authorization not in ("", user):
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""
