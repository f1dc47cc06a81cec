"""`ProducerPool`: a `SyncProducer` for each leader.

Each metadata refresh closes the connections to the leaders in the response, as in Kafka 0.8, and the next request opens
a new one. That is how the producer finds brokers with a new address, and why the first request after a refresh takes
longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ottla.legacy.errors import UnavailableProducerError
from ottla.legacy.producer.producer_config import ProducerConfig
from ottla.legacy.producer.sync_producer import SyncProducer
from ottla.model import Node


class ProducerPool:
    """The connections of a producer by broker id."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self._producers: dict[int, SyncProducer] = {}
        self._closed = False
        self._lock = threading.Lock()

    def update_producer(self, leaders: Iterable[Node]) -> None:
        """Replace the connections to these brokers with new ones. Connections to other brokers are kept. Does nothing
        after `close`.
        """
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
        """Close all connections. Requests that wait for a response fail."""
        with self._lock:
            self._closed = True
            for producer in self._producers.values():
                producer.close()
