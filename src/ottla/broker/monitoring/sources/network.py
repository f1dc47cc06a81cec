"""Sources of the metrics of connections and of the memory of requests."""

from __future__ import annotations

from ottla.broker.monitoring.metric import Samples, Source
from ottla.broker.monitoring.scrape import Scrape

PROCESSOR = "0"
"""The only network processor: the event loop."""


def connections(scrape: Scrape) -> Samples:
    for listener in scrape.broker.listeners:
        yield (listener.name, PROCESSOR), len(listener.connections)


def counted(name: str) -> Source:
    """Return the source of a counter of `ConnectionCounts`, by listener."""

    def source(scrape: Scrape) -> Samples:
        for listener in scrape.broker.listeners:
            yield (listener.name, PROCESSOR), getattr(listener.counts, name)

    return source


def expired(scrape: Scrape) -> int:
    return sum(listener.counts.expired for listener in scrape.broker.listeners)


def rejected(scrape: Scrape) -> Samples:
    for listener in scrape.broker.listeners:
        yield (listener.name,), listener.counts.rejected


def memory_used(scrape: Scrape) -> int:
    return scrape.broker.memory.used


def memory_available(scrape: Scrape) -> int | float:
    memory = scrape.broker.memory
    return max(0, memory.limit - memory.used) if memory.limit > 0 else float("inf")
