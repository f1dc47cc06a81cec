"""`metric.reporters` of the broker: reporters receive the metrics of `metric_table` as `KafkaMetric`s, as in clients.

Kafka's reporters are notified of each metric that is added or removed, and read its value when they need it, on any
thread. The broker's metrics may only be read on the event loop, so all values are read every 30 seconds, and reporters
get the values that were read last. A summary is reported as several metrics: its count, sum and quantiles.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final

from ottla.broker.monitoring.exposition import MILLISECONDS, QUANTILES
from ottla.broker.monitoring.metric import BrokerMetric, Kind, Labels, Value, samples_of
from ottla.broker.monitoring.metric_table import METRICS
from ottla.broker.monitoring.observed_node import ObservedNode
from ottla.broker.monitoring.scrape import Pace, Scrape
from ottla.latency import LatencySnapshot
from ottla.metrics.metric import MetricName
from ottla.metrics.metrics import Metrics, MetricsReporter

log = logging.getLogger("ottla.metrics")

INTERVAL_SECONDS: Final = 30.0
NAMESPACE: Final = "kafka.server"


class BrokerReporters:
    """The reporters of one broker, from `start` to `close`."""

    def __init__(self, reporters: Iterable[MetricsReporter], node: ObservedNode) -> None:
        self._node = node
        self.metrics = Metrics(reporters=reporters, namespace=NAMESPACE)
        self._values: dict[MetricName, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop reading, and close the reporters in a worker thread, as they may send their last values over the
        network.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.to_thread(self.metrics.close)

    async def _run(self) -> None:
        while True:
            try:
                await self.read()
            except Exception:
                log.exception("Cannot update the metrics for metric.reporters; trying again in %g s", INTERVAL_SECONDS)
            await asyncio.sleep(INTERVAL_SECONDS)

    async def read(self) -> None:
        """Read all values, unless the broker is still loading its logs.

        Add metrics that are new, such as those of a new topic, and remove those that no longer exist.
        """
        broker = self._node.monitored
        if broker is None:
            return
        scrape, pace = Scrape(broker), Pace()
        await scrape.prepare()
        values: dict[MetricName, float] = {}
        for metric in METRICS:
            for labels, value in samples_of(metric.source(scrape)):
                for name, number in _named(metric, labels, value):
                    values[name] = number
                    if name not in self._values:
                        self._add(name, number)
                if pace.is_over:
                    await pace.rest()
        for name in self._values.keys() - values.keys():
            self.metrics.remove_metric(name)
        self._values = values

    def _add(self, name: MetricName, value: float) -> None:
        self._values[name] = value
        self.metrics.add_metric(name, lambda: self._values.get(name))


def _named(metric: BrokerMetric, labels: Labels, value: Value) -> Iterator[tuple[MetricName, float]]:
    """Yield name and value of each metric that reports a sample."""
    domain, _, rest = metric.mbean.partition(":")
    rest, _, attribute = rest.partition("#")
    parts = dict(part.split("=", 1) for part in rest.split(",")) if rest else {}
    group, own_name = parts.get("type", domain), attribute or parts.get("name", domain)
    tags = dict(zip(metric.labels, labels, strict=bool(labels)))

    def named(suffix: str = "") -> MetricName:
        return MetricName(own_name + suffix, group, metric.help, tags)

    if not isinstance(value, LatencySnapshot):
        yield named(), value
        return
    scale = 1 if metric.kind is Kind.SIZES else MILLISECONDS
    yield named("-count"), value.count
    yield named("-sum"), value.seconds * scale
    for quantile in QUANTILES if metric.kind is Kind.SUMMARY else ():
        yield named(f"-{quantile}"), value.quantile(float(quantile)) * scale


async def start_reporters(stack: AsyncExitStack, reporters: Iterable[Any], node: ObservedNode) -> None:
    """Start those reporters that accept a broker's metrics; the others only receive metrics of clients (KIP-714)."""
    own = [one for one in reporters if any(hasattr(one, name) for name in ("init", "metric_change"))]
    if own:
        broker_reporters = BrokerReporters(own, node)
        stack.push_async_callback(broker_reporters.close)
        broker_reporters.start()
