"""Validation of OAUTHBEARER tokens in the broker: tokens signed with a known key (KIP-768) or, for tests, unsigned
ones.

If `sasl.oauthbearer.jwks.endpoint.url` is not set, tokens are unsigned, as in Kafka, so anyone can create one. If it is
set, the signature and the expiry time are verified, and issuer and audience if they are configured. Keys are loaded
when the listener is created. They are refreshed when a token arrives and the last refresh is longer ago than
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, or when a token with an unknown key is rejected and the last refresh is
longer ago than 10 seconds. PyJWT verifies the signatures.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any, Final, NamedTuple

from ottla.config.oauth import OAuthCheckConfig, file_of
from ottla.errors import ConfigurationError, StartupError
from ottla.security.sasl.oauthbearer import AuthenticatedUser, InvalidTokenError
from ottla.security.sasl.token_provider import b64url_decode

log = logging.getLogger("ottla.net")

UNSECURED: Final = "unsecuredValidator"
"""The prefix of the JAAS options for the validation of unsigned tokens."""
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, "ES256", "ES384", "ES512", "EdDSA")
"""The accepted signature algorithms.

Only asymmetric ones are accepted, because with a shared secret brokers could create tokens.
"""
KEYS_TIMEOUT_SECONDS: Final = 10.0
MAX_KEYS_BYTES: Final = 1 << 20
UNKNOWN_KEY_PAUSE_SECONDS: Final = 10.0
"""Minimum time in seconds after a refresh of the keys before a token with an unknown key causes another refresh.
"""
READ_ERRORS: Final = (OSError, HTTPException, ValueError, TypeError, KeyError)
"""The errors of reading keys: HTTPException if the endpoint does not answer with HTTP, KeyError for missing fields."""
MAX_TIME: Final = 1e15
"""The latest valid time in a claim, in seconds since 1970. A larger integer may be too large for a float."""


class _Key(NamedTuple):
    """A public key, its id in the set, and its algorithms."""

    name: str | None
    key: Any
    algorithms: tuple[str, ...]


class UnsecuredJwtValidator:
    """Validates unsigned tokens, like Kafka's OAuthBearerUnsecuredValidatorCallbackHandler: their format, their times
    of issue and expiry, and their scope.
    """

    def __init__(self, jaas: Mapping[str, str], now: Callable[[], float] = time.time) -> None:
        """Read the options of a JAAS line. Raises ConfigurationError if the allowable clock skew is invalid."""
        self._principal = jaas.get(f"{UNSECURED}PrincipalClaimName", "sub")
        self._scope = jaas.get(f"{UNSECURED}ScopeClaimName", "scope")
        self._required = frozenset(jaas.get(f"{UNSECURED}RequiredScope", "").split())
        skew = jaas.get(f"{UNSECURED}AllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdigit()):
            raise ConfigurationError(
                f"{UNSECURED}AllowableClockSkewMs: {skew!r} is not allowed, it must be a number of milliseconds"
            )
        self._skew = int(skew) / 1000
        self._now = now

    def check(self, token: str) -> AuthenticatedUser:
        """Return the user that the token claims, and the token's expiry time.

        Raises InvalidTokenError if the token is malformed or signed; if, allowing for the clock skew, it has expired or
        was issued in the future; if its time of issue is not earlier than its expiry time; or if it lacks a user, an
        expiry time or a required scope.
        """
        header, claims = _parts(token)
        if header.get("alg") != "none" or not token.endswith(".") or token.count(".") != 2:
            raise InvalidTokenError("the token is signed, but sasl.oauthbearer.jwks.endpoint.url is not set")
        user, expires = claims.get(self._principal), _time(claims, "exp")
        if not isinstance(user, str) or not user:
            raise InvalidTokenError(f"the token has no user in the claim {self._principal}")
        if expires is None or expires + self._skew <= self._now():
            raise InvalidTokenError("the token has expired, or has no expiry time")
        begun = _time(claims, "iat")
        if begun is not None and (begun - self._skew > self._now() or begun >= expires):
            raise InvalidTokenError("the token was issued in the future")
        missing = self._required - scopes(claims, self._scope)
        if missing:
            raise InvalidTokenError(
                f"the token lacks the scope {', '.join(sorted(missing))}",
                "insufficient_scope",
                " ".join(sorted(self._required)),
            )
        return AuthenticatedUser(user, expires)


class JwtValidator:
    """Validates tokens that are signed with a key of `sasl.oauthbearer.jwks.endpoint.url`. The keys are refreshed in a
    thread.
    """

    def __init__(self, config: OAuthCheckConfig, context: ssl.SSLContext | None = None) -> None:
        """Load the keys. Raises StartupError if that fails, or if PyJWT is not installed.

        `context`: TLS context for the endpoint of the keys; None: the system's default.
        """
        try:
            import jwt
        except ImportError:
            raise StartupError(
                "sasl.oauthbearer.jwks.endpoint.url: verifying signatures requires PyJWT: pip install 'ottla[oauth]'"
            ) from None
        self._jwt = jwt
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None
        self._url: str = config.sasl_oauthbearer_jwks_endpoint_url
        self._config = config
        self._context = context
        self._reading: threading.Thread | None = None
        try:
            self._keys = self._read()
        except READ_ERRORS as error:
            why = getattr(error, "strerror", None) or error
            raise StartupError(f"sasl.oauthbearer.jwks.endpoint.url: no keys at {self._url}: {why}") from None
        self._read_at = time.monotonic()

    def check(self, token: str) -> AuthenticatedUser:
        """Return the token's user and expiry time.

        Raises InvalidTokenError if the token is malformed, its key is unknown, its signature or a claim is invalid, or
        it lacks an expiry time or a user.
        """
        jwt, config = self._jwt, self._config
        audience, issuer = config.sasl_oauthbearer_expected_audience, config.sasl_oauthbearer_expected_issuer
        sub = config.sasl_oauthbearer_sub_claim_name
        try:
            key = self._key(token)
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=list(audience) or None,
                issuer=issuer,
                leeway=config.sasl_oauthbearer_clock_skew_seconds,
                options={"require": ["exp"], "verify_aud": bool(audience), "verify_sub": False},
            )
            expires = float(claims["exp"])
        except (jwt.PyJWTError, ValueError, OverflowError) as error:  # PyJWT converts any number to an integer
            raise InvalidTokenError(str(error)) from None
        user = claims.get(sub)
        if not isinstance(user, str) or not user:
            raise InvalidTokenError(f"the token has no user in the claim {sub}")
        return AuthenticatedUser(user, expires)

    def _key(self, token: str) -> _Key:
        """Return the key that a token names; if it names none, the only key. If a refresh of the keys is due, start
        it. Raises InvalidTokenError if not exactly one key matches.
        """
        age = time.monotonic() - self._read_at
        if age > self._config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000:
            self._read_again()
        name = self._jwt.get_unverified_header(token).get("kid")
        keys = [key for key in self._keys if key.name == name] if name is not None else self._keys
        if len(keys) != 1:
            if age > UNKNOWN_KEY_PAUSE_SECONDS:
                self._read_again()
            raise InvalidTokenError(f"the token is signed with an unknown key ({name})")
        return keys[0]

    def _read_again(self) -> None:
        """Refresh the keys in a thread, unless a refresh is running. Until it succeeds, the previous keys are used."""
        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=self._renew, name="ottla-jwks", daemon=True)
            self._reading.start()

    def _renew(self) -> None:
        self._read_at = time.monotonic()
        try:
            self._keys = self._read()
        except READ_ERRORS as error:
            log.warning(
                "Cannot refresh the keys at %s; the previous keys stay in use until a refresh succeeds: %s: %s",
                self._url,
                type(error).__name__,
                error,
            )

    def _read(self) -> list[_Key]:
        path = file_of(self._url)
        if path is not None:
            content = path.read_bytes()
        else:
            with urllib.request.urlopen(self._url, timeout=KEYS_TIMEOUT_SECONDS, context=self._context) as answer:
                content = answer.read(MAX_KEYS_BYTES)
        keys = list(filter(None, map(self._usable, json.loads(content)["keys"])))
        if not keys:
            raise ValueError("there is no key for verifying signatures")
        return keys

    def _usable(self, described: dict[str, Any]) -> _Key | None:
        """Return a key of the key set; None if tokens cannot be verified with it."""
        try:
            key = self._jwt.PyJWK(described)
        except (self._jwt.PyJWTError, AttributeError):
            return None
        if described.get("use") not in ("sig", None) or key.algorithm_name not in ALGORITHMS:
            return None
        # Without "alg", an RSA key is valid for every RSA algorithm (RFC 7517, 4.4). The curve of other keys determines
        # the algorithm.
        any_of_rsa = described.get("kty") == "RSA" and not described.get("alg")
        return _Key(described.get("kid"), key.key, RSA_ALGORITHMS if any_of_rsa else (key.algorithm_name,))


def scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes in a token's claim, which may be a space-separated string or a list."""
    value = claims.get(name, [])
    return frozenset(value.split() if isinstance(value, str) else map(str, value if isinstance(value, list) else ()))


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        header, claims = (json.loads(b64url_decode(part)) for part in token.split(".")[:2])
    except (ValueError, RecursionError):
        raise InvalidTokenError("the token is malformed") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidTokenError("the token is malformed")
    return header, claims


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """Return the time in a claim in seconds since 1970; None if the claim is missing or null.

    Raises InvalidTokenError if the claim is not a valid time.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_TIME <= value <= MAX_TIME:
        raise InvalidTokenError(f"the claim {name} is not a time")
    return float(value)
