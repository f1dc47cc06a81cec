"""The admin client's options, mostly with Kafka's names, defaults and bounds."""

from __future__ import annotations

from typing import Final

from ottla.config.client import MAX_INT, ClientConfig, addresses, integer
from ottla.config.options import Option
from ottla.errors import ConfigurationError

BROKERS, CONTROLLERS = 1, 2


NO_EFFECT = {
    "enable.metrics.push": "an admin client pushes no metrics",
    "max.in.flight.requests.per.connection": "the number of requests in flight is not limited",
    "receive.message.max.bytes": "a response may have 512 MiB",
}
"""Options without effect, in addition to those of all clients."""


class AdminConfig(ClientConfig, subject="admin client", no_effect=NO_EFFECT):
    """Options of an admin client."""

    bootstrap_servers: Option[tuple[tuple[str, int], ...]] = Option(
        (),
        addresses,
        "Brokers through which the client discovers the cluster, as host:port, separated by commas or as a list; the"
        " default port is 9092. Either this or bootstrap.controllers is required.",
    )
    bootstrap_controllers: Option[tuple[tuple[str, int], ...]] = Option(
        (),
        addresses,
        "KRaft controllers to connect to instead of brokers, as host:port, separated by commas or as a list "
        "(KIP-919). It cannot be set together with bootstrap.servers.",
    )
    connections_max_idle_ms: Option[int] = Option(
        300_000,
        integer(),
        "Time in milliseconds after which the client closes an idle connection; negative: never. Connections are "
        "checked at intervals of half this time, but not more often than every 100 ms.",
    )
    default_api_timeout_ms: Final = Option(
        60_000,
        integer(0),
        "Timeout in milliseconds of methods that are called without one. A value below request.timeout.ms is an "
        "error; if only the default is below, it is raised to that.",
    )
    retries: Final = Option(
        MAX_INT,
        integer(0, MAX_INT),
        "Maximum number of retries of a call after retriable errors, all within the timeout of the call; 0: none. A "
        "refresh of the metadata that times out is repeated without this limit.",
    )

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
