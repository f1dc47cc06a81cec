"""The sources of a client's OAUTHBEARER tokens, and the reuse of a token.

Depending on the configs, the source is a function or object of the program, a token endpoint (client credentials grant,
KIP-768, KIP-1139), a file, or, for tests as in Kafka, a generator of unsigned tokens. A token is used for new
connections for four fifths of the time between its request and its expiry; without an expiry time, only once.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import inspect
import json
import math
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.config.oauth import OAuthLoginConfig, file_of
from ottla.config.tls import SslConfig, TlsConfig
from ottla.errors import ConfigurationError, SaslAuthenticationFailedError
from ottla.security.sasl.oauthbearer import first_message

REFRESHED: Final = 0.8
"""The fraction of the time between the request and the expiry of a token in which it is used for new connections:
Kafka's default of sasl.login.refresh.window.factor.
"""
UNSECURED: Final = "unsecuredLogin"
EXTENSION: Final = "extension_"


def _finite_number(text: str) -> float:
    """Parse a number. Raises ValueError if the text is not a finite number; JSON has no others."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not finite")
    return number


CLAIM_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "StringClaim_": str,
    "NumberClaim_": _finite_number,
    "ListClaim_": lambda value: [part for part in value[1:].split(value[:1]) if part] if value else [],
}
"""Parsers of the claims of unsigned tokens, by the part of a JAAS option between `unsecuredLogin` and the claim's name,
as in Kafka.
"""
DEFAULT_TIMEOUT_MS: Final = 10_000
"""Default timeout in milliseconds of requests to the token endpoint. Kafka has none by default."""
MAX_ANSWER_BYTES: Final = 1 << 20
RETRIED: Final = (408, 429, 500, 502, 503, 504)
"""Status codes of a token endpoint after which the request is retried."""


class Token(NamedTuple):
    """A token with the times of its request (`begun`) and expiry (`expires`; None if unknown) in seconds since 1970,
    and its extensions.
    """

    value: str
    begun: float
    expires: float | None
    extensions: Mapping[str, str]

    def is_fresh(self, now: float) -> bool:
        """Return whether the token may be used for further connections.

        A token without an expiry time is used only once.
        """
        return self.expires is not None and now < self.begun + (self.expires - self.begun) * REFRESHED


class TokenEndpoint(NamedTuple):
    """A token endpoint with client id and secret. Times are in seconds."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None
    urlencode: bool
    """Whether client id and secret are URL-encoded in the header (RFC 6749; `sasl.oauthbearer.header.urlencode`)."""
    timeout: float
    patience: float
    """The maximum time for which a failed request is retried."""
    first_pause: float
    context: ssl.SSLContext | None


class TokenProvider:
    """Provides the tokens of one client. Not thread-safe: event loop only; blocking work is done in a thread."""

    def __init__(self, get: Callable[[], Awaitable[str]], extensions: Mapping[str, str]) -> None:
        self._get = get
        self._extensions = dict(extensions)
        self._current: Token | None = None
        self._asking = asyncio.Lock()

    async def token(self) -> Token:
        """Return a token for a new connection: the last one while it is fresh, otherwise one from the source.

        Raises SaslAuthenticationFailedError if that fails.
        """
        async with self._asking:
            now = time.time()
            if self._current is None or not self._current.is_fresh(now):
                value = await self._get()
                self._current = Token(value, now, expiry(value), self._extensions)
            return self._current


def expiry(token: str) -> float | None:
    """Return the expiry time of a JWT in seconds since 1970; None if it has no valid one or the token is opaque."""
    try:
        exp = json.loads(b64url_decode(token.split(".")[1])).get("exp")
        return float(exp) if isinstance(exp, int | float) and not isinstance(exp, bool) else None
    except (ValueError, IndexError, AttributeError, OverflowError, RecursionError):
        return None


def b64url_decode(part: str) -> bytes:
    """Decode a part of a JWT (base64url without padding). Raises ValueError if it is malformed."""
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def b64url_encode(data: bytes) -> str:
    """Encode a part of a JWT (base64url without padding)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def extensions_of(jaas: Mapping[str, str]) -> dict[str, str]:
    """Return the extensions in a JAAS line: `extension_<name>="<value>"`."""
    return {name[len(EXTENSION) :]: value for name, value in jaas.items() if name.startswith(EXTENSION)}


