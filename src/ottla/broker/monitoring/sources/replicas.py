"""Values of the metrics of topics, replicas, replica fetchers and partitions."""

from __future__ import annotations

from ottla.broker.monitoring.metric import Samples, Source
from ottla.broker.monitoring.scrape import Scrape, is_at_min_isr, is_under_min_isr, is_under_replicated

FETCHER = "Replica"
"""The value of the label `clientId` of replica fetchers: that of Kafka's ReplicaFetcherManager."""


def per_topic(name: str) -> Source:
    """Return a function that yields the counter with this name in `TopicStats`: the total, and that of each topic."""

    def source(scrape: Scrape) -> Samples:
        stats = scrape.context.partitions.topic_stats
        total = getattr(stats.get(None), name)
        for topic, counters in list(stats.topics.items()):
            value = getattr(counters, name)
            total += value
            yield (topic,), value
        yield (), total

    return source


def of_all_topics(name: str) -> Source:
    """Return a function that yields the total over all topics of the counter with this name in `TopicStats`."""

    def source(scrape: Scrape) -> Samples:
        stats = scrape.context.partitions.topic_stats
        yield (), sum(getattr(counters, name) for counters in (stats.get(None), *stats.topics.values()))

    return source


def partition_count(scrape: Scrape) -> int:
    return len(scrape.partitions)


def leader_count(scrape: Scrape) -> int:
    return scrape.replicas.leaders


def under_replicated(scrape: Scrape) -> int:
    return scrape.replicas.under_replicated


def under_min_isr(scrape: Scrape) -> int:
    return scrape.replicas.under_min_isr


def at_min_isr(scrape: Scrape) -> int:
    return scrape.replicas.at_min_isr


def reassigning(scrape: Scrape) -> int:
    return scrape.replicas.reassigning


def offline_replicas(scrape: Scrape) -> int:
    return len(scrape.context.partitions.offline_replicas())


def producer_ids(scrape: Scrape) -> int:
    return scrape.replicas.producer_ids


def isr_shrinks(scrape: Scrape) -> int:
    return 0 if scrape.broker.isr_updates is None else scrape.broker.isr_updates.shrinks


def isr_expansions(scrape: Scrape) -> int:
    return 0 if scrape.broker.isr_updates is None else scrape.broker.isr_updates.expansions


def failed_isr_updates(scrape: Scrape) -> int:
    return 0 if scrape.broker.isr_updates is None else scrape.broker.isr_updates.failed_updates


def max_lag(scrape: Scrape) -> Samples:
    fetchers = scrape.broker.fetchers
    yield (FETCHER,), 0 if fetchers is None else max((follower.lag for follower in fetchers.followers), default=0)


def failing_followers(scrape: Scrape) -> Samples:
    fetchers = scrape.broker.fetchers
    yield (FETCHER,), 0 if fetchers is None else sum(follower.is_failing for follower in fetchers.followers)


def follower_lag(scrape: Scrape) -> Samples:
    fetchers = scrape.broker.fetchers
    for follower in () if fetchers is None else fetchers.followers:
        yield (FETCHER, follower.tp.topic, str(follower.tp.partition)), follower.lag


def partition_under_replicated(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), int(is_under_replicated(partition))


def partition_under_min_isr(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), int(is_under_min_isr(partition))


def partition_at_min_isr(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), int(is_at_min_isr(partition))


def partition_replicas(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), len(partition.image.replicas) if partition.leads else 0


def partition_in_sync(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp = partition.topic_partition
        yield (tp.topic, str(tp.partition)), len(partition.image.isr) if partition.leads else 0


def last_stable_offset_lag(scrape: Scrape) -> Samples:
    for partition in scrape.partitions:
        tp, log = partition.topic_partition, partition.log
        yield (tp.topic, str(tp.partition)), log.high_watermark - log.last_stable_offset
