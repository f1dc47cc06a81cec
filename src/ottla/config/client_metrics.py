"""The options of a client metrics subscription (KIP-714): Kafka's names, defaults and bounds."""

from __future__ import annotations

from ottla.config.options import Config, Option, integer, words

SELECTORS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""The selectors by which a subscription matches clients."""


class ClientMetricsConfig(Config, subject="client metrics"):
    """Options of one subscription."""

    interval_ms = Option(
        300_000,
        integer(100, 3_600_000),
        "Interval in milliseconds at which clients that match the subscription push their metrics; if several "
        "subscriptions match a client, the shortest interval applies.",
    )
    metrics = Option[tuple[str, ...]](
        (), words(), "Prefixes of the metrics to push, separated by commas; `*`: all metrics; empty: none."
    )
    match = Option[tuple[str, ...]](
        (),
        words(),
        "Clients that push metrics, as SELECTOR=REGULAR_EXPRESSION pairs separated by commas, all of which must match; "
        "empty: every client. Selectors are client_instance_id, client_id, client_software_name, "
        "client_software_version, client_source_address and client_source_port.",
    )
