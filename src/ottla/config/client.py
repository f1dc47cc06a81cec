"""The options that producer, consumer and admin client share: where the cluster is and how connections behave."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ottla.config.options import (
    REQUIRED,
    Config,
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

log = logging.getLogger("ottla.config")

MAX_INT = 2**31 - 1


def addresses(value: Any) -> tuple[tuple[str, int], ...]:
    """`host:port`, several with commas or as a list; an IPv6 host stands in brackets."""
    found = []
    for item in words()(value):
        host, colon, port = item.rpartition(":")
        if not colon or not port.isdigit() or not 0 < int(port) < 65536 or not host:
            raise ValueError("host:port is wanted, several with commas")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise ValueError("at least one host:port is wanted")
    return tuple(found)


def each(parse: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """A list (text with commas, or a sequence), every item read by `parse`."""

    def read(value: Any) -> tuple[Any, ...]:
        items = [v.strip() for v in value.split(",") if v.strip()] if isinstance(value, str) else list(value)
        return tuple(parse(item) for item in items)

    return read


REPORTERS = {
    "prometheus": "ottla.metrics.prometheus.PrometheusReporter",
    "logging": "ottla.metrics.logged.LoggingReporter",
}
"""Our own reporters of metrics, by their short names."""
JMX = "org.apache.kafka.common.metrics.JmxReporter"


def reporters(value: Any) -> tuple[Any, ...]:
    """Reporters of metrics: `prometheus`, `logging`, classes, objects or dotted names; Java's JMX one is left out."""
    items = value.split(",") if isinstance(value, str) else list(value)
    names = [item.strip() if isinstance(item, str) else item for item in items]
    if JMX in names:
        log.warning("metric.reporters: there is no JMX in Python; %s is left out", JMX)
    return tuple(loaded(REPORTERS.get(n, n) if isinstance(n, str) else n) for n in names if n not in ("", JMX))


class ClientConfig(Config, subject="client"):
    """Options of every client."""

    bootstrap_servers: Option[tuple[tuple[str, int], ...]] = Option(
        REQUIRED, addresses, "Where to ask for the cluster first: host:port, several with commas or as a list."
    )
    client_id = Option("", text, "Name in the broker's logs and quotas; empty: a number is made up.")
    request_timeout_ms = Option(
        30_000, integer(1), "How long to wait for a response before the connection is given up."
    )
    retry_backoff_ms = Option(100, integer(0), "First pause before a request is tried again.")
    retry_backoff_max_ms = Option(1000, integer(0), "Longest pause between tries; pauses double until then.")
    reconnect_backoff_ms = Option(50, integer(0), "First pause before a lost broker is connected to again.")
    reconnect_backoff_max_ms = Option(1000, integer(0), "Longest pause between connections to one broker.")
    connections_max_idle_ms = Option(540_000, integer(-1), "Idle connections close after this; -1: never.")
    socket_connection_setup_timeout_ms = Option(10_000, integer(1), "How long a connection may take to be made.")
    metadata_max_age_ms = Option(300_000, integer(1), "Metadata is refreshed at least this often.")
    receive_buffer_bytes = Option(65_536, integer(-1), "SO_RCVBUF; -1: the system's.")
    send_buffer_bytes = Option(131_072, integer(-1), "SO_SNDBUF; -1: the system's.")
    allow_auto_create_topics = Option(True, boolean, "Whether asking for an unknown topic may create it.")
    security_protocol = Option(
        "PLAINTEXT",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "How to speak with brokers.",
    )
    ssl_context = Option(None, anything, "A ready ssl.SSLContext, instead of the ssl options.")
    ssl_check_hostname = Option(True, boolean, "Whether the broker's certificate must be for its host name.")
    ssl_cafile = Option(None, nullable(text), "PEM file with the certificates that are trusted.")
    ssl_certfile = Option(None, nullable(text), "PEM file with the client's certificate.")
    ssl_keyfile = Option(None, nullable(text), "PEM file with the client's key.")
    ssl_password = Option(None, nullable(text), "Password of the client's key.")
    sasl_mechanism = Option("PLAIN", one_of("PLAIN"), "SASL mechanism.")
    sasl_plain_username = Option(None, nullable(text), "User for SASL PLAIN.")
    sasl_plain_password = Option(None, nullable(text), "Password for SASL PLAIN.")
    metric_reporters = Option((), reporters, "Who is told of metrics: prometheus, logging, classes or objects.")
    metrics_num_samples = Option(2, integer(1), "Windows over which metrics are averaged.")
    metrics_sample_window_ms = Option(30_000, integer(0), "How long one window of a metric is.")
    metrics_recording_level = Option("INFO", one_of("INFO", "DEBUG", "TRACE"), "How much is measured.")
    api_version = Option(None, anything, "Accepted for compatibility; versions are always negotiated.")


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
