"""Bytes per second of topics and brokers, from the pages for Prometheus of brokers.

Kafka's protocol has no rates in bytes. A page has the names that the rules of Prometheus' JMX exporter for Kafka make,
so that brokers of Ottla and those of Apache Kafka with the exporter are read alike.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

from ottla.errors import ConfigurationError
from ottla_console.cluster.samples import RateMeter

log = logging.getLogger("ottla.console")

COUNTERS: Final = {
    "kafka_server_brokertopicmetrics_bytesin_total": "in",
    "kafka_server_brokertopicmetrics_bytesout_total": "out",
}
"""Counters of pages, and the directions that they count."""
SAMPLE: Final = re.compile(r'(\w+)(?:\{(?:[^}]*,)?topic="([^"]+)"[^}]*\}|\{\})? ([0-9.eE+]+)(?: \d+)?')
"""A sample of one topic, or of all; topics' names need no escapes."""
FETCH_SECONDS: Final = 5.0
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_TOPICS: Final = 1_000
"""Topics with a series, beside those that were viewed: the busiest ones."""


def series(direction: str, topic: str) -> str:
    """Return the name of a topic's series; of all topics if the name is empty."""
    return f"{direction}/{topic}"


def broker_series(direction: str, address: str) -> str:
    """Return the name of a broker's series."""
    return f"{direction}@{address}"


class BytePages:
    """The pages of all brokers.

    Args:
        addresses: `HOST:PORT`, or a URL with http or https.
        credentials: `user:password` for basic authentication.
    """

    def __init__(self, addresses: Sequence[str], credentials: str = "") -> None:
        self.addresses = tuple(addresses)
        self._urls = [_url(address) for address in addresses]
        self._headers = {"Accept": "text/plain"}
        if credentials:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        self._meter = RateMeter()
        self.errors: dict[str, str] = {}
        """The reasons of pages that could not be read, by address."""

    async def rates(self, now: float, viewed: Sequence[str]) -> dict[str, float] | None:
        """Read the pages, and return the rates since the last call, by series; None at first."""
        pages = await asyncio.gather(*map(self._counters, self.addresses, self._urls))
        ends: dict[tuple[str, int], int] = {}
        for index, (address, counters) in enumerate(zip(self.addresses, pages, strict=True)):
            for (direction, topic), value in counters.items():
                ends[series(direction, topic), index] = int(value)
                if not topic:
                    ends[broker_series(direction, address), index] = int(value)
        rates = self._meter.rates(now, ends)
        return None if rates is None else _chosen(rates, viewed)

    async def _counters(self, address: str, url: str) -> Mapping[tuple[str, str], float]:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                counters = counters_of(await asyncio.to_thread(self._read, url))
        except (OSError, ValueError) as error:
            self.errors[address] = str(error) or type(error).__name__
            log.debug("No metrics from %s: %s", address, error)
            return {}
        self.errors.pop(address, None)
        return counters

    def _read(self, url: str) -> str:
        request = urllib.request.Request(url, headers=self._headers)
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:
            body: bytes = response.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ValueError("the page is too large")
        return body.decode()


def counters_of(text: str) -> dict[tuple[str, str], float]:
    """Return the counters of a page by direction and topic; the topic is empty for all topics."""
    counters: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if line.startswith("kafka_server_brokertopicmetrics_bytes"):
            match = SAMPLE.fullmatch(line)
            if match is not None and match[1] in COUNTERS:
                counters[COUNTERS[match[1]], match[2] or ""] = float(match[3])
    return counters


def _chosen(rates: Mapping[str, float], viewed: Sequence[str]) -> dict[str, float]:
    """Return the series of brokers, of all topics, of viewed ones and of the busiest others."""
    topics = {name: rate for name, rate in rates.items() if "@" not in name and not name.endswith("/")}
    chosen = {name: rate for name, rate in rates.items() if name not in topics}
    for topic in viewed:
        names = (series(direction, topic) for direction in COUNTERS.values())
        chosen |= {name: topics[name] for name in names if name in topics}
    chosen |= sorted(topics.items(), key=lambda item: -item[1])[:MAX_TOPICS]
    return chosen


def _url(address: str) -> str:
    """Return the URL of a page that is reduced to the counters, if the server knows how to."""
    url = address if "://" in address else f"http://{address}/metrics"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ConfigurationError(
            f"--broker-metrics: {address!r} is not allowed: expected HOST:PORT, or a URL such as "
            "https://broker-1:9644/metrics"
        )
    return f"{url}?{urlencode([('name[]', name) for name in COUNTERS])}"
