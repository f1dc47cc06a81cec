"""Which tokens of OAUTHBEARER a listener takes: those signed with a known key (KIP-768), or, for tests, any at all.

Without `sasl.oauthbearer.jwks.endpoint.url` a token needs no signature, as in Kafka, and anybody can make one. With it
the signature counts, and who made the token for whom where that is set. Keys are read when the broker starts, again
after some time, and at once when a token names one that is not known, but not more often than every few seconds.
PyJWT checks signatures and claims.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla.config.oauth import OAuthCheckConfig, file_of
from ottla.errors import ConfigurationError, StartupError
from ottla.security.sasl.oauthbearer import AuthenticatedUser, InvalidTokenError
from ottla.security.sasl.token_provider import b64url_decode

log = logging.getLogger("ottla.net")

UNSECURED: Final = "unsecuredValidator"
"""How the options of a line of JAAS begin that are about tokens without a signature."""
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*RSA_ALGORITHMS, "ES256", "ES384", "ES512", "EdDSA")
"""Signatures that are taken: by a pair of keys, as a secret that brokers share could be used to make tokens."""
KEYS_TIMEOUT_SECONDS: Final = 10.0
MAX_KEYS_BYTES: Final = 1 << 20
UNKNOWN_KEY_PAUSE_SECONDS: Final = 10.0
"""Tokens that name unknown keys have the keys read again no more often than this."""


class _Key(NamedTuple):
    """A public key, what the set calls it, and the algorithms of signatures that it is good for."""

    name: str | None
    key: Any
    algorithms: tuple[str, ...]


class UnsecuredJwtValidator:
    """Takes tokens without a signature, which claim whatever they like. Kafka's OAuthBearerUnsecuredValidator."""

    def __init__(self, jaas: Mapping[str, str], now: Callable[[], float] = time.time) -> None:
        """ConfigurationError for options that cannot be used."""
        self._principal = jaas.get(f"{UNSECURED}PrincipalClaimName", "sub")
        self._scope = jaas.get(f"{UNSECURED}ScopeClaimName", "scope")
        self._required = frozenset(jaas.get(f"{UNSECURED}RequiredScope", "").split())
        skew = jaas.get(f"{UNSECURED}AllowableClockSkewMs", "0")
        if not skew.isdigit():
            raise ConfigurationError(
                f"{UNSECURED}AllowableClockSkewMs: {skew!r} is not allowed: milliseconds are wanted"
            )
        self._skew = int(skew) / 1000
        self._now = now

    def check(self, token: str) -> AuthenticatedUser:
        """Whose the token claims to be. InvalidTokenError where it cannot be read or is out of date."""
        header, claims = _parts(token)
        if header.get("alg") != "none" or not token.endswith(".") or token.count(".") != 2:
            raise InvalidTokenError("the token is signed, and sasl.oauthbearer.jwks.endpoint.url is not set")
        user, expires = claims.get(self._principal), _time(claims, "exp")
        if not isinstance(user, str) or not user:
            raise InvalidTokenError(f"the claim {self._principal} says nothing of whose the token is")
        if expires is None or expires + self._skew <= self._now():
            raise InvalidTokenError("the token has expired, or does not say when it will")
        begun = _time(claims, "iat")
        if begun is not None and (begun - self._skew > self._now() or begun >= expires):
            raise InvalidTokenError("the token was made in the future")
        missing = self._required - scopes(claims, self._scope)
        if missing:
            raise InvalidTokenError(
                f"the token is not for {', '.join(sorted(missing))}",
                "insufficient_scope",
                " ".join(sorted(self._required)),
            )
        return AuthenticatedUser(user, expires)


