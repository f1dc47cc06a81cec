"""Options of OAUTHBEARER: the source of a client's tokens, and the rules by which a broker validates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.config.options import Config, Option, boolean, integer, nullable, text, words

if TYPE_CHECKING:
    from pathlib import Path


def url(value: Any) -> str:
    """Check that a value is a URL with the scheme http, https or file, and return it."""
    from urllib.parse import urlsplit  # imported here, as few programs use tokens

    parts = urlsplit(text(value))
    if not (parts.scheme in ("http", "https") and parts.hostname) and not (parts.scheme == "file" and parts.path):
        raise ValueError("expected http://…, https://… or file:///…")
    return text(value)


def file_of(address: str) -> Path | None:
    """Return the path of a file URL, or None for any other URL."""
    from pathlib import Path  # as above
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


class OAuthLoginConfig(Config):
    """The source of tokens, for clients and for connections between brokers."""

    sasl_oauthbearer_token_endpoint_url: Final = Option[str | None](
        None,
        nullable(url),
        "OAUTHBEARER: URL of the endpoint that issues tokens (client credentials grant), or file:///… for a file "
        "with a token. Without it, and without sasl.oauth.token.provider, tokens are unsigned and have the claims in"
        " sasl.jaas.config, which is for tests only.",
    )
    sasl_oauthbearer_client_credentials_client_id: Final = Option[str | None](
        None, nullable(text), "Client id for the token endpoint; not set: clientId in sasl.jaas.config."
    )
    sasl_oauthbearer_client_credentials_client_secret: Final = Option[str | None](
        None, nullable(text), "Client secret for the token endpoint; not set: clientSecret in sasl.jaas.config."
    )
    sasl_oauthbearer_scope: Final = Option[str | None](
        None, nullable(text), "Scope to request for the token; not set: scope in sasl.jaas.config, if any."
    )
    sasl_oauthbearer_header_urlencode: Final = Option(
        False,
        boolean,
        "Whether client id and secret are URL-encoded for the token endpoint (RFC 6749), as some endpoints require.",
    )
    sasl_login_connect_timeout_ms: Final = Option[int | None](
        None,
        nullable(integer(1)),
        "Timeout in milliseconds of requests to the token endpoint. If sasl.login.read.timeout.ms is also set, the "
        "longer of the two applies; if neither is set, 10 seconds.",
    )
    sasl_login_read_timeout_ms: Final = Option[int | None](
        None,
        nullable(integer(1)),
        "Timeout in milliseconds of requests to the token endpoint. If sasl.login.connect.timeout.ms is also set, the "
        "longer of the two applies; if neither is set, 10 seconds.",
    )
    sasl_login_retry_backoff_ms: Final = Option(
        100,
        integer(0),
        "Delay in milliseconds before the first retry of a failed request to the token endpoint; it doubles with "
        "each further retry.",
    )
    sasl_login_retry_backoff_max_ms: Final = Option(
        10_000,
        integer(0),
        "Maximum time in milliseconds, all retries together, for which a failed request to the token endpoint is "
        "retried.",
    )


class OAuthCheckConfig(Config):
    """The rules by which a broker validates tokens."""

    sasl_oauthbearer_jwks_endpoint_url: Final = Option[str | None](
        None,
        nullable(url),
        "OAUTHBEARER: URL of the keys (JWKS) that verify tokens, or file:///… for a file. If it is not set, unsigned "
        "tokens are accepted, as in Kafka; anyone can forge them, so this is for tests only.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Final = Option(
        3_600_000,
        integer(0),
        "Time in milliseconds after the last refresh of the keys, successful or not, after which the next token starts "
        "another one in the background. Until one succeeds, the previous keys are used. No effect without "
        "sasl.oauthbearer.jwks.endpoint.url.",
    )
    sasl_oauthbearer_expected_audience: Final = Option[tuple[str, ...]](
        (),
        words(),
        "Audiences (aud claim) of which a signed token must have one, separated by commas; empty: any audience is "
        "accepted.",
    )
    sasl_oauthbearer_expected_issuer: Final = Option[str | None](
        None, nullable(text), "Issuer (iss claim) that a signed token must have; not set: any issuer is accepted."
    )
    sasl_oauthbearer_scope_claim_name: Final = Option(
        "scope", text, "No effect (accepted for compatibility): the scope of signed tokens is not validated."
    )
    sasl_oauthbearer_sub_claim_name: Final = Option(
        "sub", text, "Name of the claim of a signed token that contains the user's name."
    )
    sasl_oauthbearer_clock_skew_seconds: Final = Option(
        30,
        integer(0),
        "Time in seconds by which the clocks may differ when the times in a signed token are checked, so that a "
        "token is accepted for so long after its expiry.",
    )
