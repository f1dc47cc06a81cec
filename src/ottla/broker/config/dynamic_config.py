"""The broker's current configs: its static configs, overridden by dynamic ones (KIP-226)."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla import addresses
from ottla.cluster.image.cluster_image import ClusterImage
from ottla.cluster.store import config_entities
from ottla.config.broker.broker_config import DYNAMIC, BrokerConfig, renewed_listener
from ottla.errors import ConfigurationError
from ottla.net.server.connection_quotas import ConnectionLimits

CONNECTION_RATE = "connection_creation_rate"
"""The name of an IP address's quota of new connections per second."""

log = logging.getLogger("ottla.broker")


class DynamicBrokerConfig:
    """The current configs of a broker.

    `current` is replaced as a whole when configs change. Not thread-safe: event loop only.
    """

    def __init__(self, static: BrokerConfig, broker_id: int) -> None:
        self.static = static
        self.current = static
        self.own: Mapping[str, str] = {}
        """Dynamic configs that are set for this broker, without unknown ones."""
        self.for_all: Mapping[str, str] = {}
        """Dynamic configs that are set for all brokers, without unknown ones."""
        self._own_path = config_entities.entity(config_entities.BROKERS, str(broker_id))
        self._path_for_all = config_entities.entity(config_entities.BROKERS, None)

    def update(self, image: ClusterImage) -> bool:
        """Apply the dynamic configs of all brokers and of this one. Return whether a config has changed.

        If they conflict with the static configs, log the error and keep `current`.
        """
        own, for_all = (image.configs.get(path, {}) for path in (self._own_path, self._path_for_all))
        self.own = {k: v for k, v in own.items() if k in DYNAMIC or renewed_listener(k) is not None}
        self.for_all = {k: v for k, v in for_all.items() if k in DYNAMIC}
        try:
            now = self.static.replace({**self.for_all, **self.own})
        except ConfigurationError as error:
            # the configs were validated when they were set, but this broker's file may conflict with them
            log.error(
                "Cannot apply the dynamic configs of this broker together with those of its properties file: %s. "
                "The current configs stay in use until you correct the dynamic ones with `ottla configs`, or correct "
                "the file and restart the broker.",
                error.message,
            )
            return False
        changed = now.originals != self.current.originals
        self.current = now
        return changed


def connection_limits(config: BrokerConfig, image: ClusterImage) -> ConnectionLimits:
    """Return the connection limits according to the broker's configs and the quotas of IP addresses (KIP-612)."""
    names = [endpoint.name for endpoint in config.listeners]
    counts = {name: config.of_listener(name, "max.connections") for name in names}
    rates = {name: config.of_listener(name, "max.connection.creation.rate") for name in names}
    by_address = {
        None if address is None else addresses.canonical_or_same(address): float(options[CONNECTION_RATE])
        for address, options in config_entities.of_type(image.configs, config_entities.IPS).items()
        if CONNECTION_RATE in options
    }
    return ConnectionLimits(
        connections=config.max_connections,
        per_listener={name: int(value) for name, value in counts.items() if value is not None},
        per_ip=config.max_connections_per_ip,
        per_ip_overrides=config.max_connections_per_ip_overrides,
        rate=config.max_connection_creation_rate,
        rate_per_listener={name: float(value) for name, value in rates.items() if value is not None},
        rate_per_ip=by_address,
    )
