"""The admin client's options: Kafka's names, defaults and bounds."""

from __future__ import annotations

from ottla.config.client import ClientConfig, integer
from ottla.config.options import Option


class AdminConfig(ClientConfig, subject="admin client"):
    """Options of an admin client."""

    default_api_timeout_ms = Option(60_000, integer(0), "Time limit of calls that are given none.")
    retries = Option(2**31 - 1, integer(0), "How often a call is tried again within its time limit.")
