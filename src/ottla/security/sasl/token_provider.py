"""Where a client's tokens for OAUTHBEARER come from, and how long one is used.

By what is set: a provider of the program's own, an endpoint that gives tokens for a client's id and secret (KIP-768,
KIP-1139), a file, or, for tests as in Kafka, a token that nobody has signed. A token is used for new connections until
four fifths of its life are over; then another one is asked for.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.config.oauth import OAuthLoginConfig, file_of
from ottla.errors import ConfigurationError, SaslAuthenticationFailedError
from ottla.security.sasl.oauthbearer import first_message

REFRESHED: Final = 0.8
"""After which part of its life a token is replaced. Kafka's default of sasl.login.refresh.window.factor."""
UNSECURED: Final = "unsecuredLogin"
EXTENSION: Final = "extension_"
CLAIM_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "StringClaim_": str,
    "NumberClaim_": float,
    "ListClaim_": lambda value: [part for part in value[1:].split(value[:1]) if part] if value else [],
}
"""Claims of unsecured tokens by the beginnings of their options in a line of JAAS, as Kafka names them."""
DEFAULT_TIMEOUT_MS: Final = 10_000
"""How long an endpoint may take. Kafka's tools wait for ever."""
MAX_ANSWER_BYTES: Final = 1 << 20
RETRIED: Final = (408, 429, 500, 502, 503, 504)
"""Answers of an endpoint after which it is asked again."""


class Token(NamedTuple):
    """A token, when it was got and until when it holds (seconds since 1970; None: not known), and its extensions."""

    value: str
    begun: float
    expires: float | None
    extensions: Mapping[str, str]

    def is_fresh(self, now: float) -> bool:
        """Whether it is still used for new connections. One that does not say how long it holds is used once."""
        return self.expires is not None and now < self.begun + (self.expires - self.begun) * REFRESHED


class TokenEndpoint(NamedTuple):
    """Who gives tokens for a client's id and secret, and how long it is waited for."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None
    urlencode: bool
    """Whether id and secret are encoded in the header as RFC 6749 has it (`sasl.oauthbearer.header.urlencode`)."""
    timeout: float
    patience: float
    """For how many seconds it is tried again."""
    first_pause: float
    context: ssl.SSLContext | None


class TokenProvider:
    """The tokens of one client. On one loop; what blocks is done in a thread."""

    def __init__(self, get: Callable[[], Awaitable[str]], extensions: Mapping[str, str]) -> None:
        self._get = get
        self._extensions = dict(extensions)
        self._current: Token | None = None
        self._asking = asyncio.Lock()

    async def token(self) -> Token:
        """A token to show now. SaslAuthenticationFailedError where none is to be had."""
        async with self._asking:
            now = time.time()
            if self._current is None or not self._current.is_fresh(now):
                value = await self._get()
                self._current = Token(value, now, expiry(value), self._extensions)
            return self._current


def expiry(token: str) -> float | None:
    """Until when a token says that it holds; None for one that only its maker can read."""
    try:
        exp = json.loads(b64url_decode(token.split(".")[1])).get("exp")
    except (ValueError, IndexError, AttributeError):
        return None
    return float(exp) if isinstance(exp, int | float) and not isinstance(exp, bool) else None


def b64url_decode(part: str) -> bytes:
    """A part of a JWT. ValueError for what is none."""
    return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)


def b64url_encode(data: bytes) -> str:
    """The reverse."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def extensions_of(jaas: Mapping[str, str]) -> dict[str, str]:
    """The extensions that a line of JAAS names: `extension_<name>="<value>"`."""
    return {name[len(EXTENSION) :]: value for name, value in jaas.items() if name.startswith(EXTENSION)}


