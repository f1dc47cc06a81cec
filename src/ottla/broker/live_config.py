"""The broker's options as they are now: its file's, and over them what was set while it runs (KIP-226)."""

from __future__ import annotations

import logging

from ottla.cluster import entities
from ottla.cluster.metadata import ClusterImage
from ottla.config.broker import DYNAMIC, BrokerConfig
from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.broker")


class LiveConfig:
    """`current` is replaced as a whole when options change. Loop thread."""

    def __init__(self, static: BrokerConfig, broker_id: int) -> None:
        self.static = static
        self.current = static
        self._paths = (entities.entity(entities.BROKERS, None), entities.entity(entities.BROKERS, str(broker_id)))

    def follow(self, image: ClusterImage) -> bool:
        """Take over what is set on all brokers and on this one; tells whether anything is different now."""
        changes: dict[str, str] = {}
        for path in self._paths:
            changes |= {k: v for k, v in image.options.get(path, {}).items() if k in DYNAMIC}
        try:
            now = self.static.replace(changes)
        except ConfigurationError as error:
            # checked when it was set; another broker's file may not go with it
            log.error("options set on brokers are left out: %s", error.message)
            return False
        changed = now.values != self.current.values
        self.current = now
        return changed
