"""The handshake of a new connection: negotiation of API versions and, if configured, authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla import errors
from ottla.config.client import ClientConfig
from ottla.net.client.channel import Channel
from ottla.protocol.message import Request
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.version import __version__

if TYPE_CHECKING:
    import ssl

    from ottla.net.client.sasl_login import Login

SOFTWARE: Final = ("ottla", __version__)
"""The name and version of the client software, which clients send to brokers (KIP-511)."""


class BrokerConnection:
    """A channel to a broker after the handshake, with the API versions that the broker supports."""

    __slots__ = ("channel", "features", "lifetime_ms", "versions")

    def __init__(self, channel: Channel, versions: dict[int, tuple[int, int]], features: dict[str, int]) -> None:
        self.channel: Channel = channel
        self.versions: dict[int, tuple[int, int]] = versions
        self.features: dict[str, int] = features
        """The finalized features of the cluster (KIP-584)."""
        self.lifetime_ms: int = 0
        """The lifetime of the authenticated session in milliseconds; 0 for no limit (KIP-368)."""

    def version(self, request: type[Request[Any]], at_most: int | None = None, at_least: int = 0) -> int:
        """Return the newest version of a request, from `at_least` to `at_most`, that both sides support. Raises
        UnsupportedVersionError if there is none.
        """
        low, high = self.versions.get(request.API_KEY, (0, -1))
        ours = range(max(request.VERSIONS.start, at_least), request.VERSIONS.stop)
        newest = ours.stop - 1 if at_most is None else min(ours.stop - 1, at_most)
        best = min(high, newest)
        if best < max(low, ours.start):
            offered = f"versions {low} to {high}" if high >= 0 else "no version"
            raise errors.UnsupportedVersionError(
                f"{self.channel.host}:{self.channel.port} supports versions {offered} of {request.NAME},"
                f" this client {ours.start} to {newest}"
            )
        return best


def sasl_login(config: ClientConfig) -> Login | None:
    """Return the SASL credentials of the client; None without SASL. Raises ConfigurationError if configs are missing or
    do not work together.
    """
    if not config.security_protocol.startswith("SASL"):
        return None
    from ottla.net.client.sasl_login import Login  # imported here because it slows down the start of other clients

    mechanism = config.sasl_mechanism
    if mechanism != "OAUTHBEARER":
        if config.by_token and not mechanism.startswith("SCRAM"):
            raise errors.ConfigurationError(
                f"sasl.mechanism: {mechanism} does not work with a delegation token; use SCRAM-SHA-256 or SCRAM-SHA-512"
            )
        return Login(mechanism, *config.credentials, by_token=config.by_token)
    from ottla.security.sasl.token_provider import from_callable, token_provider

    if config.sasl_oauth_token_provider is not None:
        return Login(mechanism, tokens=from_callable(config.sasl_oauth_token_provider))
    jaas = config.sasl_jaas_config
    return Login(mechanism, tokens=token_provider(config, {} if jaas is None else jaas.options, _endpoint_tls(config)))


def _endpoint_tls(config: ClientConfig) -> ssl.SSLContext | None:
    """Return the TLS context for the OAuth token endpoint, made from the client's ssl.* configs; None if none of
    ssl.truststore.*, ssl.cafile and ssl.context is set.
    """
    if not any(key.startswith(("ssl.truststore.", "ssl.cafile", "ssl.context")) for key in config.originals):
        return None
    from ottla.security.tls.contexts import client_context

    return client_context(config)


async def negotiate(channel: Channel, config: ClientConfig, login: Login | None) -> BrokerConnection:
    """Negotiate API versions, then authenticate if there is a `login`. Raises errors of the broker, of the connection
    and of authentication.
    """
    timeout = config.request_timeout_ms / 1000
    request = ApiVersionsRequest(client_software_name=SOFTWARE[0], client_software_version=SOFTWARE[1])
    # A broker that does not support version 4 responds in version 0 with the versions it supports.
    response = await channel.send(request, 4, timeout)
    if response.error_code == errors.UnsupportedVersionError.code:
        offered = next((api.max_version for api in response.api_keys if api.api_key == request.API_KEY), 0)
        response = await channel.send(request, min(offered, 4), timeout)
    if response.error_code:
        raise errors.for_code(response.error_code)
    features = {feature.name: feature.max_version_level for feature in response.finalized_features}
    connection = BrokerConnection(channel, _versions(response), features)
    if login is not None:
        await _authenticate(connection, login, timeout)
    return connection


async def _authenticate(connection: BrokerConnection, login: Login, timeout: float) -> None:
    from ottla.net.client.sasl_login import log_in  # as above

    connection.lifetime_ms = await log_in(
        connection.channel,
        login,
        timeout,
        handshake=connection.version(SaslHandshakeRequest),
        authenticate=connection.version(SaslAuthenticateRequest),
    )


def _versions(response: ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
