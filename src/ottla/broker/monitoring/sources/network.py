"""Values of the metrics of connections and of the memory that received requests use."""

from __future__ import annotations

from ottla.broker.monitoring.metric import Samples, Source
from ottla.broker.monitoring.scrape import Scrape

PROCESSOR = "0"
"""The value of the label `networkProcessor`: the event loop is the only network processor."""


def connections(scrape: Scrape) -> Samples:
    for listener in scrape.broker.listeners:
        yield (listener.name, PROCESSOR), len(listener.connections)


def counted(name: str) -> Source:
    """Return a function that yields the counter with this name in `ConnectionCounts`, by listener."""

    def source(scrape: Scrape) -> Samples:
        for listener in scrape.broker.listeners:
            yield (listener.name, PROCESSOR), getattr(listener.counts, name)

    return source


def expired(scrape: Scrape) -> int:
    return sum(listener.counts.expired for listener in scrape.broker.listeners)


def rejected(scrape: Scrape) -> Samples:
    for listener in scrape.broker.listeners:
        yield (listener.name,), listener.counts.rejected


def blocked(scrape: Scrape) -> Samples:
    for listener in scrape.broker.listeners:
        yield (listener.name,), listener.blocked_seconds


def memory_used(scrape: Scrape) -> int:
    return scrape.broker.memory.used


def memory_available(scrape: Scrape) -> int | float:
    memory = scrape.broker.memory
    return max(0, memory.limit - memory.used) if memory.limit > 0 else float("inf")
