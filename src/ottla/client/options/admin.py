"""Keyword options of admin clients. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.options.client import ClientOptions


class AdminOptions(ClientOptions, total=False):
    """Keyword options of admin clients."""

    bootstrap_controllers: str | Sequence[str]
    """KRaft controllers to connect to instead of brokers, as host:port, separated by commas or as a list (KIP-919). It
    cannot be set together with bootstrap.servers.
    """
    default_api_timeout_ms: int
    """Timeout in milliseconds of methods that are called without one. A value below request.timeout.ms is an error; if
    only the default is below, it is raised to that.
    """
    retries: int
    """Maximum number of retries of a call after retriable errors, all within the timeout of the call; 0: none. A
    refresh of the metadata that times out is repeated without this limit.
    """
