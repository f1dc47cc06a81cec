"""Bytes per second of topics and brokers, from the Prometheus metrics of the brokers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from ottla_console.cluster.samples import RateMeter

COUNTERS: Final = {
    "kafka_server_brokertopicmetrics_bytesin_total": "in",
    "kafka_server_brokertopicmetrics_bytesout_total": "out",
}
"""The counters to read, and the direction that each one counts."""
SAMPLE: Final = re.compile(r'(\w+)(?:\{(?:[^}]*,)?topic="([^"]+)"[^}]*\}|\{\})? ([0-9.eE+]+)(?: \d+)?')
"""A sample of one topic, or of all topics together. Topic names contain no characters that are escaped."""
MAX_TOPICS: Final = 1_000
"""The maximum number of series of topics, chosen by the highest rates; each topic has two series. The series of viewed
topics are included in addition.
"""


def series(direction: str, topic: str) -> str:
    """Return the name of the series of a topic. An empty `topic` stands for all topics."""
    return f"{direction}/{topic}"


def broker_series(direction: str, address: str) -> str:
    """Return the name of the series of a broker."""
    return f"{direction}@{address}"


class ByteMeter:
    """Computes bytes per second from the metrics pages of all brokers at two times."""

    def __init__(self) -> None:
        self._meter = RateMeter()

    def rates(self, now: float, pages: Mapping[str, str], viewed: Sequence[str]) -> dict[str, float] | None:
        """Return the rates in bytes per second since the last call, by series. Return None for the first call, or if no
        time has passed.

        `pages`: the metrics by address. `viewed`: topics whose series are always returned.
        """
        ends: dict[tuple[str, int], int] = {}
        for index, (address, page) in enumerate(pages.items()):
            for (direction, topic), value in counters_of(page).items():
                ends[series(direction, topic), index] = int(value)
                if not topic:
                    ends[broker_series(direction, address), index] = int(value)
        rates = self._meter.rates(now, ends)
        return None if rates is None else _chosen(rates, viewed)


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
    """Return the series of brokers, of all topics together and of viewed topics, and the MAX_TOPICS series of topics
    with the highest rates.
    """
    topics = {name: rate for name, rate in rates.items() if "@" not in name and not name.endswith("/")}
    chosen = {name: rate for name, rate in rates.items() if name not in topics}
    for topic in viewed:
        names = (series(direction, topic) for direction in COUNTERS.values())
        chosen |= {name: topics[name] for name in names if name in topics}
    chosen |= sorted(topics.items(), key=lambda item: -item[1])[:MAX_TOPICS]
    return chosen
