"""The metrics of a broker, parsed from the exposition text by Prometheus' own library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_families
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.monitoring.exposition import TextFormat, lines
from ottla.broker.monitoring.scrape import Scrape
from ottla.broker.server.broker_node import BrokerNode


class Scraped:
    """One scrape: samples by name and labels."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = {family.name: family for family in families}
        self._samples = [sample for family in self.families.values() for sample in family.samples]
        self.names = {sample.name for sample in self._samples}

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of all samples with these labels, or of the sample without labels."""
        return [
            float(sample.value)
            for sample in self._samples
            if sample.name == name and _matches(sample.labels, labels) and (labels or not sample.labels)
        ]

    def value(self, name: str, **labels: str) -> float:
        (value,) = self.values(name, **labels)
        return value


def _matches(labels: Mapping[str, str], subset: Mapping[str, str]) -> bool:
    return subset.items() <= labels.items()


async def text(node: BrokerNode, text_format: TextFormat = TextFormat.PROMETHEUS) -> str:
    broker = node.monitored
    assert broker is not None
    scrape = Scrape(broker)
    await scrape.prepare()
    return "".join(lines(scrape, text_format))


def parsed(page: str, text_format: TextFormat = TextFormat.PROMETHEUS) -> Scraped:
    parse = open_metrics_families if text_format is TextFormat.OPEN_METRICS else text_string_to_metric_families
    return Scraped(parse(page))


async def scraped(node: BrokerNode) -> Scraped:
    return parsed(await text(node))
