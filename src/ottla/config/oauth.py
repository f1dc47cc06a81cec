"""Options of OAUTHBEARER: where a client, or a broker among brokers, has its tokens from, and which a broker takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.config.options import Config, Option, boolean, integer, nullable, text, words

if TYPE_CHECKING:
    from pathlib import Path


def url(value: Any) -> str:
    """The address of something on the web, or of a file."""
    from urllib.parse import urlsplit  # few programs have tokens, and none that has not should wait for this

    parts = urlsplit(text(value))
    if not (parts.scheme in ("http", "https") and parts.hostname) and not (parts.scheme == "file" and parts.path):
        raise ValueError("http://…, https://… or file:///… is wanted")
    return text(value)


def file_of(address: str) -> Path | None:
    """The file that a URL names; None for one on the web."""
    from pathlib import Path  # as above
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


class OAuthLoginConfig(Config):
    """Where tokens come from."""

    sasl_oauthbearer_token_endpoint_url = Option[str | None](
        None, nullable(url), "OAUTHBEARER: who gives tokens for a client's id and secret; file:///…: a file has one."
    )
    sasl_oauthbearer_client_credentials_client_id = Option[str | None](
        None, nullable(text), "The client's id there; also clientId in sasl.jaas.config."
    )
    sasl_oauthbearer_client_credentials_client_secret = Option[str | None](
        None, nullable(text), "The client's secret there; also clientSecret in sasl.jaas.config."
    )
    sasl_oauthbearer_scope = Option[str | None](
        None, nullable(text), "What the token is to be good for; also scope in sasl.jaas.config."
    )
    sasl_oauthbearer_header_urlencode = Option(
        False, boolean, "Encode id and secret as RFC 6749 has it, which some endpoints want."
    )
    sasl_login_connect_timeout_ms = Option[int | None](
        None, nullable(integer(1)), "How long the endpoint may take; none: 10 seconds."
    )
    sasl_login_read_timeout_ms = Option[int | None](None, nullable(integer(1)), "The same; the longer of both counts.")
    sasl_login_retry_backoff_ms = Option(100, integer(0), "First pause before the endpoint is asked again.")
    sasl_login_retry_backoff_max_ms = Option(10_000, integer(0), "How long it is asked again after failures.")


class OAuthCheckConfig(Config):
    """Which tokens a broker takes."""

    sasl_oauthbearer_jwks_endpoint_url = Option[str | None](
        None,
        nullable(url),
        "OAUTHBEARER: the keys (JWKS) that tokens are signed with. Without it, as in Kafka, tokens without a signature"
        " are taken, which anybody can make: for tests only.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Option(3_600_000, integer(0), "How often the keys are read again.")
    sasl_oauthbearer_expected_audience = Option[tuple[str, ...]]((), words(), "Tokens have to be for one of these.")
    sasl_oauthbearer_expected_issuer = Option[str | None](None, nullable(text), "Tokens have to be made by this one.")
    sasl_oauthbearer_scope_claim_name = Option("scope", text, "The claim that says what a token is good for.")
    sasl_oauthbearer_sub_claim_name = Option("sub", text, "The claim that says whose a token is.")
    sasl_oauthbearer_clock_skew_seconds = Option(30, integer(0), "By how much clocks may differ.")