def token_provider(
    config: OAuthLoginConfig, jaas: Mapping[str, str], context: ssl.SSLContext | None = None
) -> TokenProvider:
    """Build the provider from configs and the JAAS line. For client id, client secret and scope, configs take
    precedence.

    Raises ConfigurationError if a config is missing or invalid.

    `context`: TLS context for the token endpoint, unless the JAAS line has ssl options for it, as in Kafka. None: the
    system's default.
    """
    address, extensions = config.sasl_oauthbearer_token_endpoint_url, extensions_of(jaas)
    first_message("", extensions)  # checks the extensions early
    if address is None:
        unsecured_token(jaas)
        return unsecured(jaas)
    path = file_of(address)
    if path is not None:
        return from_file(path, extensions)
    client_id = config.sasl_oauthbearer_client_credentials_client_id or jaas.get("clientId")
    secret = config.sasl_oauthbearer_client_credentials_client_secret or jaas.get("clientSecret")
    if not client_id or secret is None:
        raise ConfigurationError(
            "sasl.oauthbearer.token.endpoint.url requires a client id and secret; set"
            " sasl.oauthbearer.client.credentials.client.id and .client.secret, or clientId and clientSecret in"
            " sasl.jaas.config"
        )
    waits = [ms for ms in (config.sasl_login_connect_timeout_ms, config.sasl_login_read_timeout_ms) if ms is not None]
    endpoint = TokenEndpoint(
        address,
        client_id,
        secret,
        config.sasl_oauthbearer_scope or jaas.get("scope"),
        config.sasl_oauthbearer_header_urlencode,
        max(waits, default=DEFAULT_TIMEOUT_MS) / 1000,
        config.sasl_login_retry_backoff_max_ms / 1000,
        config.sasl_login_retry_backoff_ms / 1000,
        jaas_tls_context(jaas) or context,
    )
    return from_endpoint(endpoint, extensions)


