"""Metrics of a client's connections, in total and per broker, like those of Kafka's `Selector`.

The groups are `<prefix>-metrics`, and `<prefix>-node-metrics` with the tag node-id. The prefix is producer, consumer or
admin-client. Values are recorded once per read, write, request and response. Not thread-safe: event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.metrics.metrics import Metrics
from ottla.metrics.sensor import Sensor
from ottla.metrics.stats import Avg, Max, Meter

_LOOP: Final = "asyncio does not report how long it waits for sockets"
_AGAIN: Final = "re-authentication (KIP-368) is not supported"
LEFT_OUT: Final[Mapping[str, str]] = {
    "select-rate": _LOOP,
    "select-total": _LOOP,
    "io-wait-time-ns-avg": _LOOP,
    "io-wait-time-ns-total": _LOOP,
    "io-wait-ratio": _LOOP,
    "io-time-ns-avg": _LOOP,
    "io-time-ns-total": _LOOP,
    "io-ratio": _LOOP,
    "successful-reauthentication-rate": _AGAIN,
    "successful-reauthentication-total": _AGAIN,
    "failed-reauthentication-rate": _AGAIN,
    "failed-reauthentication-total": _AGAIN,
    "reauthentication-latency-avg": _AGAIN,
    "reauthentication-latency-max": _AGAIN,
    "successful-authentication-no-reauth-total": _AGAIN,
}
"""Metrics of Kafka's Selector that Ottla does not have, with the reasons."""


class ChannelMetrics:
    """The metrics of one client's connections."""

    def __init__(self, metrics: Metrics, prefix: str) -> None:
        self._metrics = metrics
        self._group = f"{prefix}-metrics"
        self._node_group = f"{prefix}-node-metrics"
        self._nodes: dict[int, NodeMetrics] = {}
        self.created: Sensor = self._meter("connections-created", "connection-creation", "connections made")
        self.closed: Sensor = self._meter("connections-closed", "connection-close", "connections closed")
        self.authenticated: Sensor = self._meter(
            "authenticated", "successful-authentication", "connections that were authenticated"
        )
        self.failed_authentication: Sensor = self._meter(
            "failed-authentications", "failed-authentication", "connections whose authentication failed"
        )
        self._transferred = self._meter("transferred", "network-io", "reads and writes of all connections", counts=True)
        self._sent = self._meter("bytes-sent", "outgoing-byte", "bytes sent", self._transferred)
        self._received = self._meter("bytes-received", "incoming-byte", "bytes received", self._transferred)
        self._requests = self._meter("requests-sent", "request", "requests sent", counts=True)
        self._sizes(self._requests, self._group)
        self._responses = self._meter("responses-received", "response", "responses received", counts=True)

    def count_with(self, connections: Callable[[], int]) -> None:
        """Add the metric connection-count, whose value is the result of `connections`."""
        name = self._metrics.name("connection-count", self._group, "The number of open connections.")
        self._metrics.add_metric(name, connections)

    def for_node(self, node_id: int) -> NodeMetrics:
        """Return the sensors of the connections to one broker."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = self._create(node_id)
        return node

    def _create(self, node_id: int) -> NodeMetrics:
        node = f"node-{node_id}"
        requests = self._node_meter(node, "requests-sent", "request", "requests sent", self._requests, counts=True)
        self._sizes(requests, self._node_group, node_id=node)
        latency = self._metrics.sensor(f"{node}.latency")
        for stat, how, text in ((Avg(), "avg", "average"), (Max(), "max", "longest")):
            name = self._metrics.name(
                f"request-latency-{how}", self._node_group, f"The {text} time of a request in ms.", node_id=node
            )
            latency.add(name, stat)
        return NodeMetrics(
            self._node_meter(node, "bytes-sent", "outgoing-byte", "bytes sent", self._sent),
            self._node_meter(node, "bytes-received", "incoming-byte", "bytes received", self._received),
            requests,
            self._node_meter(
                node, "responses-received", "response", "responses received", self._responses, counts=True
            ),
            latency,
        )

    def _meter(self, sensor: str, name: str, of: str, *parents: Sensor, counts: bool = False) -> Sensor:
        made = self._metrics.sensor(sensor, parents=parents)
        self._add_meter(made, self._group, name, of, counts)
        return made

    def _node_meter(self, node: str, sensor: str, name: str, of: str, parent: Sensor, counts: bool = False) -> Sensor:
        made = self._metrics.sensor(f"{node}.{sensor}", parents=[parent])
        self._add_meter(made, self._node_group, name, of, counts, node_id=node)
        return made

    def _add_meter(self, sensor: Sensor, group: str, name: str, of: str, counts: bool, **tags: str) -> None:
        rate = self._metrics.name(f"{name}-rate", group, f"The number of {of} per second.", **tags)
        total = self._metrics.name(f"{name}-total", group, f"The number of {of}.", **tags)
        sensor.add_meter(Meter(rate, total, counts=counts))

    def _sizes(self, sensor: Sensor, group: str, **tags: str) -> None:
        sensor.add(
            self._metrics.name("request-size-avg", group, "The average size of a request in bytes.", **tags), Avg()
        )
        sensor.add(
            self._metrics.name("request-size-max", group, "The size of the largest request in bytes.", **tags), Max()
        )


class NodeMetrics:
    """The sensors of the connections to one broker. All except `latency` also update the sensor of all connections."""

    __slots__ = ("latency", "received", "requests", "responses", "sent")

    def __init__(self, sent: Sensor, received: Sensor, requests: Sensor, responses: Sensor, latency: Sensor) -> None:
        self.sent: Sensor = sent
        """Sensor of the bytes of each write."""
        self.received: Sensor = received
        """Sensor of the bytes of each read."""
        self.requests: Sensor = requests
        """Sensor of the bytes of each request."""
        self.responses: Sensor = responses
        """Sensor of the bytes of each response."""
        self.latency: Sensor = latency
        """Sensor of the time in milliseconds from a request to its response, for Produce and Fetch requests."""
