"""The brokers of the fixture `ottla_cluster`."""

from __future__ import annotations

from ottla.broker.embedded import Broker, create_internal_topics


class Cluster(Broker):
    """Several brokers whose internal topics exist before one of them stops.

    Otherwise the first group or transaction creates them, as in Kafka, with as many replicas as there are brokers (at
    most three). If too few brokers are running at that time, the creation fails, and consumers wait until a broker is
    back.
    """

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker, as `Broker.kill_broker` does."""
        self._create_internal_topics()
        super().kill_broker(broker_id)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker, as `Broker.stop_broker` does."""
        self._create_internal_topics()
        super().stop_broker(broker_id)

    def _create_internal_topics(self) -> None:
        if self.nodes:
            self._call(create_internal_topics(self.nodes))
