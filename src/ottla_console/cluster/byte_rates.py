"""Bytes per second of topics and brokers, from the Prometheus metrics of the brokers.

Kafka's protocol has no request for them. The names of the metrics are those of Kafka's rules for Prometheus' JMX
exporter, so that brokers of Ottla and brokers of Apache Kafka with the exporter can be read.
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
"""The counters to read, and the direction that each one counts."""
SAMPLE: Final = re.compile(r'(\w+)(?:\{(?:[^}]*,)?topic="([^"]+)"[^}]*\}|\{\})? ([0-9.eE+]+)(?: \d+)?')
"""A sample of one topic, or of all topics together. Topic names contain no characters that are escaped."""
FETCH_SECONDS: Final = 5.0
MAX_BYTES: Final = 32 * 1024 * 1024
MAX_TOPICS: Final = 1_000
"""The maximum number of topics with series, in addition to those that were viewed: those with the highest rates."""


def series(direction: str, topic: str) -> str:
    """Return the name of the series of a topic. An empty `topic` stands for all topics."""
    return f"{direction}/{topic}"


def broker_series(direction: str, address: str) -> str:
    """Return the name of the series of a broker."""
    return f"{direction}@{address}"


class BytePages:
    """Reads the metrics of all brokers.

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
        """The errors of brokers whose metrics could not be read, by address."""

    async def rates(self, now: float, viewed: Sequence[str]) -> dict[str, float] | None:
        """Read the metrics, and return the rates in bytes per second since the last call, by series. Return None for
        the first call.

        `viewed` are topics whose series are always returned.
        """
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
            log.debug("Cannot read metrics from %s: %s", address, error)
            return {}
        self.errors.pop(address, None)
        return counters

    def _read(self, url: str) -> str:
        request = urllib.request.Request(url, headers=self._headers)
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:
            body: bytes = response.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ValueError("the response is too large")
        return body.decode()


def counters_of(text: str) -> dict[tuple[str, str], float]:
    """Return the counters in Prometheus' text format by direction and topic. An empty topic stands for all topics."""
    counters: dict[tuple[str, str], float] = {}
    for line in text.splitlines():
        if line.startswith("kafka_server_brokertopicmetrics_bytes"):
            match = SAMPLE.fullmatch(line)
            if match is not None and match[1] in COUNTERS:
                counters[COUNTERS[match[1]], match[2] or ""] = float(match[3])
    return counters


def _chosen(rates: Mapping[str, float], viewed: Sequence[str]) -> dict[str, float]:
    """Return the series of brokers, of all topics together, of viewed topics, and of the topics with the highest
    rates.
    """
    topics = {name: rate for name, rate in rates.items() if "@" not in name and not name.endswith("/")}
    chosen = {name: rate for name, rate in rates.items() if name not in topics}
    for topic in viewed:
        names = (series(direction, topic) for direction in COUNTERS.values())
        chosen |= {name: topics[name] for name in names if name in topics}
    chosen |= sorted(topics.items(), key=lambda item: -item[1])[:MAX_TOPICS]
    return chosen


def _url(address: str) -> str:
    """Return the URL of the metrics. Its query selects the counters, if the server supports that. Raises
    ConfigurationError.
    """
    url = address if "://" in address else f"http://{address}/metrics"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ConfigurationError(
            f"--broker-metrics: {address!r} is invalid: expected HOST:PORT, or a URL such as "
            "https://broker-1:9644/metrics"
        )
    return f"{url}?{urlencode([('name[]', name) for name in COUNTERS])}"
