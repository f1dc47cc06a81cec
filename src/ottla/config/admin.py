"""The admin client's options, mostly with Kafka's names, defaults and bounds."""

from __future__ import annotations

from typing import Final

from ottla.config.client import MAX_INT, ClientConfig, addresses, integer
from ottla.config.options import Option
from ottla.errors import ConfigurationError

BROKERS, CONTROLLERS = 1, 2


NO_EFFECT = {
    "enable.metrics.push": "an admin client pushes no metrics",
    "max.in.flight.requests.per.connection": "as many requests as calls are on their way",
    "receive.message.max.bytes": "a response may have 512 MiB",
}
"""Options without effect, in addition to those of all clients."""


class AdminConfig(ClientConfig, subject="admin client", no_effect=NO_EFFECT):
    """Options of an admin client."""

    bootstrap_servers: Option[tuple[tuple[str, int], ...]] = Option(
        (), addresses, "Brokers to connect to first, as host:port, separated by commas or as a list."
    )
    bootstrap_controllers: Option[tuple[tuple[str, int], ...]] = Option(
        (), addresses, "Kafka's KRaft controllers to connect to, instead of bootstrap.servers (KIP-919)."
    )
    connections_max_idle_ms: Option[int] = Option(
        300_000, integer(), "Time in milliseconds after which an idle connection is closed; negative: never."
    )
    default_api_timeout_ms: Final = Option(
        60_000, integer(0), "Timeout in milliseconds of methods that are called without one."
    )
    retries: Final = Option(MAX_INT, integer(0, MAX_INT), "Maximum number of retries of a call, within its timeout.")

    def check(self) -> None:
        """Raise ConfigurationError unless exactly one of bootstrap.servers and bootstrap.controllers is set, or if
        default.api.timeout.ms is set to less than request.timeout.ms. If only its default is lower, increase it.
        """
        super().check()
        if bool(self.bootstrap_servers) == bool(self.bootstrap_controllers):
            raise ConfigurationError("either bootstrap.servers or bootstrap.controllers is required")
        if self.bootstrap_controllers:
            self.values["bootstrap.servers"] = self.bootstrap_controllers
        if self.default_api_timeout_ms < self.request_timeout_ms:
            if "default.api.timeout.ms" in self.originals:
                raise ConfigurationError(
                    f"default.api.timeout.ms: {self.default_api_timeout_ms} is not allowed: it must be at least"
                    f" request.timeout.ms, which is {self.request_timeout_ms}"
                )
            self.values["default.api.timeout.ms"] = self.request_timeout_ms

    @property
    def endpoint_type(self) -> int:
        """The endpoint type in DescribeCluster: CONTROLLERS with bootstrap.controllers, otherwise BROKERS."""
        return CONTROLLERS if self.bootstrap_controllers else BROKERS
