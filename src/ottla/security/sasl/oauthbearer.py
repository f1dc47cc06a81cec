"""SASL OAUTHBEARER (RFC 7628, KIP-255) without I/O: a client authenticates with a bearer token.

The client's first message contains the token and extensions (KIP-342). If the broker rejects the token, it answers
with an error as JSON, the client sends one more byte, and the exchange ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.errors import ConfigurationError, SaslAuthenticationFailedError

MECHANISM: Final = "OAUTHBEARER"
SEPARATOR: Final = "\x01"
_FIRST: Final = re.compile(r"n,(?:a=([^,]*))?,\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)+)\x01")
_BEARER: Final = re.compile(r"(?i)bearer +([-_.~+/A-Za-z0-9]+=*)\s*")
_KEY: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x20-\x7e\t\r\n]+")


class AuthenticatedUser(NamedTuple):
    """The user of a token, and the token's expiry time in seconds since 1970."""

    user: str
    expires: float


class InvalidTokenError(SaslAuthenticationFailedError):
    """The token was rejected. `status`: the error code of RFC 6750."""

    def __init__(self, message: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


def first_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the client's first message. Raises ConfigurationError if an extension is invalid."""
    for name, value in extensions.items():
        if name == "auth" or not _KEY.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"sasl.jaas.config: extension {name!r} is not allowed: a name must have only letters and not be auth,"
                " a value only printable ASCII"
            )
    fields = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
    return "".join(["n,,", *(SEPARATOR + part for part in fields), SEPARATOR * 2]).encode()


class OAuthBearerServer:
    """The broker's side of one exchange. `user` and `expires` are set after success."""

    by_token = False

    def __init__(self, check: Callable[[str], AuthenticatedUser]) -> None:
        """`check`: returns the user of a token, or raises InvalidTokenError."""
        self.user: str | None = None
        self.claimed = ""
        self.expires: float | None = None
        self._check = check
        self._rejection: InvalidTokenError | None = None

    def step(self, message: bytes) -> bytes:
        """Return the answer to a message: empty for a valid token, the error as JSON for an invalid one.

        Raises SaslAuthenticationFailedError if the message is malformed, if its authorization id differs from the
        token's user, or if the previous answer was an error.
        """
        if self._rejection is not None:
            # the reason is for the broker's log; the client gets only the error code of RFC 6750
            raise SaslAuthenticationFailedError(_reason(self._rejection)) from self._rejection
        match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if match is None:
            raise SaslAuthenticationFailedError("Invalid OAUTHBEARER client first message")
        parts = dict(part.split("=", 1) for part in match[2].split(SEPARATOR) if part)
        bearer = _BEARER.fullmatch(parts.get("auth", ""))
        if bearer is None:
            raise SaslAuthenticationFailedError("Invalid OAUTHBEARER client first message: 'auth' has no bearer token")
        try:
            proven = self._check(bearer[1])
        except InvalidTokenError as error:
            self._rejection = error
            return _reason(error).encode()
        if match[1] not in (None, "", proven.user):
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name"
            )
        self.user, self.expires = proven
        return b""


def _reason(error: InvalidTokenError) -> str:
    status = {"status": error.status, "scope": error.scope}
    return json.dumps({name: value for name, value in status.items() if value is not None}, separators=(",", ":"))
