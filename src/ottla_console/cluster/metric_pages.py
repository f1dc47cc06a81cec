"""The Prometheus metrics of the brokers, for example of traffic, rebalances, quotas and flushes.

Except those that begin with ottla_ or kafka_consumergroup_, the names of the metrics are those of Kafka's rules for
Prometheus' JMX exporter, so that brokers of Ottla and brokers of Apache Kafka with the exporter can be read.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from typing import Final, NamedTuple
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit

from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.console")

UNDER_MIN_ISR: Final = "kafka_server_replicamanager_underminisrpartitioncount"
LINE: Final = re.compile(r"(\w+)(?:\{(.*)\})? ([0-9.eE+-]+)(?: \d+)?")
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
ESCAPED: Final = re.compile(r"\\(.)")
FETCH_SECONDS: Final = 5.0
MAX_BYTES: Final = 32 * 1024 * 1024


class MetricSample(NamedTuple):
    """A line of a page: the name of a metric, its labels, and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


class MetricPages:
    """Reads the metrics of all brokers.

    Args:
        addresses: `HOST:PORT`, or a URL with http or https.
        names: the metrics to read, if the server supports a selection.
        credentials: `user:password` for basic authentication.
    """

    def __init__(self, addresses: Sequence[str], names: Sequence[str], credentials: str = "") -> None:
        self.addresses = tuple(addresses)
        self._urls = [_url(address, names) for address in addresses]
        self._headers = {"Accept": "text/plain"}
        if credentials:
            self._headers["Authorization"] = "Basic " + base64.b64encode(credentials.encode()).decode()
        self.errors: dict[str, str] = {}
        """The errors of brokers whose metrics could not be read, by address."""

    async def read(self) -> dict[str, str]:
        """Return the page of each address. A page that cannot be read is empty."""
        pages = await asyncio.gather(*map(self._page, self.addresses, self._urls))
        return dict(zip(self.addresses, pages, strict=True))

    async def _page(self, address: str, url: str) -> str:
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                page = await asyncio.to_thread(self._fetch, url)
        except (OSError, ValueError, HTTPException) as error:
            reason = error.reason if type(error) is URLError else error
            self.errors[address] = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
            log.debug(
                "Cannot read metrics from %s; trying again at the next interval: %s", address, self.errors[address]
            )
            return ""
        self.errors.pop(address, None)
        return page

    def _fetch(self, url: str) -> str:
        request = urllib.request.Request(url, headers=self._headers)
        with urllib.request.urlopen(request, timeout=FETCH_SECONDS) as response:
            body: bytes = response.read(MAX_BYTES + 1)
        if len(body) > MAX_BYTES:
            raise ValueError("the response is too large")
        return body.decode()


def samples_of(page: str, prefix: str) -> Iterator[MetricSample]:
    """Yield the samples whose names begin with `prefix` from a page in Prometheus' text format."""
    for line in page.split("\n"):  # splitlines would also split at characters within labels
        if line.startswith(prefix):
            match = LINE.fullmatch(line)
            if match is not None:
                labels = {name: ESCAPED.sub(_unescaped, value) for name, value in LABEL.findall(match[2] or "")}
                yield MetricSample(match[1], labels, float(match[3]))


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _url(address: str, names: Sequence[str]) -> str:
    """Return the URL of the metrics. Its query selects those of `names`. Raises ConfigurationError for an invalid
    address.
    """
    url = address if "://" in address else f"http://{address}/metrics"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ConfigurationError(
            f"--broker-metrics: {address!r} is invalid: expected HOST:PORT, or a URL such as "
            "https://broker-1:9644/metrics"
        )
    return f"{url}?{urlencode([('name[]', name) for name in names])}"