def jaas_tls_context(jaas: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context for the ssl options in a JAAS line; None if there are none."""
    options = {name: value for name, value in jaas.items() if name in SslConfig.options}
    if not options:
        return None
    from ottla.security.tls.contexts import client_context  # imported here, as few programs use it

    return client_context(TlsConfig(options))


# sources


def from_callable(provider: Any) -> TokenProvider:
    """Build the provider that calls a function, or the method `token()` of an object, as for kafka-python and aiokafka.

    Either may be async. Raises ConfigurationError if `provider` is not callable and has no `token`.
    """
    get_token = provider if callable(provider) else getattr(provider, "token", None)
    if get_token is None:
        raise ConfigurationError(
            f"sasl.oauth.token.provider: {provider!r} is not allowed, it must be a function or an object with token()"
        )

    async def get() -> str:
        try:
            token = await get_token() if inspect.iscoroutinefunction(get_token) else await asyncio.to_thread(get_token)
            if inspect.isawaitable(token):
                token = await token
        except Exception as error:
            # the program's code may raise any error, which the connection attempt must report
            what = f"{type(error).__name__}: {error}"
            raise SaslAuthenticationFailedError(f"sasl.oauth.token.provider: {what}") from error
        if token == "":
            raise SaslAuthenticationFailedError("sasl.oauth.token.provider returned an empty token")
        if not isinstance(token, str):
            raise SaslAuthenticationFailedError(
                f"sasl.oauth.token.provider returned {type(token).__name__} instead of text"
            )
        return token

    more = getattr(provider, "extensions", None)
    return TokenProvider(get, more() if callable(more) else {})


def from_endpoint(endpoint: TokenEndpoint, extensions: Mapping[str, str]) -> TokenProvider:
    """Build the provider that gets tokens from an endpoint (OAuth's client credentials grant)."""
    return TokenProvider(lambda: asyncio.to_thread(_granted, endpoint), extensions)


def from_file(path: Path, extensions: Mapping[str, str]) -> TokenProvider:
    """Build the provider that gets tokens from a file, which another program keeps up to date."""

    def read() -> str:
        try:
            return path.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise SaslAuthenticationFailedError(f"sasl.oauthbearer.token.endpoint.url: {path}: {error}") from None

    return TokenProvider(lambda: asyncio.to_thread(read), extensions)


def unsecured(jaas: Mapping[str, str]) -> TokenProvider:
    """Build the provider of unsigned tokens with the claims in a JAAS line: `unsecuredLoginStringClaim_sub="alice"`."""

    async def get() -> str:
        return unsecured_token(jaas)

    return TokenProvider(get, extensions_of(jaas))


def unsecured_token(jaas: Mapping[str, str]) -> str:
    """Return an unsigned token with the claims in a JAAS line. Raises ConfigurationError if the line has no user, or an
    invalid lifetime or number.
    """
    options = {name[len(UNSECURED) :]: value for name, value in jaas.items() if name.startswith(UNSECURED)}
    now, life = time.time(), options.get("LifetimeSeconds", "3600")
    if not (life.isascii() and life.isdigit()):
        raise ConfigurationError(
            f"sasl.jaas.config: {UNSECURED}LifetimeSeconds: {life!r} is not allowed, it must be a number of seconds"
        )
    claims = {"iat": now, "exp": now + int(life)}
    for name, value in options.items():
        for start, parse in CLAIM_PARSERS.items():
            if name.startswith(start):
                try:
                    claims[name[len(start) :]] = parse(value)
                except ValueError:
                    raise ConfigurationError(
                        f"sasl.jaas.config: {UNSECURED}{name}: {value!r} is not allowed, it must be a number; use"
                        f" {UNSECURED}StringClaim_{name[len(start) :]} for a text"
                    ) from None
    principal = options.get("PrincipalClaimName", "sub")
    if principal not in claims:
        raise ConfigurationError(
            f'sasl.jaas.config: OAUTHBEARER requires {UNSECURED}StringClaim_{principal}="…", or'
            " sasl.oauthbearer.token.endpoint.url or sasl_oauth_token_provider"
        )
    return ".".join((b64url_encode(b'{"alg":"none"}'), b64url_encode(json.dumps(claims).encode()), ""))


def _granted(endpoint: TokenEndpoint) -> str:
    deadline, pause = time.monotonic() + endpoint.patience, endpoint.first_pause
    while True:
        try:
            return _fetch_token(endpoint)
        except urllib.error.HTTPError as error:
            why, final = f"{error.code} {error.reason}", error.code not in RETRIED
        except (OSError, ValueError, http.client.HTTPException) as error:
            why, final = str(error), isinstance(error, ValueError | http.client.InvalidURL)
        if final or time.monotonic() + pause > deadline:
            raise SaslAuthenticationFailedError(
                f"sasl.oauthbearer.token.endpoint.url: cannot get a token from {endpoint.url}: {why}"
            )
        time.sleep(pause)
        pause *= 2


def _fetch_token(endpoint: TokenEndpoint) -> str:
    name, secret = endpoint.client_id, endpoint.client_secret
    if endpoint.urlencode:
        name, secret = urllib.parse.quote_plus(name), urllib.parse.quote_plus(secret)
    form = {"grant_type": "client_credentials", **({"scope": endpoint.scope} if endpoint.scope else {})}
    request = urllib.request.Request(
        endpoint.url,
        urllib.parse.urlencode(form).encode(),
        {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    with urllib.request.urlopen(request, timeout=endpoint.timeout, context=endpoint.context) as answer:
        body = json.loads(answer.read(MAX_ANSWER_BYTES))
    token = body.get("access_token") if isinstance(body, dict) else None
    if not isinstance(token, str) or not token:
        raise ValueError("the response has no access_token")
    return token
