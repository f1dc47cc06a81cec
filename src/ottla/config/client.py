"""The options that producer, consumer and admin client share, such as addresses of the cluster, behaviour of
connections, credentials and metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

from ottla.config.jaas import MECHANISMS, Jaas, login
from ottla.config.metric_reporters import REPORTERS
from ottla.config.oauth import OAuthLoginConfig
from ottla.config.options import (
    REQUIRED,
    Option,
    anything,
    boolean,
    integer,
    loaded,
    nullable,
    number,
    one_of,
    text,
    words,
)
from ottla.config.tls import TlsConfig

log: Final = logging.getLogger("ottla.config")

T = TypeVar("T")

MAX_INT = 2**31 - 1
HERE = "localhost:9092"


USUAL_PORT = 9092


def addresses(value: Any) -> tuple[tuple[str, int], ...]:
    """Parse addresses: `host:port`, several with commas or as a list; IPv6 is in brackets. The default port is 9092."""
    parsed = []
    for item in words()(value):
        host, colon, port = item.rpartition(":")
        if not colon or item.endswith("]"):
            host, port = item, str(USUAL_PORT)
        if not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise ValueError("expected host:port, several separated by commas")
        parsed.append((host.strip("[]"), int(port)))
    if not parsed:
        raise ValueError("expected at least one host:port")
    return tuple(parsed)


def absent(meaning: T, parse: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return a parser like `parse` that also accepts kafka-python's None, which stands for `meaning`."""
    return lambda value: meaning if value is None else parse(value)


