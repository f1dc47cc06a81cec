"""SASL OAUTHBEARER (RFC 7628, KIP-255) without I/O: a client shows a token by somebody whom the broker trusts.

The client's one message has the token and perhaps extensions (KIP-342). A broker that does not take it answers with
JSON that says why, hears one more byte, and ends the exchange.
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
    """What a token says: whose it is, and until when it holds, in seconds since 1970."""

    user: str
    expires: float


class InvalidTokenError(SaslAuthenticationFailedError):
    """A token that is not taken; `status` is what RFC 6750 calls the reason."""

    def __init__(self, message: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


def first_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """What a client says. ConfigurationError for extensions that cannot be said."""
    for name, value in extensions.items():
        if name == "auth" or not _KEY.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigurationError(
                f"sasl.jaas.config: extension {name!r} is not allowed: its name has letters only and is not auth,"
                " its value has printable ASCII"
            )
    fields = [f"auth=Bearer {token}", *(f"{name}={value}" for name, value in extensions.items())]
    return "".join(["n,,", *(SEPARATOR + part for part in fields), SEPARATOR * 2]).encode()


class OAuthBearerServer:
    """The broker's side of one exchange. `user` and `expires` are set when all is well."""

    def __init__(self, check: Callable[[str], AuthenticatedUser]) -> None:
        """`check` says whose a token is; InvalidTokenError where it is not taken."""
        self.user: str | None = None
        self.expires: float | None = None
        self._check = check
        self._refusal: InvalidTokenError | None = None

    def step(self, message: bytes) -> bytes:
        """The answer: nothing for a good token, the reason for another; who has heard that is refused."""
        if self._refusal is not None:
            # why is for the broker's log; who shows a token that is not taken is told what RFC 6750 has words for
            raise SaslAuthenticationFailedError(_reason(self._refusal)) from self._refusal
        match = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if match is None:
            raise SaslAuthenticationFailedError("Invalid OAUTHBEARER client first message")
        parts = dict(part.split("=", 1) for part in match[2].split(SEPARATOR) if part)
        bearer = _BEARER.fullmatch(parts.get("auth", ""))
        if bearer is None:
            raise SaslAuthenticationFailedError("Invalid OAUTHBEARER client first message: 'auth' is no bearer token")
        try:
            proven = self._check(bearer[1])
        except InvalidTokenError as error:
            self._refusal = error
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
