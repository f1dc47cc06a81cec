"""Values of the metrics of the controller, and of the metadata store and its connection to ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.monitoring.metric import Samples
from ottla.broker.monitoring.scrape import Scrape

if TYPE_CHECKING:
    from ottla.cluster.store.zookeeper_store import ZooKeeperMetadataStore


def is_active(scrape: Scrape) -> int:
    return int(scrape.context.controller.is_active)


def topics(scrape: Scrape) -> int:
    return scrape.cluster.topics


def partitions(scrape: Scrape) -> int:
    return scrape.cluster.partitions


def offline_partitions(scrape: Scrape) -> int:
    return scrape.cluster.offline


def imbalanced(scrape: Scrape) -> int:
    return scrape.cluster.not_preferred


def topics_to_delete(scrape: Scrape) -> int:
    return len(scrape.context.image.deleting) if is_active(scrape) else 0


def active_brokers(scrape: Scrape) -> int:
    image = scrape.context.image
    return len(image.brokers.keys() - image.shutting_down) if is_active(scrape) else 0


def fenced_brokers(scrape: Scrape) -> int:
    image = scrape.context.image
    return len(image.brokers.keys() & image.shutting_down) if is_active(scrape) else 0


def election_times(scrape: Scrape) -> Samples:
    yield (), scrape.context.controller.election_times.snapshot(scrape.now)


def unclean_elections(scrape: Scrape) -> int:
    return scrape.context.controller.unclean_elections


def _zookeeper(scrape: Scrape) -> ZooKeeperMetadataStore | None:
    """Return the metadata store if it is ZooKeeper, else None.

    It is recognized by an attribute, so that brokers without ZooKeeper do not import the module of the class.
    """
    store: Any = scrape.broker.store
    return store if hasattr(store, "request_times") else None


def zookeeper_times(scrape: Scrape) -> Samples:
    store = _zookeeper(scrape)
    if store is not None:
        yield (), store.request_times.snapshot(scrape.now)


def zookeeper_state(scrape: Scrape) -> Samples:
    store = _zookeeper(scrape)
    if store is not None:
        yield (store.state,), 1


def zookeeper_disconnects(scrape: Scrape) -> int | None:
    store = _zookeeper(scrape)
    return None if store is None else store.disconnects


def zookeeper_expirations(scrape: Scrape) -> int | None:
    store = _zookeeper(scrape)
    return None if store is None else store.expirations


def store_unavailable(scrape: Scrape) -> int:
    store: Any = scrape.broker.store
    return int(bool(store.waits_for))