def each(parse: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a parser of lists (text with commas, or a sequence) that parses every item with `parse`."""

    def read(value: Any) -> tuple[Any, ...]:
        items = [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else list(value)
        return tuple(parse(item) for item in items)

    return read


JMX = "org.apache.kafka.common.metrics.JmxReporter"


def reporters(value: Any) -> tuple[Any, ...]:
    """Parse metrics reporters: `prometheus`, `logging`, classes, objects or dotted names; Java's JmxReporter is
    ignored.
    """
    items = value.split(",") if isinstance(value, str) else list(value)
    names = [item.strip() if isinstance(item, str) else item for item in items]
    if JMX in names:
        log.warning("Ignoring %s in metric.reporters: there is no JMX in Python; use prometheus or logging", JMX)
    return tuple(loaded(REPORTERS.get(n, n) if isinstance(n, str) else n) for n in names if n not in ("", JMX))


NO_EFFECT = {
    "auto.include.jmx.reporter": "there is no JMX in Python",
    "config.providers": "values are given as they are",
    "config.providers.": "values are given as they are",
    "ssl.engine.factory.class": "OpenSSL provides TLS, not Java; ssl.context accepts an ssl.SSLContext",
    "sasl.kerberos.": "Kerberos (GSSAPI) is not supported",
    "sasl.login.class": "it names a Java class",
    "sasl.login.callback.handler.class": "other configs choose where tokens come from",
    "sasl.login.refresh.": "a new token is requested after four fifths of the lifetime of the old one",
    "sasl.client.callback.handler.class": "there are no callbacks in Python",
    "sasl.oauthbearer.jwks.": "only brokers use keys, to validate tokens",
    "sasl.oauthbearer.expected.": "only brokers validate tokens",
    "sasl.oauthbearer.clock.": "only brokers validate tokens",
    "sasl.oauthbearer.scope.claim.name": "only brokers validate tokens",
    "sasl.oauthbearer.sub.claim.name": "only brokers validate tokens",
    "api.version": "versions are negotiated with each broker",
    "api.version.auto.timeout.ms": "versions are negotiated with each broker",
    "bootstrap.timeout.ms": "the first call that needs the cluster waits for it",
    "bootstrap.topics.filter": "metadata of a topic is only requested when it is used",
    "metrics.enabled": "metrics are always enabled; they cost nothing per record",
    "selector": "connections use asyncio's event loop",
    "sock.chunk.bytes": "all received bytes are read at once",
    "kafka.client": "the client cannot be replaced",
    "socks5.proxy": "proxies are not supported",
}
"""Options that are accepted for programs written for Java's client or kafka-python, and why they have no effect here.
A name that ends with a dot is a prefix.
"""

LIBRDKAFKA: Final = {
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "batch.num.messages": "batch.size",
    "message.max.bytes": "max.request.size",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "compression.codec": "compression.type",
    "enable.auto.offset.store": "enable.auto.commit",
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "ssl.ca.location": "ssl.cafile",
    "ssl.certificate.location": "ssl.certfile",
    "ssl.key.location": "ssl.keyfile",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.plain.username",
    "sasl.password": "sasl.plain.password",
    "statistics.interval.ms": "metric.reporters",
}
"""Options of librdkafka, which confluent-kafka takes, and the options here that take their place
(docs/from-confluent-kafka.md).
"""
DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")


class ClientConfig(TlsConfig, OAuthLoginConfig, subject="client", no_effect=NO_EFFECT, other_names=LIBRDKAFKA):
    """Options of every client."""

    bootstrap_servers: Option[tuple[tuple[str, int], ...]] = Option(
        REQUIRED,
        addresses,
        "Brokers through which the client discovers the cluster, as host:port, separated by commas or as a list; the"
        " default port is 9092.",
    )
    client_dns_lookup: Final = Option(
        "use_all_dns_ips",
        one_of(*DNS_LOOKUPS, aliases={"default": "use_all_dns_ips"}),
        "Resolution of host names. use_all_dns_ips: the client tries the addresses of a host in turn until one "
        "connects; resolve_canonical_bootstrap_servers_only: it also replaces the bootstrap servers by the canonical"
        " names of their addresses.",
    )
    client_id: Final = Option(
        "",
        absent("", text),
        "Name of the client in the broker's logs, metrics and quotas; empty: a generated name, such as producer-1.",
    )
    request_timeout_ms: Final = Option(
        30_000,
        integer(0),
        "Time in milliseconds that the client waits for the response to a request, which then fails or is retried. "
        "The response to a Produce request may take up to half a second longer; those to JoinGroup and SyncGroup may "
        "take up to max.poll.interval.ms plus 5 seconds.",
    )
    retry_backoff_ms: Final = Option(
        100,
        integer(0),
        "Delay in milliseconds before the first retry of a failed request. For metadata, produce and admin requests, "
        "among others, it doubles with each further retry, up to retry.backoff.max.ms.",
    )
    retry_backoff_max_ms: Final = Option(
        1000,
        integer(0),
        "Maximum delay in milliseconds between retries of a request. For metadata, produce and admin requests, among "
        "others, the delay starts at retry.backoff.ms and doubles with each retry up to this; for the others, such as "
        "fetches, it stays at retry.backoff.ms.",
    )
    reconnect_backoff_ms: Final = Option(
        50,
        integer(0),
        "Delay in milliseconds between a failed attempt to connect to a broker and the next one. It doubles with "
        "each failure in a row, up to reconnect.backoff.max.ms; a lost connection is reopened without delay.",
    )
    reconnect_backoff_max_ms: Final = Option(
        1000,
        integer(0),
        "Maximum delay in milliseconds between attempts to connect to the same broker. The delay starts at "
        "reconnect.backoff.ms and doubles with each failure in a row up to this.",
    )
    connections_max_idle_ms: Option[int] = Option(
        540_000,
        integer(),
        "Time in milliseconds after which the client closes an idle connection; negative: never. Connections are "
        "checked at intervals of half this time, but not more often than every 100 ms.",
    )
    socket_connection_setup_timeout_ms: Final = Option(
        10_000,
        integer(1),
        "Time in milliseconds within which a connection must be established, including the TLS handshake. It doubles"
        " with each failed attempt in a row, up to socket.connection.setup.timeout.max.ms.",
    )
    socket_connection_setup_timeout_max_ms: Final = Option(
        30_000,
        integer(1),
        "Maximum in milliseconds of the connection setup timeout, which starts at socket.connection.setup.timeout.ms"
        " and doubles with each failed attempt in a row. If it is lower than that, the timeout "
        "does not grow.",
    )
    metadata_max_age_ms: Final = Option(
        300_000,
        integer(0),
        "Time in milliseconds after which the client refreshes its metadata even if no error or change requires it.",
    )
    metadata_recovery_strategy: Final = Option(
        "rebootstrap",
        one_of("none", "rebootstrap"),
        "Action of the client if no known broker responds: rebootstrap (it connects to the bootstrap servers again) "
        "or none (it keeps trying the known brokers).",
    )
    metadata_recovery_rebootstrap_trigger_ms: Final = Option(
        300_000,
        integer(0),
        "Time in milliseconds for which metadata requests must have failed before the client closes its connections "
        "and discovers the cluster through the bootstrap servers again; it does so at once if a broker demands it. No "
        "effect with metadata.recovery.strategy=none.",
    )
    receive_buffer_bytes: Option[int] = Option(
        65_536,
        absent(-1, integer(-1)),
        "Size in bytes of the socket's receive buffer (SO_RCVBUF); -1: the system's default.",
    )
    send_buffer_bytes: Final = Option(
        131_072,
        absent(-1, integer(-1)),
        "Size in bytes of the socket's send buffer (SO_SNDBUF); -1: the system's default.",
    )
    socket_options: Option[tuple[tuple[int, int, int], ...]] = Option(
        (),
        each(tuple),
        "Option of kafka-python: further socket options, each as the arguments (level, option, value) of setsockopt().",
    )
    allow_auto_create_topics: Final = Option(
        True,
        boolean,
        "Whether a request for the metadata of an unknown topic may create it, if the broker's "
        "auto.create.topics.enable allows that. No effect on an admin client, which creates topics only with "
        "create_topics().",
    )
    security_protocol: Final = Option(
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "Protocol of connections to brokers: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL (SASL over TLS).",
    )
    sasl_mechanism: Final = Option(
        "PLAIN",
        one_of(*MECHANISMS, aliases={None: "PLAIN"}),
        "SASL mechanism with which the client authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. No "
        "effect unless security.protocol is SASL_PLAINTEXT or SASL_SSL.",
    )
    sasl_jaas_config: Option[Jaas | None] = Option(
        None,
        nullable(login),
        'JAAS line with user and password, such as `…PlainLoginModule required username="a" password="b";`, or with '
        "the parameters of OAUTHBEARER. Not set: sasl.plain.username and sasl.plain.password apply.",
    )
    sasl_oauth_token_provider: Final = Option[Any](
        None,
        anything,
        "Option of kafka-python: a function that returns a token for OAUTHBEARER, or an object with token(). It "
        "takes precedence over sasl.oauthbearer.token.endpoint.url and sasl.jaas.config.",
    )
    sasl_plain_username: Final = Option(
        None, nullable(text), "User name for PLAIN and SCRAM; ignored if sasl.jaas.config is set."
    )
    sasl_plain_password: Final = Option(
        None, nullable(text), "Password for PLAIN and SCRAM; ignored if sasl.jaas.config is set."
    )
    sasl_tokenauth: Final = Option(
        False,
        boolean,
        "Whether user name and password for SCRAM are the id and the HMAC (base64) of a delegation token. "
        'tokenauth="true" in sasl.jaas.config has the same effect.',
    )
    metric_reporters: Final = Option(
        (),
        reporters,
        "Reporters to which the client passes its metrics: prometheus, logging, classes, objects or dotted names of "
        "classes; empty: none.",
    )
    metrics_num_samples: Final = Option(
        2,
        integer(1),
        "Number of samples, each as long as metrics.sample.window.ms, over which rates, averages and maxima are "
        "computed.",
    )
    metrics_sample_window_ms: Final = Option(
        30_000,
        integer(0),
        "Length in milliseconds of a sample. Rates, averages and maxima are computed over metrics.num.samples samples.",
    )
    metrics_recording_level: Final = Option(
        "INFO",
        one_of("INFO", "DEBUG", "TRACE"),
        "Most detailed level of metrics that are recorded: INFO, DEBUG or TRACE. The metrics of the clients are all "
        "INFO, so DEBUG and TRACE add none.",
    )

    @classmethod
    def from_keywords(cls, **keywords: Any) -> Self:
        """Build the config from Python's names.

        The default of bootstrap_servers is localhost:9092, as in kafka-python, unless bootstrap_controllers is set.
        """
        if "bootstrap_servers" not in keywords and "bootstrap_controllers" not in keywords:
            keywords["bootstrap_servers"] = HERE
        return super().from_keywords(**keywords)

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password for SASL; empty if they are not set."""
        if self.sasl_jaas_config is not None:
            options = self.sasl_jaas_config.options
            return options.get("username", ""), options.get("password", "")
        return self.sasl_plain_username or "", self.sasl_plain_password or ""

    @property
    def by_token(self) -> bool:
        """Whether the credentials are those of a delegation token."""
        jaas = self.sasl_jaas_config
        return self.sasl_tokenauth or (jaas is not None and jaas.options.get("tokenauth", "").lower() == "true")


__all__ = [
    "MAX_INT",
    "ClientConfig",
    "addresses",
    "anything",
    "boolean",
    "each",
    "integer",
    "loaded",
    "nullable",
    "number",
    "one_of",
    "text",
    "words",
]