def token_provider(
    config: OAuthLoginConfig, jaas: Mapping[str, str], context: ssl.SSLContext | None = None
) -> TokenProvider:
    """By the options, over what a line of JAAS says besides. ConfigurationError where they are not enough.

    `context`: of TLS with the endpoint; None: the system's.
    """
    address, extensions = config.sasl_oauthbearer_token_endpoint_url, extensions_of(jaas)
    first_message("", extensions)  # here, so that what cannot be said is told at once
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
            "sasl.oauthbearer.token.endpoint.url: it gives tokens for an id and a secret; set"
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
        context,
    )
    return from_endpoint(endpoint, extensions)


# Sources


def from_callable(provider: Any) -> TokenProvider:
    """From a program's own: a function, or an object as kafka-python's and aiokafka's with `token()`; may be async."""
    get_token = provider if callable(provider) else getattr(provider, "token", None)
    if get_token is None:
        raise ConfigurationError(
            f"sasl.oauth.token.provider: {provider!r} is not allowed: a function, or an object with token(), is wanted"
        )

    async def get() -> str:
        try:
            token = await get_token() if inspect.iscoroutinefunction(get_token) else await asyncio.to_thread(get_token)
            if inspect.isawaitable(token):
                token = await token
        except Exception as error:  # a program's own code: it may raise anything, and whoever waits has to hear of it
            what = f"{type(error).__name__}: {error}"
            raise SaslAuthenticationFailedError(f"sasl.oauth.token.provider: {what}") from error
        if token == "":
            raise SaslAuthenticationFailedError("sasl.oauth.token.provider: the token is empty")
        if not isinstance(token, str):
            raise SaslAuthenticationFailedError(
                f"sasl.oauth.token.provider: a token as text is wanted, not {type(token).__name__}"
            )
        return token

    more = getattr(provider, "extensions", None)
    return TokenProvider(get, more() if callable(more) else {})


def from_endpoint(endpoint: TokenEndpoint, extensions: Mapping[str, str]) -> TokenProvider:
    """From who gives tokens (OAuth's client credentials grant)."""
    return TokenProvider(lambda: asyncio.to_thread(_granted, endpoint), extensions)


def from_file(path: Path, extensions: Mapping[str, str]) -> TokenProvider:
    """From a file that something else keeps up to date."""

    def read() -> str:
        try:
            return path.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise SaslAuthenticationFailedError(f"sasl.oauthbearer.token.endpoint.url: {path}: {error}") from None

    return TokenProvider(lambda: asyncio.to_thread(read), extensions)


def unsecured(jaas: Mapping[str, str]) -> TokenProvider:
    """Tokens without a signature, of what a line of JAAS claims: `unsecuredLoginStringClaim_sub="alice"`."""

    async def get() -> str:
        return unsecured_token(jaas)

    return TokenProvider(get, extensions_of(jaas))


def unsecured_token(jaas: Mapping[str, str]) -> str:
    """One such token. ConfigurationError where the line of JAAS does not say whose it is."""
    options = {name[len(UNSECURED) :]: value for name, value in jaas.items() if name.startswith(UNSECURED)}
    now, life = time.time(), options.get("LifetimeSeconds", "3600")
    if not life.isdigit():
        raise ConfigurationError(
            f"sasl.jaas.config: {UNSECURED}LifetimeSeconds: {life!r} is not allowed: seconds are wanted"
        )
    claims = {"iat": now, "exp": now + int(life)}
    for name, value in options.items():
        for start, parse in CLAIM_PARSERS.items():
            if name.startswith(start):
                claims[name[len(start) :]] = parse(value)
    principal = options.get("PrincipalClaimName", "sub")
    if principal not in claims:
        raise ConfigurationError(
            f'sasl.jaas.config: for OAUTHBEARER {UNSECURED}StringClaim_{principal}="…" is wanted, or'
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
        except (OSError, ValueError) as error:
            why, final = str(error), isinstance(error, ValueError)
        if final or time.monotonic() + pause > deadline:
            raise SaslAuthenticationFailedError(
                f"sasl.oauthbearer.token.endpoint.url: {endpoint.url} gives no token: {why}"
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
        raise ValueError("there is no access_token in its answer")
    return token
