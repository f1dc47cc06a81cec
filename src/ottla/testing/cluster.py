"""The brokers of the fixture `ottla_cluster`."""

from __future__ import annotations

from ottla.broker.embedded import Broker, create_internal_topics


class Cluster(Broker):
    """Several brokers whose internal topics exist before one of them stops.

    As in Kafka, the first group or transaction creates them, with three replicas. In a test that kills a broker before,
    consumers would wait for that broker without an end.
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