class JwtValidator:
    """Takes tokens that are signed with one of the keys. Asked from the loop; keys are read again in a thread."""

    def __init__(self, config: OAuthCheckConfig) -> None:
        """Read the keys. StartupError where there are none, or no library that checks signatures."""
        try:
            import jwt
        except ImportError:
            raise StartupError(
                "sasl.oauthbearer.jwks.endpoint.url: checking signatures needs PyJWT: pip install 'ottla[oauth]'"
            ) from None
        self._jwt = jwt
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None
        self._url: str = config.sasl_oauthbearer_jwks_endpoint_url
        self._config = config
        self._reading: threading.Thread | None = None
        try:
            self._keys = self._read()
        except (OSError, ValueError, TypeError, KeyError) as error:
            why = getattr(error, "strerror", None) or error
            raise StartupError(f"sasl.oauthbearer.jwks.endpoint.url: no keys at {self._url}: {why}") from None
        self._read_at = time.monotonic()

    def check(self, token: str) -> AuthenticatedUser:
        """Whose the token is. InvalidTokenError where it is not signed, not for us, or out of date."""
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
        except (jwt.PyJWTError, ValueError) as error:
            raise InvalidTokenError(str(error)) from None
        user = claims.get(sub)
        if not isinstance(user, str) or not user:
            raise InvalidTokenError(f"the claim {sub} says nothing of whose the token is")
        return AuthenticatedUser(user, float(claims["exp"]))

    def _key(self, token: str) -> _Key:
        """The key that a token names, or the only one."""
        age = time.monotonic() - self._read_at
        if age > self._config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000:
            self._read_again()
        name = self._jwt.get_unverified_header(token).get("kid")
        keys = [key for key in self._keys if key.name == name] if name is not None else self._keys
        if len(keys) != 1:
            if age > UNKNOWN_KEY_PAUSE_SECONDS:
                self._read_again()
            raise InvalidTokenError(f"the token is signed with a key that is not known ({name})")
        return keys[0]

    def _read_again(self) -> None:
        """In a thread: the loop does not wait for it, and tokens are checked with the keys of before meanwhile."""
        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=self._renew, name="ottla-jwks", daemon=True)
            self._reading.start()

    def _renew(self) -> None:
        self._read_at = time.monotonic()
        try:
            self._keys = self._read()
        except (OSError, ValueError, TypeError, KeyError) as error:
            log.warning("the keys at %s cannot be read again: %s", self._url, error)

    def _read(self) -> list[_Key]:
        path = file_of(self._url)
        if path is not None:
            content = path.read_bytes()
        else:
            with urllib.request.urlopen(self._url, timeout=KEYS_TIMEOUT_SECONDS) as answer:
                content = answer.read(MAX_KEYS_BYTES)
        keys = list(filter(None, map(self._usable, json.loads(content)["keys"])))
        if not keys:
            raise ValueError("there is none that signatures can be checked with")
        return keys

    def _usable(self, described: dict[str, Any]) -> _Key | None:
        """Return a key of the set; None for one that is not for signatures, or of a kind that is not accepted."""
        try:
            key = self._jwt.PyJWK(described)
        except (self._jwt.PyJWTError, AttributeError):
            return None
        if described.get("use") not in ("sig", None) or key.algorithm_name not in ALGORITHMS:
            return None
        # Without "alg" an RSA key is good for every algorithm of RSA (RFC 7517, 4.4); others have it from their curve.
        any_of_rsa = described.get("kty") == "RSA" and not described.get("alg")
        return _Key(described.get("kid"), key.key, RSA_ALGORITHMS if any_of_rsa else (key.algorithm_name,))


def scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """What a token is good for: a text with blanks, or a list."""
    value = claims.get(name, [])
    return frozenset(value.split() if isinstance(value, str) else map(str, value if isinstance(value, list) else ()))


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        header, claims = (json.loads(b64url_decode(part)) for part in token.split(".")[:2])
    except (ValueError, RecursionError):
        raise InvalidTokenError("the token cannot be read") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise InvalidTokenError("the token cannot be read")
    return header, claims


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    """A time in seconds since 1970; None where there is none."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidTokenError(f"the claim {name} is no time")
    return float(value)
