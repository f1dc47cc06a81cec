"""Keyword options of admin clients. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.options.client import ClientOptions


class AdminOptions(ClientOptions, total=False):
    """Keyword options of admin clients."""

    bootstrap_controllers: str | Sequence[str]
    """Kafka's KRaft controllers to connect to, instead of bootstrap.servers (KIP-919)."""
    default_api_timeout_ms: int
    """Timeout in milliseconds of methods that are called without one."""
    retries: int
    """Maximum number of retries of a call, within its timeout."""
