"""`ProducerPool`: a `SyncProducer` per leader.

Each refresh of metadata closes the connections to the leaders in it and opens new ones. This is how the 0.8 producer
finds new brokers, and why the first request after a refresh is slower.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ottla.legacy.errors import UnavailableProducerError
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.sync_producer import SyncProducer
from ottla.model import Node


class ProducerPool:
    """The connections of one producer, by broker id."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._producers: dict[int, SyncProducer] = {}
        self._closed = False
        self._lock = threading.Lock()

    def update_producer(self, leaders: Iterable[Node]) -> None:
        """Reopen the connections to these brokers; others stay open."""
        with self._lock:
            if self._closed:
                return
            for node in set(leaders):
                before = self._producers.get(node.id)
                if before is not None:
                    before.close()
                self._producers[node.id] = SyncProducer(node.host, node.port, self.config)

    def get_producer(self, broker_id: int) -> SyncProducer:
        """Return the connection to a broker. Raises UnavailableProducerError if there is none."""
        with self._lock:
            producer = self._producers.get(broker_id)
        if producer is None:
            raise UnavailableProducerError(f"there is no connection to broker {broker_id}")
        return producer

    def close(self) -> None:
        """Close all connections; requests that wait for a response fail."""
        with self._lock:
            self._closed = True
            for producer in self._producers.values():
                producer.close()
